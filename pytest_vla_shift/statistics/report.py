"""One object that holds everything a report of a run says, built from the plan and the records.

The terminal table, the summary files and the Allure results all read a :class:`RunReport`, so
they cannot disagree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pytest_vla_shift.protocol.conditions import NOMINAL
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.statistics.aggregate import (
    ConditionAggregate,
    aggregate,
    task_differences,
)
from pytest_vla_shift.statistics.beyond import Beyond, beyond
from pytest_vla_shift.statistics.bootstrap import RESAMPLES, SEED, TaskName
from pytest_vla_shift.statistics.floor import FloorContrast
from pytest_vla_shift.statistics.nominal import NominalPass, nominal_pass
from pytest_vla_shift.statistics.notes import notes_of
from pytest_vla_shift.statistics.pairs import PairRow, PairTable, PlannedPair, pair_rows
from pytest_vla_shift.statistics.suite_compounds import (
    CompoundLevel,
    ReplicationLevel,
    compounds_without_axes,
    nominal_by_task,
    suite_compounds,
    suite_replications,
)

SCHEMA = 2
"""Raised whenever a reader of an older summary would misread a new one."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run apart from its rollouts.

    Attributes:
        run: the run's name.
        policy, policy_revision: who was tested.
        privileged: the policy is given ground truth.
        seeded: ``reset``'s seed decides the policy's randomness.
        seedable: a seed can be handed to it at all.
        checkpoint: label and digest of its weights, as the run was told; empty for nothing.
        versions: distribution name -> version of everything that decides a number.
        protocols: suite -> protocol digest.
        notes: anything else that a reader of the numbers must know, one sentence each.
    """

    run: str
    policy: str
    policy_revision: str
    privileged: bool
    seeded: bool
    versions: Mapping[str, str] = field(default_factory=dict)
    protocols: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seedable: bool = True
    checkpoint: str = ""

    @property
    def seeding(self) -> str:
        """``policy seeded``, ``policy seed inert`` or ``policy seed not supported``."""
        if self.seeded:
            return "policy seeded"
        return "policy seed inert" if self.seedable else "policy seed not supported"


@dataclass(frozen=True, slots=True)
class CleanArm:
    """The clean rollouts of a suite: one an episode, shared by all its conditions.

    Attributes:
        rollouts: measured.
        errors: those with an infrastructure error.
        sr: macro success rate over tasks, or None.
        disagreements: rollouts whose milestones and official success disagree.
        serves: pairs that they were the clean arm of.
    """

    rollouts: int
    errors: int
    sr: float | None
    disagreements: int
    serves: int


@dataclass(frozen=True, slots=True)
class MissingCell:
    """A planned cell that nobody reported, with what a report needs to label it.

    Attributes:
        cell: the node's id.
        suite, task_suite, task, episode, condition, axis, level: where it belongs.
        arms: which rollouts are absent: ``clean``, ``shifted``.
    """

    cell: str
    suite: str
    task_suite: str
    task: str
    episode: int
    condition: str
    axis: str | None
    level: str | None
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """One suite of a run.

    Attributes:
        suite, protocol: its name and protocol digest (empty if unknown).
        planned, reported: cells; reported ones include those with an error.
        missing: the others, by name.
        errors: reported cells that left every rate.
        error_kinds: kind -> pairs that met it.
        clean: the clean arm.
        conditions: null first, then by axis and level, compounds, replicates.
        nominal: the nominal pass, if it was asked for; its cells are among the planned ones.
        compounds: every compound against its single axes, by replicate, name and level.
        replications: every compound of a replicate against that of the first evaluation.
        beyond: what is beyond the papers, in the order of ``conditions``.
    """

    suite: str
    protocol: str
    planned: int
    reported: int
    missing: tuple[MissingCell, ...]
    errors: int
    error_kinds: tuple[tuple[str, int], ...]
    clean: CleanArm
    conditions: tuple[ConditionAggregate, ...]
    nominal: NominalPass | None = None
    compounds: tuple[CompoundLevel, ...] = ()
    replications: tuple[ReplicationLevel, ...] = ()
    beyond: tuple[Beyond, ...] = ()

    @property
    def null(self) -> ConditionAggregate | None:
        """The flip floor, if it was measured."""
        return next((c for c in self.conditions if c.is_null and not c.replicate), None)

    @property
    def floors(self) -> tuple[FloorContrast | None, ...]:
        """For each of ``conditions``, what changes without a shift; None where nobody looked."""
        return tuple(b.floor for b in self.beyond) or (None,) * len(self.conditions)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole run.

    Attributes:
        facts: the run, its policy and versions; ``facts.notes`` as given by the caller.
        notes: those, and the ones that the numbers call for.
        suites: sorted by name.
        resamples, seed: of the bootstrap.
    """

    facts: RunFacts
    notes: tuple[str, ...]
    suites: tuple[SuiteReport, ...]
    resamples: int = RESAMPLES
    seed: int = SEED

    @property
    def planned(self) -> int:
        """Cells of the plan."""
        return sum(suite.planned for suite in self.suites)

    @property
    def reported(self) -> int:
        """Cells with an answer, be it an error."""
        return sum(suite.reported for suite in self.suites)

    @property
    def missing(self) -> tuple[MissingCell, ...]:
        """Cells without an answer."""
        return tuple(cell for suite in self.suites for cell in suite.missing)

    @property
    def errors(self) -> int:
        """Cells that left every rate."""
        return sum(suite.errors for suite in self.suites)

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON, with the schema's number."""
        counts: dict[str, JSON] = {
            "planned": self.planned,
            "reported": self.reported,
            "missing": len(self.missing),
            "errors": self.errors,
        }
        return {"kind": "summary", "schema": SCHEMA, "cells": counts, **asdict(self)}


