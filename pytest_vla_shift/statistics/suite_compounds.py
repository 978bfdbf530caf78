"""From the pairs of a suite to its compounds: one report a compound, level and replicate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.compound import CompoundReport, compound
from pytest_vla_shift.statistics.outcomes import MISSING, Outcome, Outcomes
from pytest_vla_shift.statistics.pairs import PairRow, PairTable, PlannedPair
from pytest_vla_shift.statistics.replication import ReplicationReport, replication

CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class CompoundLevel:
    """One compound of a suite.

    Attributes:
        axis: ``simultaneous``, or the axes joined with ``+``.
        level: ``L1`` ...
        replicate: 0, or 1 with the second policy seed.
        report: its statistics.
    """

    axis: str
    level: str
    replicate: int
    report: CompoundReport


def suite_compounds(
    table: PairTable, nominal: Mapping[TaskName, tuple[int, int]] | None
) -> tuple[CompoundLevel, ...]:
    """Every compound of one suite's pairs, by replicate, name and level.

    A compound whose single axes are not all in the plan (``--vla-axis`` cut them) has no
    conjunction to be compared with, and no report.

    Args:
        table: of one suite.
        nominal: task -> successes and rollouts of a nominal pass over the same tasks, the
            reference of the losses; None for the clean rollouts of the configurations.
    """
    found: list[CompoundLevel] = []
    for (replicate, axis, level, axes), absent in _wanted(table):
        if absent:
            continue
        outcomes = level_outcomes(table, level, replicate, {*axes, axis})
        report = compound(outcomes, axes, axis, clean=CLEAN, nominal=nominal)
        found.append(CompoundLevel(axis, level, replicate, report))
    return tuple(found)


def compounds_without_axes(table: PairTable) -> list[str]:
    """One sentence for each compound that has no report, and which single axes it lacks."""
    return [
        f"{axis} {level}{f' r{replicate}' if replicate else ''} has no compound table:"
        f" {', '.join(absent)} alone {'is' if len(absent) == 1 else 'are'} not in this run"
        for (replicate, axis, level, _), absent in _wanted(table)
        if absent
    ]


Wanted = tuple[int, str, str, tuple[str, ...]]
"""Replicate, compound, level and axes."""


def _wanted(table: PairTable) -> list[tuple[Wanted, list[str]]]:
    """Every compound of the plan, and the single axes at its level that are not in it."""
    planned = [row.planned for row in table.rows] + [gap.planned for gap in table.missing]
    compounds: set[Wanted] = set()
    singles: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    for cell in planned:
        if cell.axis is None or cell.level is None:
            continue
        if len(cell.axes) > 1:
            compounds.add((cell.replicate, cell.axis, cell.level, cell.axes))
        else:
            singles[cell.replicate, cell.level].add(cell.axis)
    return [
        (wanted, [axis for axis in wanted[3] if axis not in singles[wanted[0], wanted[2]]])
        for wanted in sorted(compounds)
    ]


@dataclass(frozen=True, slots=True)
class ReplicationLevel:
    """One compound with another policy seed, against replicate 0.

    Attributes:
        axis, level: which.
        replicate: the other evaluation.
        report: what changes.
    """

    axis: str
    level: str
    replicate: int
    report: ReplicationReport


def suite_replications(
    table: PairTable, found: Iterable[CompoundLevel]
) -> tuple[ReplicationLevel, ...]:
    """Each compound of a replicate against the same one of replicate 0, where both are there.

    Args:
        table: of one suite.
        found: its compounds, as :func:`suite_compounds` gives them.
    """
    by_place = {(item.axis, item.level, item.replicate): item for item in found}
    out = []
    for (axis, level, replicate), item in by_place.items():
        if not replicate or (axis, level, 0) not in by_place:
            continue
        axes = item.report.axes
        first, second = (level_outcomes(table, level, r, {*axes, axis}) for r in (0, replicate))
        report = replication(first, second, axes, axis)
        out.append(ReplicationLevel(axis, level, replicate, report))
    return tuple(out)


def level_outcomes(table: PairTable, level: str, replicate: int, axes: Iterable[str]) -> Outcomes:
    """What each configuration came to under each of ``axes`` at ``level``, and clean."""
    chosen = set(axes)
    cells: dict[tuple[TaskName, int, str], Outcome] = {}

    def wanted(cell: PlannedPair) -> bool:
        return cell.axis in chosen and (cell.level, cell.replicate) == (level, replicate)

    for row in table.rows:
        if not wanted(row.planned):
            continue
        place = (row.planned.task_suite, row.planned.task), row.planned.episode
        cells[*place, str(row.planned.axis)] = _shifted(row)
        cells[*place, CLEAN] = _clean(row)
    for gap in table.missing:
        if wanted(gap.planned):
            place = (gap.planned.task_suite, gap.planned.task), gap.planned.episode
            cells[*place, str(gap.planned.axis)] = MISSING
    return Outcomes.of((*place, outcome) for place, outcome in cells.items())


def _shifted(row: PairRow) -> Outcome:
    """The shifted arm's outcome, or the first error that keeps the pair out of every rate."""
    if row.transition is None or row.shifted_success is None:
        return (*row.error_kinds, MISSING)[0]
    return row.shifted_success


def _clean(row: PairRow) -> Outcome:
    if row.clean_success is None:
        return row.clean_error or MISSING
    return row.clean_success


def nominal_by_task(
    cells: Iterable[PlannedPair], records: Mapping[str, RolloutRecord]
) -> dict[TaskName, tuple[int, int]]:
    """Task -> successes and measured rollouts of the nominal cells."""
    sums: dict[TaskName, tuple[int, int]] = {}
    for cell in cells:
        record = records.get(cell.clean_key)
        if record is not None and record.status == "done":
            successes, rollouts = sums.get((cell.task_suite, cell.task), (0, 0))
            sums[cell.task_suite, cell.task] = successes + bool(record.success), rollouts + 1
    return sums
