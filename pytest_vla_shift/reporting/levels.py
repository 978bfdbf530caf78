"""How success goes with the level of an axis, and with the task: as it is, with its counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.markup import table
from pytest_vla_shift.statistics.aggregate import ConditionAggregate, TaskRates
from pytest_vla_shift.statistics.report import SuiteReport

ROUNDING = 1e-9
"""Rates are shares of the same tasks: what differs by less is rounding."""

Axis = list[ConditionAggregate]


def by_axis(conditions: Iterable[ConditionAggregate]) -> dict[str, Axis]:
    """Name of an axis or compound, with ``r1`` for a replicate -> its levels, in their order."""
    found: dict[str, Axis] = {}
    for item in conditions:
        if item.axis is not None and item.level is not None:
            name = item.axis + (f" r{item.replicate}" if item.replicate else "")
            found.setdefault(name, []).append(item)
    return {name: sorted(items, key=lambda item: item.level or "") for name, items in found.items()}


def shape_table(suite: SuiteReport) -> str:
    """A row an axis: successes and dSR with its interval at every level, and the shape of them."""
    axes = by_axis(suite.conditions)
    levels = _levels(axes)
    header = ("condition", "clean", *levels, "from level to level", "interval above 0")
    return table(header, (_shape_row(name, items, levels) for name, items in axes.items()))


def _levels(axes: dict[str, Axis]) -> list[str]:
    return sorted({item.level or "" for items in axes.values() for item in items})


def _shape_row(name: str, items: Axis, levels: Sequence[str]) -> list[str]:
    found = {item.level: item for item in items}
    cells = [_cell(found[level]) if level in found else numbers.NONE for level in levels]
    clean = {f"{item.ss + item.sf}/{item.pairs}" for item in items}
    degraded = [item.level or "" for item in items if _is_degraded(item)]
    return [
        name,
        ", ".join(sorted(clean)),
        *cells,
        shape(items),
        ", ".join(degraded) or "at no level",
    ]


def _cell(item: ConditionAggregate) -> str:
    mark = " =" if item.is_identity else ""
    return f"{item.ss + item.fs}/{item.pairs}{mark}, {numbers.degradation(item)}"


def _is_degraded(item: ConditionAggregate) -> bool:
    bounds = item.tango if item.degenerate else item.interval
    return bounds is not None and bounds[0] > 0.0


def shape(items: Sequence[ConditionAggregate]) -> str:
    """Whether shifted success falls with the level; where it rises, between which levels.

    Args:
        items: the levels of one axis, in their order. Those without a measured pair are left out.
    """
    rates = [(item.level or "", item.sr_shifted) for item in items if item.sr_shifted is not None]
    steps = [(f"{a} to {b}", after - before) for (a, before), (b, after) in pairwise(rates)]
    rises = [name for name, change in steps if change > ROUNDING]
    falls = [name for name, change in steps if change < -ROUNDING]
    if not steps:
        return numbers.NONE
    if rises:
        return f"rises from {', '.join(rises)}"
    if not falls:
        return "stays"
    return "falls" if len(falls) == len(steps) else "falls or stays"


def success_table(suite: SuiteReport) -> str:
    """Tasks by axes: successes of measured pairs, of the clean arm and at each level."""
    axes = by_axis(suite.conditions)
    names = sorted({(t.task_suite, t.task) for item in suite.conditions for t in item.tasks})
    several = len({task_suite for task_suite, _ in names}) > 1
    header = [f"{name} {' '.join(i.level or '' for i in items)}" for name, items in axes.items()]
    rows = []
    for task_suite, task in names:
        found = {
            name: [_task(item, task_suite, task) for item in items] for name, items in axes.items()
        }
        # One rollout an episode; it differs between conditions only where errors took pairs away.
        clean = dict.fromkeys(
            _count(rates.sr_clean, rates.pairs)
            for here in found.values()
            for rates in here
            if rates is not None and rates.pairs
        )
        cells = (
            " ".join(
                _count(rates.sr_shifted, rates.pairs) if rates is not None else numbers.NONE
                for rates in here
            )
            for here in found.values()
        )
        name = f"{task_suite}/{task}" if several else task
        rows.append((name, ", ".join(clean) or numbers.NONE, *cells))
    return table(("task", "clean", *header), rows)


def _task(item: ConditionAggregate, task_suite: str, task: str) -> TaskRates | None:
    return next((t for t in item.tasks if (t.task_suite, t.task) == (task_suite, task)), None)


def _count(rate: float | None, pairs: int) -> str:
    return f"{round((rate or 0.0) * pairs)}/{pairs}"
