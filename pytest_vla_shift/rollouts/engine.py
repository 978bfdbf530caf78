"""The engine: finds a rollout in the store, or runs it, once, whoever asks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, Condition
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.agenda import Agenda, Job
from pytest_vla_shift.rollouts.attempts import (
    LocalRunner,
    Outcome,
    Runner,
    SimulatorOptions,
    Simulators,
)
from pytest_vla_shift.rollouts.desk import Desk, check_lanes
from pytest_vla_shift.rollouts.lanes import Lanes
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest, plain, request
from pytest_vla_shift.rollouts.rollout import CleanStart, Measured, actions_digest
from pytest_vla_shift.rollouts.seat import Abandoned
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.protocol import Simulator, SimulatorInfo


@dataclass(frozen=True, slots=True)
class PairRecords:
    """Both arms of a cell.

    Attributes:
        cell: which.
        clean: the episode's shared clean rollout.
        shifted: the rollout under the cell's condition; None if the clean arm has an
            infrastructure error, since there is then nothing to compare with.
        executed: rollouts run for this pair now; the others were found in the store.
    """

    cell: Cell
    clean: RolloutRecord
    shifted: RolloutRecord | None
    executed: int


class Engine:
    """Runs the rollouts of one process against one policy: one at a time, or in lanes.

    Args:
        store: where records are found and written.
        policy: who is under test.
        policy_args: its arguments, for the key.
        options: how simulators are run.
        lanes: how those of each lane are run; empty for rollouts in the calling thread. With lanes,
            the calling thread holds the policy's turn except while it waits here.
        runners: in place of ``lanes``: runners with a policy of their own, for example on a
            cluster, a lane each. ``policy`` then speaks for theirs.
        finished: called with every record that this engine wrote, in the thread that asks.
        watch: called with the same as soon as each is written, in that order, in any thread but one
            at a time. With what it returns, unless that is None, lanes begin no other rollout, and
            :meth:`pair` raises it instead of waiting for one.

    Raises:
        UsageError: the policy cannot serve so many lanes.
    """

    def __init__(
        self,
        store: Store,
        policy: Policy,
        policy_args: Mapping[str, str],
        *,
        options: SimulatorOptions,
        lanes: Sequence[SimulatorOptions] = (),
        runners: Sequence[Runner] = (),
        finished: Callable[[RolloutRecord], None] = lambda _: None,
        watch: Callable[[RolloutRecord], Exception | None] = lambda _: None,
    ) -> None:
        check_lanes(policy, len(lanes))
        self.store = store
        self.policy = policy
        self._policy_args = policy_args
        self._finished = finished
        self._watch = watch
        self._infos: dict[str, SimulatorInfo] = {}
        # The last one that was asked for: all cells of an episode have the same.
        self._clean: tuple[object, RolloutRequest | None] = (None, None)
        # Keys that were run here and that no pair has been told of yet.
        self._untold: set[str] = set()
        self._desk = Desk(policy)
        self._simulators = Simulators(options)
        self._runner: Runner | None = None
        self._lanes: Lanes | None = None
        # How the calling thread lets lanes go on: nothing of theirs is in this process, or the
        # policy is.
        self._lent: Callable[[], AbstractContextManager[None]] = nullcontext
        if lanes:
            self._desk.turn.take()
            self._lent = self._desk.lent
            runners = [LocalRunner(Simulators(each), self._desk.seat()) for each in lanes]
        if runners:
            self._lanes = Lanes(runners, Agenda(store.final), self._execute, self._lent, watch)
        else:
            self._runner = LocalRunner(self._simulators, self._desk.seat())

    def info(self, suite: Suite) -> SimulatorInfo:
        """What the suite's simulator says of itself, without starting it."""
        if suite.simulator not in self._infos:
            self._infos[suite.simulator] = load_factory(suite.simulator).describe()
        return self._infos[suite.simulator]

    def clean_request(self, suite: Suite, cell: Cell) -> RolloutRequest:
        """The clean rollout of a cell's episode."""
        place = cell.episode, cell.replicate
        known, clean = self._clean
        if clean is None or known != place or clean.suite is not suite:
            clean = self._request(suite, cell, CLEAN)
            self._clean = place, clean
        return clean

    def request(self, suite: Suite, cell: Cell) -> RolloutRequest:
        """The cell's own rollout; of a nominal cell, the clean one."""
        nominal = cell.condition.name == NOMINAL.name
        return self._request(suite, cell, CLEAN if nominal else cell.condition)

    def _request(self, suite: Suite, cell: Cell, condition: Condition) -> RolloutRequest:
        return request(
            suite,
            cell.episode,
            condition,
            self.info(suite),
            self.policy.spec,
            self._policy_args,
            cell.replicate,
        )

    def expect(self, order: Iterable[tuple[Suite, Cell]]) -> None:
        """Tell in which order pairs will be asked for, so that lanes can run ahead."""
        if self._lanes is not None:
            self._lanes.expect(job for suite, cell in order for job in self._jobs(suite, cell))

    def pair(self, suite: Suite, cell: Cell) -> PairRecords:
        """Both arms of ``cell``, from the store where they are there.

        Raises:
            Exception: what ``watch`` has returned.
        """
        clean_job, job = self._jobs(suite, cell)

        def done() -> bool:
            clean = self.store.final(clean_job.key)
            return clean is not None and (
                clean.status == "error" or self.store.final(job.key) is not None
            )

        if self._lanes is not None:
            self._lanes.wait((clean_job, job), done)
            for record in self._lanes.finished():
                self._finished(record)
        elif self._runner is not None:
            for each in (clean_job, job):
                if not done():
                    self._run_here(self._runner, each)
        clean = self.store.final(clean_job.key)
        assert clean is not None  # done
        executed = self._told(clean_job.key)
        if clean.status == "error":
            return PairRecords(cell, clean, None, executed)
        executed += self._told(job.key)
        return PairRecords(cell, clean, self.store.final(job.key), executed)

    def is_open(self, suite: Suite, cell: Cell) -> bool:
        """Whether a rollout of ``cell`` is still to be run."""
        return any(self.store.final(job.key) is None for job in self._jobs(suite, cell))

    @property
    def at_once(self) -> int:
        """How many rollouts run at once."""
        return 1 if self._lanes is None else len(self._lanes.runners)

    def start_simulator(self, suite: Suite, rollouts: int = 1) -> None:
        """Start the simulator that the suite's first rollout will use. Before any is run.

        Where there are lanes, those of others are started meanwhile, as many as ``rollouts``.

        Raises:
            Exception: the first cannot start.
        """
        if self._lanes is not None:
            self._lanes.start(suite, rollouts)
        else:
            assert self._runner is not None  # there are lanes, or this one
            self._runner.start(suite)

    def simulator(self, suite: Suite) -> Simulator:
        """The calling thread's open simulator of a suite; started at the first call.

        No lane's: it may be used for replays and audits while rollouts go on.
        """
        return self._simulators.of(suite)

    def discard_simulator(self, suite: Suite) -> None:
        """Close the calling thread's simulator of a suite; the next call gets a fresh one."""
        self._simulators.discard(suite)

    def aside(self) -> AbstractContextManager[None]:
        """For long work of the calling thread that runs no code of others: lanes go on meanwhile.

        Not for what draws from the process's global generators.
        """
        return self._lent()

    def close(self) -> None:
        """Close every simulator and the policy. What lanes have under way is given up."""
        if self._lanes is not None:
            self._desk.turn.close()
            give_up = getattr(self.policy, "give_up", None)
            if give_up is not None:
                give_up()
            self._lanes.close()
            for record in self._lanes.finished():
                self._finished(record)
        self._simulators.close()
        try:
            self.policy.close()
        except Exception:
            # Every rollout is recorded by now: what is wrong with parting must not hide them.
            logging.getLogger(__name__).warning("the policy raised in close", exc_info=True)

    def _jobs(self, suite: Suite, cell: Cell) -> tuple[Job, Job]:
        clean = self.clean_request(suite, cell)
        wanted = self.request(suite, cell)
        return Job(clean), Job(wanted, None if wanted.key == clean.key else clean)

    def _told(self, key: str) -> int:
        """1 at the first pair that is told of a rollout which was run here, else 0."""
        if key not in self._untold:
            return 0
        self._untold.discard(key)
        return 1

    def _run_here(self, runner: Runner, job: Job) -> None:
        if self.store.final(job.key) is not None:
            return
        with self.store.claim(job.key):
            # Another process may have run it while this one waited for the claim.
            if self.store.final(job.key) is None:
                record = self._run(runner, job, lane=None)
                self._watch(record)  # whether to go on is for the caller to say
                self._finished(record)

    def _execute(self, runner: Runner, job: Job, lane: str) -> RolloutRecord | None:
        """In a lane: run and record a job; None if another process is at it."""
        with self.store.claim_if_free(job.key) as claimed:
            if not claimed:
                self.store.refresh()
                return self.store.final(job.key)
            return self.store.final(job.key) or self._run(runner, job, lane=lane)

    def _run(self, runner: Runner, job: Job, *, lane: str | None) -> RolloutRecord:
        wanted = job.wanted
        cell_name = f"{wanted.episode.task_suite}/{wanted.episode.task} {wanted.condition.name}"
        self.store.started(wanted.key, cell_name)
        start = None
        if job.clean is not None:
            clean = self.store.final(job.clean.key)
            assert clean is not None  # it was done before this job could be taken
            start = self._start_of(clean)
        outcome = runner.run(wanted, start)
        if self._lanes is not None and not self._lanes.may_record():
            raise Abandoned
        where = {"worker": self.store.worker}
        if lane is not None:
            where["lane"] = lane
        record = make_record(wanted, outcome, where)
        measured = outcome.measured
        actions = None if measured is None else measured.actions
        frames = None if measured is None else measured.first_frames
        fingerprint = None if measured is None else measured.fingerprint
        self._untold.add(record.key)
        self.store.write(record, actions, frames, fingerprint)
        return record

    def _start_of(self, clean: RolloutRecord) -> CleanStart:
        fields = self.store.fingerprint(clean.fingerprint)
        return CleanStart(clean.fingerprint, fields, clean.initial_predicates)


