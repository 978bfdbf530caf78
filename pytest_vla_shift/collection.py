"""From a test function to its cells: which suite a module runs, and one parameter a node."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.plan import Cell

NO_POLICY = (
    "robustness suite: give it a policy, for example pytest --vla-policy=scripted {where}"
    " (--vla-list shows the plan)"
)


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Give ``metafunc`` one call a cell of its suite; leave functions without a suite alone."""
    reference = suite_reference(metafunc.definition)
    if reference is None:
        return
    # Loads numpy: not for a project whose own tests happen to have an argument of this name.
    from pytest_vla_shift.hooks import find_session

    session = find_session(metafunc.config)
    if session is None:
        where = relpath(metafunc.definition.path.parent, metafunc.config.invocation_params.dir)
        skip = pytest.mark.skip(reason=NO_POLICY.format(where=where))
        metafunc.parametrize("cell", [pytest.param("no-policy", marks=skip)])
        return
    try:
        _, cells = session.load_suite(reference)
    except UsageError as error:
        # pytest would report this as an error of the module; it is told once, as a usage error,
        # when collection is done.
        session.usage_error(str(error))
        cells = []
    metafunc.parametrize("cell", [parameter(cell) for cell in cells])


def parameter(cell: Cell) -> object:
    """The parameter of one node: the cell's id, with the ``vla`` mark to select by."""
    condition, episode = cell.condition, cell.episode
    mark = pytest.mark.vla(
        suite=cell.suite,
        task_suite=episode.task_suite,
        task=episode.task,
        episode=episode.index,
        condition=condition.name,
        axis="null" if condition.axis is None else condition.axis.name,
        level=0 if condition.level is None else condition.level.number,
    )
    return pytest.param(cell.id, id=cell.id, marks=mark)


def suite_reference(item: pytest.Item) -> str | Path | None:
    """The shipped suite or the file that a test function runs, or None if it runs none."""
    marker = item.get_closest_marker("vla_suite")
    if marker is not None:
        if len(marker.args) != 1 or marker.kwargs or not isinstance(marker.args[0], str):
            raise pytest.UsageError(
                f"{item.nodeid}: vla_suite takes one text: a shipped suite's name or a path"
            )
        named: str = marker.args[0]
        return item.path.parent / named if named.endswith(".toml") else named
    beside = item.path.parent / "suite.toml"
    return beside if beside.is_file() else None
