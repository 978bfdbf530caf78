"""What ``--vla-list`` prints: the plan, its rollouts, and how long they may take."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.protocol.conditions import NOMINAL
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import Cell, PlanCost, cost
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.store import Store

ASSUMED_S = 4.0
"""Seconds a rollout, before this run has measured any: two CPU cores, software rendering."""


def plan_lines(planned: Sequence[tuple[Suite, Cell]], run: RunConfig, workers: int) -> list[str]:
    """The plan of every suite, then the sum.

    Args:
        planned: every node's suite and cell, after ``-k`` and ``-m``.
        run: for the records from which a rollout's time is estimated.
        workers: processes that share the work.
    """
    if not planned:
        return ["no node is left: nothing would run"]
    lines: list[str] = []
    everything = [cell for _, cell in planned]
    suites = {suite.name: suite for suite, _ in planned}
    for name, suite in sorted(suites.items()):
        cells = [cell for cell in everything if cell.suite == name]
        counted = cost(cells)
        lines += [
            f"{suite.name}: {suite.title}",
            f"  protocol {suite.protocol_digest}, simulator {suite.simulator}",
        ]
        for task_suite, task in sorted({(c.episode.task_suite, c.episode.task) for c in cells}):
            here = [
                c for c in cells if (c.episode.task_suite, c.episode.task) == (task_suite, task)
            ]
            episodes = sorted({c.episode.index for c in here})
            lines.append(f"  {task_suite}/{task}")
            lines.append(f"    episodes {_ranges(episodes)}, horizon {suite.horizons[task_suite]}")
        lines += [f"  {text}" for text in _axes(cells)]
        lines += _cost_lines(counted)
    total = cost(everything)
    per_rollout, source = _seconds_per_rollout(run)
    lanes = max(run.envs, 1)
    seconds = total.rollouts * per_rollout / (workers * lanes)
    at_once = f", {lanes} rollouts at once in each" if lanes > 1 else ""
    if len(suites) > 1:
        lines += ["all suites:", *_cost_lines(total)]
    lines += [
        f"  about {_duration(seconds)} with {workers} process(es){at_once}",
        f"  at {per_rollout:.1f} s a rollout ({source})",
    ]
    return lines


def _axes(cells: list[Cell]) -> list[str]:
    """``axis camera: L1 L2 L3`` for each axis that is left, null first, compounds last."""
    levels: dict[str, dict[str, None]] = {}
    for cell in cells:
        condition = cell.condition
        if condition.name == NOMINAL.name:
            continue
        kind = "compound" if condition.is_compound else "axis"
        found = levels.setdefault(f"{kind} {condition.axis or condition.name}", {})
        if condition.level is not None:
            found[condition.level] = None
    lines = [f"{name}{': ' if found else ''}{' '.join(found)}" for name, found in levels.items()]
    nominal = sum(cell.condition.name == NOMINAL.name for cell in cells)
    if nominal:
        lines.append(f"nominal pass: {nominal} initial states")
    if any(cell.replicate for cell in cells):
        lines.append("replicate: every compared cell again with another policy seed")
    return lines


def _cost_lines(counted: PlanCost) -> list[str]:
    return [
        f"  {counted.nodes} nodes, {counted.rollouts} rollouts:"
        f" {counted.shifted} shifted or null, {counted.clean} clean",
        f"  (sharing saves {counted.saved} clean rollouts)",
    ]


def _seconds_per_rollout(run: RunConfig) -> tuple[float, str]:
    nothing = ASSUMED_S, "assumed, since nothing is recorded in this run yet"
    if not (run.directory / "rollouts").is_dir():
        return nothing
    try:
        records = Store(run.directory, "listing").records().values()
    except UsageError:
        return ASSUMED_S, "assumed, since this run's records cannot be used"
    walls = [r.timing["wall"] for r in records if r.status == "done" and "wall" in r.timing]
    if not walls:
        return nothing
    return sum(walls) / len(walls), f"the mean of {len(walls)} recorded in this run"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _ranges(numbers: list[int]) -> str:
    """``0-9, 12`` of ``[0, ..., 9, 12]``."""
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        if number is not None:
            start = previous = number
    return ", ".join(parts)
