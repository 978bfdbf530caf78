"""Every statistic of both papers, and beyond them, from a long table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_vla_shift.protocol.conditions import CLEAN, SIMULTANEOUS
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.aggregate import ConditionAggregate, aggregate
from pytest_vla_shift.statistics.beyond import beyond
from pytest_vla_shift.statistics.bootstrap import RESAMPLES, Differences, TaskName
from pytest_vla_shift.statistics.bootstrap import SEED as PAIR_SEED
from pytest_vla_shift.statistics.cluster import REPLICATES, SEED
from pytest_vla_shift.statistics.compound import compound
from pytest_vla_shift.statistics.estimands import MacroInterval
from pytest_vla_shift.statistics.floor import FloorContrast
from pytest_vla_shift.statistics.outcomes import Outcome, Outcomes
from pytest_vla_shift.statistics.pairs import PairRow, PlannedPair
from pytest_vla_shift.statistics.replication import replication
from pytest_vla_shift.statistics.suite_compounds import CompoundLevel, ReplicationLevel
from pytest_vla_shift.statistics.table import LongRow
from pytest_vla_shift.statistics.table_grid import Block, Name, Place, blocks, single
from pytest_vla_shift.statistics.table_notes import apart_notes, block_notes

SCHEMA = 1
"""Raised whenever a reader of older statistics would misread new ones."""

FIRST, LATER = "the first", "a later one"
"""What a table with counts tells about the first incomplete milestone."""


@dataclass(frozen=True, slots=True)
class ConditionStatistics:
    """One condition of a block.

    Attributes:
        rates: RoboCasa-Shift's statistics, with Tango's interval and the exact McNemar p. Of its
            depth, ``first_stage`` is the share of S>F pairs in which no milestone latched. Where
            the milestones of a task are one ordered list, and latch in that order, that is the
            share whose first incomplete milestone is g1; where several goals of a task advance
            beside each other it is a lower bound of it. ``first_incomplete`` tells the first from
            a later one, and no more.
        new_tasks: the macro dSR for new tasks; None without a pair.
        holm, benjamini_hochberg: adjusted McNemar p over all shifted conditions of the block;
            None for null and without a pair.
        floor: changed outcomes against those of the null condition, if it is in the table.
    """

    rates: ConditionAggregate
    new_tasks: MacroInterval | None
    holm: float | None
    benjamini_hochberg: float | None
    floor: FloorContrast | None


@dataclass(frozen=True, slots=True)
class NominalCounts:
    """The nominal pass: pooled over rollouts, as published nominal scores are."""

    rollouts: int
    errors: int
    successes: int
    sr: float | None


@dataclass(frozen=True, slots=True)
class CleanCounts:
    """The clean arm: ``sr`` is the mean over tasks, as SRc is; the counts are of rollouts."""

    rollouts: int
    errors: int
    successes: int
    sr: float | None


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """One policy on one suite, or on several that have the same conditions.

    Attributes:
        policy, suites, replicate: which.
        tasks, episodes: under each condition.
        axes: those that are shifted alone.
        clean: where the clean arm comes from: ``clean``, ``nominal``, or None.
        clean_rate: of all clean rollouts, paired or not; None without a clean arm.
        nominal: the nominal pass, if it is in the table: nominal and clean rows together.
        conditions: null first, then by axis and level; empty without a clean arm.
        compounds: every compound whose single axes are there at its level.
        no_compound: the others, and what is missing.
        replications: of the compounds, in a replicate.
        notes: what a reader must know besides.
    """

    policy: str
    suites: tuple[str, ...]
    replicate: int
    tasks: int
    episodes: int
    axes: tuple[str, ...]
    clean: str | None
    clean_rate: CleanCounts | None
    nominal: NominalCounts | None
    conditions: tuple[ConditionStatistics, ...]
    compounds: tuple[CompoundLevel, ...]
    no_compound: tuple[str, ...]
    replications: tuple[ReplicationLevel, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableReport:
    """A whole table.

    Attributes:
        source: the table's name.
        rows, errors: rows, and those with an error.
        notes: on the table as a whole.
        blocks: by policy, replicate and suite; all suites of a policy together come first.
        resamples, pair_seed: of the bootstrap of pairs.
        replicates, task_seed: of the bootstrap of tasks.
    """

    source: str
    rows: int
    errors: int
    notes: tuple[str, ...]
    blocks: tuple[BlockStatistics, ...]
    resamples: int
    pair_seed: int
    replicates: int
    task_seed: int

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON, with the schema's number."""
        return {"kind": "stats", "schema": SCHEMA, **asdict(self)}


