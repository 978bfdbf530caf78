"""Clean-competence screening, pre-registered: which tasks a policy can be asked about robustness.

RoboCasa-Shift III-A and VI-A: candidates are frozen in order before any shift is seen. Each gets
a first batch of clean rollouts and is excluded if too few succeed (the clean floor); the others are
extended, and all and only those that then pass the gate are retained. Candidates come in batches:
the next batch is activated only if the earlier ones retained fewer than the formal suite needs.

A pure state machine: what was measured goes in, verdicts and what to run next come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.tables import Table

Candidate = tuple[str, str]
"""A task suite and a task of it."""


@dataclass(frozen=True, slots=True)
class Screening:
    """The rule and the frozen candidates.

    Attributes:
        candidates: in their frozen order.
        schedule: sizes of the batches, in order; they add up to the candidates.
        minimum_tasks: tasks that the formal suite needs.
        first_rollouts: clean rollouts that every activated candidate gets.
        excluded_at_most: as many successes among them, or fewer, exclude it.
        extended_rollouts: clean rollouts, those first ones included, of the candidates left.
        retained_at_least: as many successes among them retain it.
        horizons: task suite -> control steps.
    """

    candidates: tuple[Candidate, ...]
    schedule: tuple[int, ...]
    minimum_tasks: int
    first_rollouts: int = 10
    excluded_at_most: int = 3
    extended_rollouts: int = 20
    retained_at_least: int = 12
    horizons: Mapping[str, int] = field(default_factory=dict)

    def batch(self, number: int) -> tuple[Candidate, ...]:
        """The candidates of batch ``number``, from 0."""
        start = sum(self.schedule[:number])
        return self.candidates[start : start + self.schedule[number]]


class Verdict(StrEnum):
    """What is known of a candidate."""

    RETAINED = "retained"
    """Passed the gate."""
    EXCLUDED = "excluded: clean floor"
    """Too few of the first rollouts succeeded."""
    NOT_RETAINED = "not retained"
    """Extended, and did not pass the gate."""
    INCOMPATIBLE = "cannot be asked"
    """The policy's interface does not offer the task: nothing was run."""
    OPEN = "open"
    """Rollouts are still to be run."""
    UNDECIDED = "undecided: errors"
    """A rollout met an infrastructure error: neither a success nor a failure."""
    NOT_ACTIVATED = "not activated"
    """Of a batch that was not needed, or is not needed yet."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What was measured of one candidate.

    Attributes:
        rollouts: success of clean episodes 0, 1, ... in order; None for an infrastructure error.
        incompatible: why the policy cannot be asked for the task, or None.
    """

    rollouts: tuple[bool | None, ...] = ()
    incompatible: str | None = None


@dataclass(frozen=True, slots=True)
class CandidateState:
    """One row of the screening's table (the paper's Table IV).

    Attributes:
        candidate: task suite and task.
        batch: of which batch, from 0.
        rollouts: run so far, errors included.
        errors: of them, infrastructure errors.
        first: successes in the first rollouts; None until all of them are measured.
        extended: successes in all extended rollouts; None until all of them are measured.
        verdict: what follows.
        reason: why it cannot be asked, or None.
    """

    candidate: Candidate
    batch: int
    rollouts: int
    errors: int
    first: int | None
    extended: int | None
    verdict: Verdict
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScreeningState:
    """What follows from the outcomes so far.

    Attributes:
        candidates: every candidate, in frozen order.
        activated: number of activated batches.
        wanted: episodes to run next, in order: those of the first open candidate.
        complete: nothing is to be run and nothing is undecided: the verdicts stand.
        minimum_tasks: as in the rule.
    """

    candidates: tuple[CandidateState, ...]
    activated: int
    wanted: tuple[Episode, ...]
    complete: bool
    minimum_tasks: int

    @property
    def retained(self) -> tuple[Candidate, ...]:
        """All and only the candidates that passed, in frozen order."""
        return self._with(Verdict.RETAINED)

    @property
    def undecided(self) -> tuple[Candidate, ...]:
        """Candidates that infrastructure errors keep from a verdict."""
        return self._with(Verdict.UNDECIDED)

    @property
    def enough(self) -> bool:
        """Whether the formal suite has its minimum of tasks."""
        return len(self.retained) >= self.minimum_tasks

    def _with(self, verdict: Verdict) -> tuple[Candidate, ...]:
        return tuple(item.candidate for item in self.candidates if item.verdict is verdict)


def decide(screening: Screening, outcomes: Mapping[Candidate, Outcomes]) -> ScreeningState:
    """Apply the rule to what was measured.

    Args:
        screening: the rule.
        outcomes: by candidate; one that is not there has no rollout yet.

    Raises:
        ValueError: an outcome of what is no candidate, of a batch that is not activated, or beyond
            what the rule asked for. Looking further than the rule allows would be another rule.
    """
    unknown = sorted(set(outcomes) - set(screening.candidates))
    if unknown:
        raise ValueError(f"{'/'.join(unknown[0])} is no candidate")
    states: list[CandidateState] = []
    activated, needed, waiting = 0, True, False
    for number in range(len(screening.schedule)):
        for candidate in screening.batch(number):
            measured = outcomes.get(candidate, Outcomes())
            if needed:
                states.append(_judge(screening, candidate, number, measured))
            elif measured.rollouts:
                raise ValueError(f"{'/'.join(candidate)} was run, and its batch is not activated")
            else:
                states.append(
                    CandidateState(candidate, number, 0, 0, None, None, Verdict.NOT_ACTIVATED)
                )
        activated += needed
        if needed:
            retained = sum(state.verdict is Verdict.RETAINED for state in states)
            pending = sum(state.verdict in (Verdict.OPEN, Verdict.UNDECIDED) for state in states)
            # The next batch waits until it is certain that these do not suffice.
            needed = retained + pending < screening.minimum_tasks
            waiting = bool(pending)
    return ScreeningState(
        candidates=tuple(states),
        activated=activated,
        wanted=_wanted(screening, states),
        complete=not waiting,
        minimum_tasks=screening.minimum_tasks,
    )


