"""Per condition: success rates, macro dSR with its interval, transitions, depth of failure.

Macro means equal weight per task (RoboCasa-Shift IV-A), over measured pairs only. Depth is read
over the cohort of S>F pairs, pooled over tasks (IV-D), on the shifted arm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from pytest_vla_shift.protocol.conditions import SIMULTANEOUS
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.bootstrap import (
    RESAMPLES,
    SEED,
    TaskName,
    macro_replicates,
    percentile_interval,
)
from pytest_vla_shift.statistics.exact import mcnemar_p, tango_interval
from pytest_vla_shift.statistics.pairs import MissingPair, PairRow, PlannedPair, Transition

NULL = "null"
"""The clean condition run again: its changed pairs are the flip floor."""


@dataclass(frozen=True, slots=True)
class TaskRates:
    """One task under one condition; rates are None without a measured pair.

    Attributes:
        task_suite, task: the task.
        pairs: measured pairs.
        errors: pairs that left every rate.
        sr_clean, sr_shifted: success rates over the measured pairs.
        dsr: sr_clean - sr_shifted; positive is a degradation.
    """

    task_suite: str
    task: str
    pairs: int
    errors: int
    sr_clean: float | None
    sr_shifted: float | None
    dsr: float | None


@dataclass(frozen=True, slots=True)
class FirstIncomplete:
    """S>F pairs of one task that share the first milestone the shifted arm left incomplete.

    Attributes:
        task_suite, task: the task.
        milestone: its name, or None: every milestone latched, yet no official success.
        first: whether it is the task's first milestone, g1.
        pairs: how many.
    """

    task_suite: str
    task: str
    milestone: str | None
    first: bool
    pairs: int


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep the shifted arms of S>F pairs got.

    Attributes:
        pairs: S>F pairs whose task has milestones; the denominator of what follows.
        progress: mean normalised progress, 0 to 1, or None without such a pair.
        first_stage: share whose first incomplete milestone is g1, or None.
        complete: pairs with every milestone latched and yet no official success.
        first_incomplete: the distribution, by task and milestone.
    """

    pairs: int
    progress: float | None
    first_stage: float | None
    complete: int
    first_incomplete: tuple[FirstIncomplete, ...]


@dataclass(frozen=True, slots=True)
class ConditionAggregate:
    """One condition of one suite.

    Attributes:
        suite, condition, axis, level: which one.
        replicate: 0, or 1 with the second policy seed.
        planned: cells of the plan; ``pairs + errors + missing``.
        pairs: measured pairs, over which every rate is.
        errors: pairs with an infrastructure error in either arm, or that were no pair.
        missing: planned pairs that nobody reported.
        error_kinds: kind -> pairs that met it. A pair can meet two.
        sr_clean, sr_shifted: macro success rates.
        dsr: macro sr_clean - sr_shifted; positive is a degradation.
        interval: 95 % percentile interval of dsr, pairs resampled within tasks.
        degenerate: the interval has no width (no task has pairs that differ), so it says
            nothing about uncertainty; read ``tango`` instead.
        tango: Tango's 95 % score interval of the pooled (not macro) difference.
        mcnemar: two-sided exact p of the pooled counts.
        ss, sf, fs, ff: transition counts.
        changed: sf + fs.
        depth: over the S>F pairs.
        unshifted: measured pairs in which the shift was an identity: nothing was shifted.
        disagreements: measured pairs whose shifted arm's milestones and success disagree.
        tasks: per-task rates. Tasks without a measured pair are listed, and are not in the
            macro averages.
    """

    suite: str
    condition: str
    axis: str | None
    level: str | None
    replicate: int
    planned: int
    pairs: int
    errors: int
    missing: int
    error_kinds: tuple[tuple[str, int], ...]
    sr_clean: float | None
    sr_shifted: float | None
    dsr: float | None
    interval: tuple[float, float] | None
    degenerate: bool
    tango: tuple[float, float] | None
    mcnemar: float | None
    ss: int
    sf: int
    fs: int
    ff: int
    changed: int
    depth: Depth
    unshifted: int
    disagreements: int
    tasks: tuple[TaskRates, ...]

    @property
    def is_null(self) -> bool:
        """Whether this is the flip floor."""
        return self.condition == NULL

    @property
    def is_identity(self) -> bool:
        """Whether nothing was shifted in any measured pair."""
        return 0 < self.pairs == self.unshifted

    @property
    def unmeasured_tasks(self) -> tuple[str, ...]:
        """Tasks that are planned but not in the macro averages."""
        return tuple(task.task for task in self.tasks if task.pairs == 0)

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return asdict(self)