def table_report(
    rows: Sequence[LongRow],
    source: str,
    *,
    notes: Sequence[str] = (),
    resamples: int = RESAMPLES,
    pair_seed: int = PAIR_SEED,
    replicates: int = REPLICATES,
    task_seed: int = SEED,
) -> TableReport:
    """The statistics of a table; the order of its rows does not matter.

    Args:
        rows: at least one.
        source: the table's name, for messages.
        notes: on where the rows come from, for the report.
        resamples, pair_seed: of the bootstrap of pairs within tasks.
        replicates, task_seed: of the bootstrap of tasks.

    Raises:
        UsageError: the rows are not whole grids; the message names the line and the cell.
    """
    how = _Bootstrap(resamples, pair_seed, replicates, task_seed)
    found = blocks(rows, source)
    by_name = {(b.policy, b.suites, b.replicate): b for b in found}
    return TableReport(
        source=source,
        rows=len(rows),
        errors=sum(row.error is not None for row in rows),
        notes=(*notes, *apart_notes(found)),
        blocks=tuple(
            _statistics(block, by_name.get((block.policy, block.suites, 0)), how) for block in found
        ),
        resamples=resamples,
        pair_seed=pair_seed,
        replicates=replicates,
        task_seed=task_seed,
    )


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    resamples: int
    pair_seed: int
    replicates: int
    task_seed: int


def _statistics(block: Block, first: Block | None, how: _Bootstrap) -> BlockStatistics:
    # The nominal pass is run with the first policy seed only; a replicate is held against it too.
    asked = first.nominal if first is not None and not block.nominal else block.nominal
    nominal = _nominal_by_task(asked, block.tasks)
    compounds: list[CompoundLevel] = []
    replications: list[ReplicationLevel] = []
    lacking: list[str] = []
    for axis, level in sorted(
        (axis, level) for axis, level in block.conditions if level and not single(axis)
    ):
        axes = block.axes if axis == SIMULTANEOUS else tuple(axis.split("+"))
        missing = [name for name in axes if (name, level) not in block.conditions]
        if missing or len(axes) < 2:
            need = f"no {missing[0]} {level}" if missing else "no two axes that are shifted alone"
            lacking.append(f"{axis} {level}: {need} to compare it with")
            continue
        here = _outcomes(block, axes, axis, level)
        compounds.append(
            CompoundLevel(
                axis,
                level,
                block.replicate,
                compound(
                    here,
                    axes,
                    axis,
                    clean=CLEAN.name if block.clean else None,
                    nominal=nominal,
                    replicates=how.replicates,
                    seed=how.task_seed,
                ),
            )
        )
        if block.replicate and first is not None:
            again = replication(
                _outcomes(first, axes, axis, level),
                here,
                axes,
                axis,
                replicates=how.replicates,
                seed=how.task_seed,
            )
            replications.append(ReplicationLevel(axis, level, block.replicate, again))
    pass_rows = block.nominal.values()
    measured = [row.success for row in pass_rows if row.success is not None]
    return BlockStatistics(
        policy=block.policy,
        suites=block.suites,
        replicate=block.replicate,
        tasks=len(block.tasks),
        episodes=len(block.places),
        axes=block.axes,
        clean=("nominal" if block.clean_is_nominal else CLEAN.name) if block.clean else None,
        clean_rate=_clean_counts(block.clean),
        nominal=NominalCounts(
            len(measured),
            len(pass_rows) - len(measured),
            sum(measured),
            sum(measured) / len(measured) if measured else None,
        )
        if block.nominal
        else None,
        conditions=_conditions(block, how),
        compounds=tuple(compounds),
        no_compound=tuple(lacking),
        replications=tuple(replications),
        notes=block_notes(block),
    )


def _nominal_by_task(
    nominal: Mapping[Place, LongRow], tasks: Sequence[TaskName]
) -> dict[TaskName, tuple[int, int]] | None:
    """The nominal pass as the reference of losses, where it is over these tasks."""
    found: dict[TaskName, tuple[int, int]] = {}
    for (suite, task, _), row in nominal.items():
        successes, rollouts = found.get((suite, task), (0, 0))
        if row.success is not None:
            successes, rollouts = successes + row.success, rollouts + 1
        found[suite, task] = (successes, rollouts)
    return found if set(found) == set(tasks) else None


