"""The plan of a session: the cells that its nodes ask for, its shard of them, and their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.protocol.plan import Cell, plan
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.manifest import PlannedNode, SessionPlan, write_plan
from pytest_vla_shift.shards import EpisodeGroup, divide, weigh

if TYPE_CHECKING:
    from pytest_vla_shift.options import RunConfig
    from pytest_vla_shift.rollouts.engine import Engine

Node = tuple[str, Suite, Cell]
"""Node id, suite and cell of a node that asks for a pair."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What pytest has collected and selected, of this shard and of the others.

    Attributes:
        nodes: all that ask for a pair, in order.
        elsewhere: ids of the nodes that other shards run; empty without shards.
    """

    nodes: tuple[Node, ...]
    elsewhere: frozenset[str] = frozenset()

    @property
    def own(self) -> list[Node]:
        """The nodes that this run runs."""
        return [node for node in self.nodes if node[0] not in self.elsewhere]


def keep_shard(
    items: list[pytest.Item],
    cells: Mapping[str, Cell],
    nodes: Sequence[Node],
    shard: tuple[int, int],
) -> tuple[Selection, list[pytest.Item]]:
    """Take the items of the other shards out of ``items``.

    A node that is no cell, as an ordinary test or an audit, belongs to the first shard.

    Args:
        items: what pytest has selected; only this shard's are left in it.
        cells: node id -> cell, of all items that are one, whether they ask for a pair or not.
        nodes: those that do.
        shard: ``(i, n)``.

    Returns:
        The selection, and the items that were taken out.
    """
    index, count = shard
    weights = {EpisodeGroup.of(cell): 1 for cell in cells.values()}
    weights.update(weigh(cell for *_, cell in nodes))
    shards = divide(weights, count)
    owner = {node: shards[EpisodeGroup.of(cell)] for node, cell in cells.items()}
    others = [item for item in items if owner.get(item.nodeid, 1) != index]
    items[:] = [item for item in items if owner.get(item.nodeid, 1) == index]
    return Selection(tuple(nodes), frozenset(item.nodeid for item in others)), others


def write_session_plan(
    path: Path,
    engine: Engine,
    run: RunConfig,
    suites: Mapping[str, Suite],
    selection: Selection,
    runs: frozenset[str],
) -> None:
    """Write the plan of a session.

    Args:
        path: where to.
        engine: for the keys of its policy and simulators.
        run: what was asked for.
        suites: those that were loaded, by name.
        selection: what was collected.
        runs: ids of the items that are left now that every plugin has had its say.
    """
    own: list[PlannedNode] = []
    others: list[tuple[int, PlannedNode]] = []
    for node, suite, cell in selection.nodes:
        if node in selection.elsewhere:
            others.append((len(own) + len(others), _planned_node(node, engine, suite, cell)))
        elif node in runs:
            own.append(_planned_node(node, engine, suite, cell))
    infos = {suite.simulator: engine.info(suite) for suite in suites.values()}
    write_plan(
        path,
        SessionPlan(
            policy={**asdict(engine.policy.spec), "args": dict(run.policy_args)},
            versions={k: v for info in infos.values() for k, v in info.versions.items()},
            renderers={name: info.renderer for name, info in infos.items()},
            protocols={s.name: s.protocol_digest for s in suites.values()},
            grid={s.name: len(plan(s, extras=run.extras)) for s in suites.values()},
            suites={s.name: s.text for s in suites.values()},
            nodes=tuple(own),
            shard=run.shard,
            others=tuple(others),
        ),
    )


def _planned_node(node: str, engine: Engine, suite: Suite, cell: Cell) -> PlannedNode:
    condition = cell.condition
    return PlannedNode(
        node,
        suite.name,
        cell.id,
        cell.episode.task_suite,
        cell.episode.task,
        cell.episode.index,
        condition.name,
        condition.axis,
        condition.level,
        cell.replicate,
        condition.axes,
        engine.clean_request(suite, cell).key,
        engine.request(suite, cell).key,
    )