def make_record(
    wanted: RolloutRequest, outcome: Outcome, where: Mapping[str, str]
) -> RolloutRecord:
    """The row of one rollout, done or in error; ``where`` is added to what the outcome says."""
    condition, measured, error = wanted.condition, outcome.measured, outcome.error
    done = measured is not None and error is None
    got = measured if measured is not None else Measured()
    stages = got.stages if done else None
    success = got.success if done else None
    return RolloutRecord(
        key=wanted.key,
        identity=wanted.identity,
        suite=wanted.suite.name,
        task_suite=wanted.episode.task_suite,
        task=wanted.episode.task,
        episode=wanted.episode.index,
        condition=condition.name,
        axis=condition.axis,
        level=condition.level,
        replicate=wanted.replicate,
        status="done" if done else "error",
        success=success,
        steps=got.steps,
        decisions=got.decisions,
        stages=stages,
        # A task without milestones has nothing to disagree with.
        stage_disagreement=stages is not None
        and bool(stages.milestones)
        and stages.complete != success,
        initial_predicates=got.initial_predicates,
        fingerprint=digest(got.fingerprint) if got.fingerprint else "",
        receipts=tuple(_receipt(r.field, r.before, r.after) for r in got.receipts),
        interventions=tuple(plain(intervention) for intervention in wanted.interventions),
        identities=dict(wanted.identities),
        instruction=got.instruction,
        policy_seed=wanted.policy_seed,
        seed_note=wanted.seed_note,
        actions_digest=None if got.actions is None else actions_digest(got.actions),
        error=None if error is None else (error.kind, str(error)),
        attempts=outcome.attempts,
        timing={"wall": round(outcome.wall_seconds, 3), "policy": round(got.policy_seconds, 3)},
        where={
            **where,
            **outcome.place,
            **({"device": outcome.device} if outcome.device else {}),
        },
    )


def _receipt(field: str, before: object, after: object) -> tuple[str, JSON, JSON]:
    return field, _json(before), _json(after)


def _json(value: object) -> JSON:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    raise TypeError(f"a receipt's value must be a number, a text or a list, not {value!r}")