def aggregate(
    rows: Iterable[PairRow],
    missing: Iterable[MissingPair] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[ConditionAggregate, ...]:
    """Aggregates of every suite and condition, null first, then by axis, level and name.

    Compounds follow the single axes, replicates follow all others. The order of ``rows`` and
    ``missing`` does not matter. Rows of the nominal pass have no place here.

    Args:
        rows: pairs, of any number of suites and conditions.
        missing: pairs that were planned and not reported: counted, in no rate.
        resamples: bootstrap replicates.
        seed: base seed of the bootstrap.

    Raises:
        ValueError: an episode appears twice under one condition.
    """
    by_suite: defaultdict[str, defaultdict[str, list[PairRow]]]
    by_suite = defaultdict(lambda: defaultdict(list))
    absent: defaultdict[tuple[str, str], list[MissingPair]] = defaultdict(list)
    for row in rows:
        by_suite[row.planned.suite][_name(row.planned)].append(row)
    for gap in missing:
        absent[gap.planned.suite, _name(gap.planned)].append(gap)
        by_suite[gap.planned.suite].setdefault(_name(gap.planned), [])
    out: list[ConditionAggregate] = []
    for suite, conditions in by_suite.items():
        measured = {name: task_differences(found) for name, found in conditions.items()}
        replicates = macro_replicates(measured, resamples, seed)
        for name, found in conditions.items():
            interval = percentile_interval(replicates[name]) if name in replicates else None
            out.append(_condition(found, absent[suite, name], interval))
    return tuple(sorted(out, key=_display_order))


def _name(planned: PlannedPair) -> str:
    """One name a condition and replicate."""
    return f"{planned.condition} r{planned.replicate}" if planned.replicate else planned.condition


def _display_order(item: ConditionAggregate) -> tuple[str, int, bool, bool, bool, str, str, str]:
    axis = item.axis or ""
    return (
        item.suite,
        item.replicate,
        not item.is_null,
        axis == SIMULTANEOUS or "+" in axis,
        item.axis is None,
        item.axis or "",
        item.level or "",
        item.condition,
    )


def task_differences(rows: Sequence[PairRow]) -> dict[TaskName, dict[int, int]]:
    """Task -> episode -> clean success minus shifted success, of one condition's measured pairs.

    Raises:
        ValueError: an episode appears twice.
    """
    out: defaultdict[TaskName, dict[int, int]] = defaultdict(dict)
    seen: set[tuple[str, str, int]] = set()
    for row in rows:
        plan = row.planned
        place = (plan.task_suite, plan.task, plan.episode)
        if place in seen:
            raise ValueError(f"two pairs of {plan.task} episode {plan.episode}: {plan.cell}")
        seen.add(place)
        if row.transition is not None:
            difference = int(bool(row.clean_success)) - int(bool(row.shifted_success))
            out[plan.task_suite, plan.task][plan.episode] = difference
    return dict(out)


def _condition(
    rows: Sequence[PairRow],
    missing: Sequence[MissingPair],
    interval: tuple[float, float] | None,
) -> ConditionAggregate:
    plan = rows[0].planned if rows else missing[0].planned
    by_task: defaultdict[TaskName, list[PairRow]] = defaultdict(list)
    for row in rows:
        by_task[row.planned.task_suite, row.planned.task].append(row)
    for gap in missing:
        by_task.setdefault((gap.planned.task_suite, gap.planned.task), [])
    tasks = tuple(_task(name, found) for name, found in sorted(by_task.items()))
    done = [row for row in rows if row.transition is not None]
    counts = Counter(row.transition for row in done)
    sf, fs = counts[Transition.SF], counts[Transition.FS]
    kinds = Counter(kind for row in rows for kind in set(row.error_kinds))
    return ConditionAggregate(
        suite=plan.suite,
        condition=plan.condition,
        axis=plan.axis,
        level=plan.level,
        replicate=plan.replicate,
        planned=len(rows) + len(missing),
        pairs=len(done),
        errors=len(rows) - len(done),
        missing=len(missing),
        error_kinds=tuple(sorted(kinds.items())),
        sr_clean=_mean([t.sr_clean for t in tasks if t.sr_clean is not None]),
        sr_shifted=_mean([t.sr_shifted for t in tasks if t.sr_shifted is not None]),
        dsr=_mean([t.dsr for t in tasks if t.dsr is not None]),
        interval=interval,
        degenerate=interval is not None and interval[0] == interval[1],
        tango=tango_interval(sf, fs, len(done)) if done else None,
        mcnemar=mcnemar_p(sf, fs) if done else None,
        ss=counts[Transition.SS],
        sf=sf,
        fs=fs,
        ff=counts[Transition.FF],
        changed=sf + fs,
        depth=_depth([row for row in done if row.transition is Transition.SF]),
        unshifted=sum(row.unshifted for row in done),
        disagreements=sum(row.shifted_disagreement for row in done),
        tasks=tasks,
    )


def _task(name: TaskName, rows: Sequence[PairRow]) -> TaskRates:
    done = [row for row in rows if row.transition is not None]
    clean = sum(bool(r.clean_success) for r in done)
    shifted = sum(bool(r.shifted_success) for r in done)
    n = len(done)
    return TaskRates(
        *name,
        pairs=n,
        errors=len(rows) - n,
        sr_clean=clean / n if n else None,
        sr_shifted=shifted / n if n else None,
        dsr=(clean - shifted) / n if n else None,
    )


def _depth(cohort: Sequence[PairRow]) -> Depth:
    staged = [row for row in cohort if row.milestones]
    places: defaultdict[tuple[str, str, str | None, bool], list[int]] = defaultdict(list)
    for row in staged:
        plan, name = row.planned, row.first_incomplete
        position = len(row.milestones) if name is None else row.milestones.index(name)
        places[plan.task_suite, plan.task, name, row.stopped_first].append(position)
    # By task, then in the order of the task's own milestones, complete last.
    ordered = sorted(
        places.items(), key=lambda item: (*item[0][:2], min(item[1]), item[0][2] or "")
    )
    cells = [FirstIncomplete(*place, pairs=len(found)) for place, found in ordered]
    return Depth(
        pairs=len(staged),
        progress=_mean(
            sorted(r.shifted_progress for r in staged if r.shifted_progress is not None)
        ),
        first_stage=_mean([float(row.stopped_first) for row in staged]),
        complete=sum(row.first_incomplete is None for row in staged),
        first_incomplete=tuple(cells),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