def _judge(
    screening: Screening, candidate: Candidate, batch: int, measured: Outcomes
) -> CandidateState:
    runs = measured.rollouts
    errors = runs.count(None)
    first = _successes(runs, screening.first_rollouts)
    extended = _successes(runs, screening.extended_rollouts)
    allowed = screening.extended_rollouts
    if measured.incompatible is not None:
        verdict, allowed = Verdict.INCOMPATIBLE, 0
    elif len(runs) < screening.first_rollouts:
        verdict = Verdict.OPEN
    elif first is None:
        verdict, allowed = Verdict.UNDECIDED, screening.first_rollouts
    elif first <= screening.excluded_at_most:
        verdict, allowed = Verdict.EXCLUDED, screening.first_rollouts
    elif len(runs) < screening.extended_rollouts:
        verdict = Verdict.OPEN
    elif extended is None:
        verdict = Verdict.UNDECIDED
    elif extended >= screening.retained_at_least:
        verdict = Verdict.RETAINED
    else:
        verdict = Verdict.NOT_RETAINED
    if len(runs) > allowed:
        raise ValueError(
            f"{'/'.join(candidate)} has {len(runs)} rollouts; the rule asks for {allowed}"
        )
    return CandidateState(
        candidate, batch, len(runs), errors, first, extended, verdict, measured.incompatible
    )


def _successes(rollouts: Sequence[bool | None], count: int) -> int | None:
    """Successes among the first ``count``, or None if one of them is not measured."""
    taken = rollouts[:count]
    if len(taken) < count or None in taken:
        return None
    return sum(bool(success) for success in taken)


def _wanted(screening: Screening, states: Sequence[CandidateState]) -> tuple[Episode, ...]:
    for state in states:
        if state.verdict is Verdict.OPEN:
            at_first = state.rollouts < screening.first_rollouts
            stop = screening.first_rollouts if at_first else screening.extended_rollouts
            return tuple(Episode(*state.candidate, index) for index in range(state.rollouts, stop))
    return ()


def read_screening(table: Table, horizons: Mapping[str, int]) -> Screening | None:
    """``[screening]`` of a suite; None if it has none.

    Args:
        table: the table, empty if the suite has none.
        horizons: task suite -> control steps, of the suite's own tasks; others are the catalogue's.

    Raises:
        UsageError: an unknown or missing key, a number out of range, an unknown task.
    """
    if not table.names():
        return None
    schedule = table.raw("schedule")
    if not isinstance(schedule, list) or not all(type(n) is int and n > 0 for n in schedule):
        raise UsageError(f"{table.where}: 'schedule' must be a list of batch sizes, like [12, 4]")
    candidates = tuple(_candidate(text, table.where) for text in table.texts("candidates"))
    if sum(schedule) != len(candidates):
        raise UsageError(
            f"{table.where}: the schedule {schedule} is of {sum(schedule)} candidates, but"
            f" {len(candidates)} are listed"
        )
    first = table.integer("first_rollouts", minimum=1)
    extended = table.integer("extended_rollouts", minimum=first)
    screening = Screening(
        candidates=candidates,
        schedule=tuple(schedule),
        minimum_tasks=table.integer("minimum_tasks", minimum=1, maximum=len(candidates)),
        first_rollouts=first,
        excluded_at_most=table.integer("excluded_at_most", minimum=0, maximum=first),
        extended_rollouts=extended,
        retained_at_least=table.integer("retained_at_least", minimum=0, maximum=extended),
        horizons=dict(sorted(_horizons(candidates, horizons, extended, table.where).items())),
    )
    table.finish()
    return screening


def _candidate(text: str, where: str) -> Candidate:
    task_suite, slash, task = text.partition("/")
    if not (task_suite and slash and task):
        raise UsageError(f"{where}: candidate {text!r} is not like 'libero_goal/turn_on_the_stove'")
    known = catalog.find(task_suite)
    if known is not None and task not in known.tasks:
        raise UsageError(f"{where}: {task_suite} has no task {task!r}")
    return task_suite, task


def _horizons(
    candidates: Sequence[Candidate], own: Mapping[str, int], rollouts: int, where: str
) -> dict[str, int]:
    found: dict[str, int] = {}
    for task_suite, _ in candidates:
        known = catalog.find(task_suite)
        if task_suite in own:
            found[task_suite] = own[task_suite]
        elif known is not None:
            found[task_suite] = known.horizon
        else:
            raise UsageError(
                f"{where}: no horizon is known for {task_suite!r}: it is in no catalogue and the"
                " suite has no task of it"
            )
        if known is not None and rollouts > known.initial_states:
            raise UsageError(
                f"{where}: 'extended_rollouts' is {rollouts}, but {task_suite} has"
                f" {known.initial_states} initial states"
            )
    return found


def as_data(screening: Screening) -> dict[str, object]:
    """Plain JSON: what of a screening is part of a suite's protocol."""
    return {
        "candidates": [list(candidate) for candidate in screening.candidates],
        "schedule": list(screening.schedule),
        "minimum_tasks": screening.minimum_tasks,
        "first_rollouts": screening.first_rollouts,
        "excluded_at_most": screening.excluded_at_most,
        "extended_rollouts": screening.extended_rollouts,
        "retained_at_least": screening.retained_at_least,
        "horizons": dict(screening.horizons),
    }