def _clean_counts(clean: Mapping[Place, LongRow]) -> CleanCounts | None:
    if not clean:
        return None
    by_task: dict[TaskName, list[bool]] = {}
    for (suite, task, _), row in sorted(clean.items()):
        if row.success is not None:
            by_task.setdefault((suite, task), []).append(row.success)
    rates = [sum(found) / len(found) for found in by_task.values()]
    rollouts = sum(map(len, by_task.values()))
    return CleanCounts(
        rollouts,
        len(clean) - rollouts,
        sum(map(sum, by_task.values())),
        sum(rates) / len(rates) if rates else None,
    )


def _outcomes(block: Block, axes: Sequence[str], simultaneous: str, level: str) -> Outcomes:
    def cells(rows: Mapping[Place, LongRow], name: str) -> list[tuple[TaskName, int, str, Outcome]]:
        return [((s, t), e, name, _outcome(row)) for (s, t, e), row in rows.items()]

    found = cells(block.clean, CLEAN.name)
    for axis in (*axes, simultaneous):
        found += cells(block.conditions[axis, level], axis)
    return Outcomes.of(found)


def _outcome(row: LongRow) -> Outcome:
    return row.success if row.success is not None else row.error or "unknown"


def _conditions(block: Block, how: _Bootstrap) -> tuple[ConditionStatistics, ...]:
    if not block.clean:
        return ()
    pairs = {
        name: [_pair(block, name, place, row) for place, row in sorted(cells.items())]
        for name, cells in block.conditions.items()
    }
    flat = [pair for found in pairs.values() for pair in found]
    rates = aggregate(flat, resamples=how.resamples, seed=how.pair_seed)
    differences = {cells[0].planned.condition: _measured(cells) for cells in pairs.values()}
    more = beyond(
        rates,
        differences,
        resamples=how.resamples,
        pair_seed=how.pair_seed,
        replicates=how.replicates,
        task_seed=how.task_seed,
    )
    return tuple(
        ConditionStatistics(
            item, found.new_tasks, found.holm, found.benjamini_hochberg, found.floor
        )
        for item, found in zip(rates, more, strict=True)
    )


def _measured(pairs: Sequence[PairRow]) -> Differences:
    found: dict[TaskName, dict[int, int]] = {}
    for pair in pairs:
        if pair.transition is not None:
            planned = pair.planned
            difference = int(bool(pair.clean_success)) - int(bool(pair.shifted_success))
            found.setdefault((planned.task_suite, planned.task), {})[planned.episode] = difference
    return found


def _pair(block: Block, name: Name, place: Place, row: LongRow) -> PairRow:
    """The clean and the shifted row of one episode, as a run's pairs are."""
    axis, level = name
    suite, task, episode = place
    clean = block.clean[place]
    # Which milestone was the first incomplete one, a count tells only if it is the first of all.
    milestones: tuple[str, ...] = (FIRST, LATER) if row.milestones else ()
    stopped = None if row.milestones_done == row.milestones else LATER
    return PairRow(
        planned=PlannedPair(
            suite="+".join(block.suites),
            task_suite=suite,
            task=task,
            episode=episode,
            condition=row.condition,
            axis=axis if level else None,
            level=level,
            cell=row.cell,
            clean_key="",
            shifted_key="",
            axes=(axis,) if level and single(axis) else (),
        ),
        clean_success=clean.success,
        shifted_success=row.success,
        clean_progress=_progress(clean),
        shifted_progress=_progress(row),
        milestones=milestones,
        first_incomplete=(FIRST if row.milestones_done == 0 else stopped) if milestones else None,
        clean_disagreement=_disagrees(clean),
        shifted_disagreement=_disagrees(row),
        clean_error=clean.error,
        shifted_error=row.error,
    )


def _progress(row: LongRow) -> float | None:
    if row.success is None or not row.milestones or row.milestones_done is None:
        return None
    return row.milestones_done / row.milestones


def _disagrees(row: LongRow) -> bool:
    """Every milestone latched and no success, or the reverse."""
    if row.success is None or not row.milestones:
        return False
    return (row.milestones_done == row.milestones) != row.success