def build_report(
    facts: RunFacts,
    cells: Iterable[PlannedPair],
    records: Mapping[str, RolloutRecord],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> RunReport:
    """The report of a run: a function of the plan and the records, whatever their order.

    Raises:
        ValueError: the plan contradicts itself or the records (see :func:`pair_rows`).
    """
    table = pair_rows(cells, records)
    compared = [row for row in table.rows if not _is_nominal(row.planned)]
    gaps = [gap for gap in table.missing if not _is_nominal(gap.planned)]
    conditions = aggregate(compared, gaps, resamples=resamples, seed=seed)
    names = sorted(
        {row.planned.suite for row in table.rows} | {gap.planned.suite for gap in table.missing}
    )
    suites = tuple(
        _suite(name, facts, table, [c for c in conditions if c.suite == name], records)
        for name in names
    )
    notes = (
        *facts.notes,
        *notes_of(facts, suites),
        *_identities(table.rows),
        *_without_axes(names, table),
    )
    return RunReport(facts, notes, suites, resamples, seed)


def _is_nominal(planned: PlannedPair) -> bool:
    return planned.condition == NOMINAL.name


def _suite(
    name: str,
    facts: RunFacts,
    table: PairTable,
    conditions: Sequence[ConditionAggregate],
    records: Mapping[str, RolloutRecord],
) -> SuiteReport:
    rows = [row for row in table.rows if row.planned.suite == name]
    gaps = [gap for gap in table.missing if gap.planned.suite == name]
    kinds: Counter[str] = Counter()
    for condition in conditions:
        kinds.update(dict(condition.error_kinds))
    planned = [row.planned for row in rows] + [gap.planned for gap in gaps]
    # The clean arm is that of the compared cells; the nominal pass has a rate of its own.
    clean_keys = sorted({cell.clean_key for cell in planned if not _is_nominal(cell)})
    clean = [records[key] for key in clean_keys if key in records]
    asked = [cell for cell in planned if _is_nominal(cell)]
    nominal = nominal_pass(asked, records)
    compared = _of_suite(name, table)
    if nominal is not None:
        kinds.update(dict(nominal.error_kinds))
    found = suite_compounds(compared, _reference(compared, asked, records))
    return SuiteReport(
        suite=name,
        protocol=facts.protocols.get(name, ""),
        planned=len(planned),
        reported=len(rows),
        missing=tuple(
            MissingCell(
                gap.planned.cell,
                gap.planned.suite,
                gap.planned.task_suite,
                gap.planned.task,
                gap.planned.episode,
                gap.planned.condition,
                gap.planned.axis,
                gap.planned.level,
                gap.arms,
            )
            for gap in gaps
        ),
        errors=sum(condition.errors for condition in conditions)
        + (0 if nominal is None else nominal.errors),
        error_kinds=tuple(sorted(kinds.items())),
        clean=_clean(clean, sum(condition.pairs for condition in conditions)),
        conditions=tuple(conditions),
        nominal=nominal,
        compounds=found,
        replications=suite_replications(compared, found),
        beyond=_beyond(conditions, compared.rows),
    )


def _beyond(
    conditions: Sequence[ConditionAggregate], rows: Sequence[PairRow]
) -> tuple[Beyond, ...]:
    """Each replicate is a family of its own."""
    out: tuple[Beyond, ...] = ()
    for replicate in sorted({item.replicate for item in conditions}):
        own = [row for row in rows if row.planned.replicate == replicate]
        rates = [item for item in conditions if item.replicate == replicate]
        differences = {
            item.condition: task_differences(
                [row for row in own if row.planned.condition == item.condition]
            )
            for item in rates
        }
        out += beyond(rates, differences)
    return out


def _reference(
    compared: PairTable, nominal: Sequence[PlannedPair], records: Mapping[str, RolloutRecord]
) -> dict[TaskName, tuple[int, int]] | None:
    """The nominal pass, where it is over the tasks that are compared; else None."""
    found = nominal_by_task(nominal, records)
    planned = [row.planned for row in compared.rows] + [gap.planned for gap in compared.missing]
    tasks = {(cell.task_suite, cell.task) for cell in planned}
    return found if set(found) == tasks else None


def _clean(records: Sequence[RolloutRecord], serves: int) -> CleanArm:
    done = [record for record in records if record.status == "done"]
    by_task: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for record in done:
        by_task[record.task_suite, record.task].append(bool(record.success))
    rates = [sum(found) / len(found) for _, found in sorted(by_task.items())]
    return CleanArm(
        rollouts=len(done),
        errors=len(records) - len(done),
        sr=sum(rates) / len(rates) if rates else None,
        disagreements=sum(record.stage_disagreement for record in done),
        serves=serves,
    )


def _identities(rows: Iterable[PairRow]) -> list[str]:
    """An axis that changed nothing must not be read as one that the policy withstood."""
    counted = Counter(
        (row.planned.suite, axis, why)
        for row in rows
        if row.transition is not None
        for axis, why in row.identities
    )
    return [
        f"{suite}: axis {axis} changed nothing in {count} pairs ({why}). Conditions marked = are"
        " the clean condition again, and compounds have one axis less."
        for (suite, axis, why), count in sorted(counted.items())
    ]


def _without_axes(suites: Iterable[str], table: PairTable) -> list[str]:
    """A compound that was run and has no table must not vanish without a word."""
    return [
        f"{suite}: {sentence}."
        for suite in suites
        for sentence in compounds_without_axes(_of_suite(suite, table))
    ]


def _of_suite(name: str, table: PairTable) -> PairTable:
    """The compared pairs of one suite."""
    return PairTable(
        tuple(r for r in table.rows if r.planned.suite == name and not _is_nominal(r.planned)),
        tuple(g for g in table.missing if g.planned.suite == name and not _is_nominal(g.planned)),
    )
