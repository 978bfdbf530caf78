"""A run's records as the rows of a long table, so that runs and tables meet in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, SIMULTANEOUS
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import SessionPlan
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.pairs import PairRow, PlannedPair, pair_rows, planned_pairs
from pytest_vla_shift.statistics.table import LongRow

NAMED = 3
"""How many missing cells are named before the rest is counted."""

NOT_RUN = "not run"
"""The error of an arm that was not run because the other arm had one."""

Axes = frozenset[str]


@dataclass(frozen=True, slots=True)
class RunTable:
    """The rows of a run.

    Attributes:
        rows: clean ones, nominal ones and shifted ones; numbered as the lines of a table with a
            header would be.
        notes: what the rows cannot say.
    """

    rows: tuple[LongRow, ...]
    notes: tuple[str, ...]


def run_rows(plan: SessionPlan, records: Mapping[str, RolloutRecord], source: str) -> RunTable:
    """Every rollout of ``plan`` as a row.

    A cell whose two arms are no pair (an error in either, other base states) has no outcome here
    either: its row has the error. A rollout that serves many cells is one row.

    Args:
        plan: of the run's latest session.
        records: key -> record. Those that no cell asks for are left out and counted.
        source: the run's name, for messages.

    Raises:
        UsageError: planned cells have no record, nothing is planned, or a record contradicts the
            plan.
    """
    cells = planned_pairs(plan.nodes)
    try:
        table = pair_rows(cells, records)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from error
    if table.missing:
        names = ", ".join(gap.planned.cell for gap in table.missing[:NAMED])
        more = f" and {len(table.missing) - NAMED} more" if len(table.missing) > NAMED else ""
        raise UsageError(
            f"{source}: {len(table.missing)} of {len(cells)} planned cells are missing:"
            f" {names}{more}. Run its command again: what is recorded is found"
        )
    if not table.rows:
        raise UsageError(f"{source}: nothing was planned")
    task_suites = {
        name: {cell.task_suite for cell in cells if cell.suite == name} for name in plan.suites
    }
    alone = {
        name: frozenset(c.axes[0] for c in cells if c.suite == name and len(c.axes) == 1)
        for name in plan.suites
    }
    policy = str(plan.policy["name"])
    found: dict[tuple[str, str, int, str, int], LongRow] = {}
    for row in table.rows:
        place = row.planned
        several = len(task_suites[place.suite]) > 1
        task = f"{place.task_suite}/{place.task}" if several else place.task
        for made in _rows(row, records, alone[place.suite]):
            named = replace(made, policy=policy, task=task)
            key = (named.suite, task, named.episode, named.condition, named.replicate)
            found[key] = _one(found.get(key), named)
    numbered = (replace(row, line=n) for n, row in enumerate(found.values(), 2))
    notes = (*_privileged(plan), *_identities(table.rows), *_unasked(cells, records))
    return RunTable(tuple(numbered), notes)


def _rows(row: PairRow, records: Mapping[str, RolloutRecord], alone: Axes) -> Iterator[LongRow]:
    planned = row.planned
    nominal = planned.condition == NOMINAL.name
    yield _unshifted(planned, NOMINAL.name if nominal else CLEAN.name, row, records)
    if nominal:
        return
    error = None
    if row.transition is None:
        error = (*row.error_kinds, NOT_RUN)[0]
        error = row.shifted_error or error
    axis = planned.axis or planned.condition
    if axis == SIMULTANEOUS and alone != frozenset(planned.axes):
        # In a table, simultaneous is of the axes that are there alone; here some were not run.
        axis = "+".join(planned.axes)
    record = records.get(planned.shifted_key)
    yield _row(planned, axis, planned.level, record, error)


def _unshifted(
    planned: PlannedPair, axis: str, row: PairRow, records: Mapping[str, RolloutRecord]
) -> LongRow:
    record = records.get(planned.clean_key)
    error = row.clean_error or (NOT_RUN if record is None else None)
    return _row(planned, axis, None, record, error)


def _row(
    planned: PlannedPair,
    axis: str,
    level: str | None,
    record: RolloutRecord | None,
    error: str | None,
) -> LongRow:
    stages = record.stages if record is not None and error is None else None
    known = stages is not None and bool(stages.milestones)
    return LongRow(
        line=0,
        suite=planned.suite,
        task=planned.task,
        episode=planned.episode,
        axis=axis,
        level=level,
        success=record.success if record is not None and error is None else None,
        error=error,
        milestones_done=len(stages.completed) if stages is not None and known else None,
        milestones=len(stages.milestones) if stages is not None and known else None,
        replicate=planned.replicate,
    )


def _one(before: LongRow | None, now: LongRow) -> LongRow:
    """Of two cells that one rollout serves, the one that knows its outcome."""
    return now if before is None or before.error == NOT_RUN else before


def _privileged(plan: SessionPlan) -> Iterator[str]:
    if plan.policy["privileged"]:
        yield (
            "the policy is privileged, it is given ground truth: rows of visual axes check the"
            " machinery, not robustness"
        )


def _identities(rows: Sequence[PairRow]) -> Iterator[str]:
    """An axis that changed nothing must not be read as one that the policy withstood."""
    counted = Counter(
        (row.planned.suite, axis, why)
        for row in rows
        if row.transition is not None
        for axis, why in row.identities
    )
    for (suite, axis, why), count in sorted(counted.items()):
        yield (
            f"{suite}: axis {axis} changed nothing in {count} pairs ({why}): they are the clean"
            " condition again, and compounds have one axis less"
        )


def _unasked(cells: Sequence[PlannedPair], records: Mapping[str, RolloutRecord]) -> Iterator[str]:
    asked = {key for cell in cells for key in (cell.clean_key, cell.shifted_key)}
    others = sum(key not in asked for key in records)
    if others:
        yield f"{others} recorded rollouts are outside the plan of the latest session and left out"
