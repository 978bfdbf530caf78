"""From a test function to its cells: which suite a module runs, and one parameter a node."""

from __future__ import annotations

import re
from collections import Counter
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.plan import Cell

NO_POLICY = (
    "robustness suite: give it a policy, for example pytest --vla-policy=tiny {where}"
    " (--vla-list shows the plan)"
)
_PARAMETER = "no-policy"


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Give ``metafunc`` one call a cell of its suite; leave functions without a suite alone."""
    if not _is_ours(metafunc) or not _has_suite(metafunc.definition):
        return
    # Loads numpy: not for a project whose own tests happen to have an argument of this name.
    from pytest_vla_shift.hooks import find_session

    session = find_session(metafunc.config)
    if session is None:
        _check_mark(metafunc.definition)
        where = relpath(metafunc.definition.path.parent, metafunc.config.invocation_params.dir)
        skip = pytest.mark.skip(reason=NO_POLICY.format(where=where))
        metafunc.parametrize("cell", [pytest.param(_PARAMETER, marks=skip)])
        return
    try:
        _, cells = session.load_suite(suite_reference(metafunc.definition))
    except UsageError as error:
        # pytest would report this as an error of the module; it is told once, as a usage error,
        # when collection is done.
        session.usage_error(str(error))
        cells = []
    metafunc.parametrize("cell", [parameter(cell) for cell in cells])


def _check_mark(item: pytest.Item) -> None:
    """A malformed mark is told even where nothing runs."""
    try:
        suite_reference(item)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


def _is_ours(metafunc: pytest.Metafunc) -> bool:
    """Whether the argument ``cell`` is this plugin's, not a project's own fixture or parameter."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if "cell" in (re.split(r"[\s,]+", names) if isinstance(names, str) else names):
            return False
    # pytest has no public way to ask which fixture a name stands for.
    definitions = getattr(metafunc, "_arg2fixturedefs", {}).get("cell", ())
    return not definitions or definitions[-1].func.__module__ == "pytest_vla_shift.fixtures"


def print_skips(terminal: pytest.TerminalReporter) -> None:
    """One line for each reason: how many tests were skipped for want of a policy."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminal.stats["skipped"]
        if report.nodeid.endswith(f"[{_PARAMETER}]") and isinstance(report.longrepr, tuple)
    )
    for reason, count in sorted(reasons.items()):
        terminal.write_line(f"{count} test{'s' * (count > 1)} skipped: {reason}")


def parameter(cell: Cell) -> object:
    """The parameter of one node: the cell's id, with the ``vla`` mark to select by."""
    condition, episode = cell.condition, cell.episode
    mark = pytest.mark.vla(
        suite=cell.suite,
        task_suite=episode.task_suite,
        task=episode.task,
        episode=episode.index,
        condition=condition.name,
        axis=condition.axis or condition.name,
        level=condition.number,
        replicate=cell.replicate,
    )
    return pytest.param(cell.id, id=cell.id, marks=mark)


def _has_suite(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("vla_suite") is not None
    return marked or (item.path.parent / "suite.toml").is_file()


def suite_reference(item: pytest.Item) -> str | Path:
    """The shipped suite or the file that a test function runs: its mark decides, else the file
    ``suite.toml`` beside it.

    Raises:
        UsageError: the mark is malformed.
    """
    marker = item.get_closest_marker("vla_suite")
    if marker is None:
        return item.path.parent / "suite.toml"
    if len(marker.args) != 1 or marker.kwargs or not isinstance(marker.args[0], str):
        raise UsageError(
            f"{item.nodeid}: vla_suite takes one text: a shipped suite's name or a path"
        )
    named: str = marker.args[0]
    return item.path.parent / named if named.endswith(".toml") else named
