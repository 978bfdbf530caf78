"""The engine: finds a rollout in the store, or runs it, once, whoever asks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, Condition
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.attempts import LocalRunner, Outcome, SimulatorOptions, Simulators
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest, request
from pytest_vla_shift.rollouts.rollout import CleanStart, Measured, actions_digest
from pytest_vla_shift.rollouts.seat import DirectSeat
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
    """Runs the rollouts of one process, one at a time, against one policy.

    Args:
        store: where records are found and written.
        policy: who is under test.
        policy_args: its arguments, for the key.
        options: how simulators are run.
        finished: called with every record that this engine wrote.
    """

    def __init__(
        self,
        store: Store,
        policy: Policy,
        policy_args: Mapping[str, str],
        *,
        options: SimulatorOptions,
        finished: Callable[[RolloutRecord], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.policy = policy
        self._policy_args = policy_args
        self._finished = finished
        self.simulators = Simulators(options)
        self._runner = LocalRunner(self.simulators, DirectSeat(policy))
        self._infos: dict[str, SimulatorInfo] = {}

    def info(self, suite: Suite) -> SimulatorInfo:
        """What the suite's simulator says of itself, without starting it."""
        if suite.simulator not in self._infos:
            self._infos[suite.simulator] = load_factory(suite.simulator).describe()
        return self._infos[suite.simulator]

    def clean_request(self, suite: Suite, cell: Cell) -> RolloutRequest:
        """The clean rollout of a cell's episode."""
        return self._request(suite, cell, CLEAN)

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

    def pair(self, suite: Suite, cell: Cell) -> PairRecords:
        """Both arms of ``cell``, from the store where they are there."""
        clean, ran_clean = self._obtain(self.clean_request(suite, cell), None)
        if clean.status == "error":
            return PairRecords(cell, clean, None, int(ran_clean))
        shifted, ran_shifted = self._obtain(self.request(suite, cell), clean)
        return PairRecords(cell, clean, shifted, int(ran_clean) + int(ran_shifted))

    def is_open(self, suite: Suite, cell: Cell) -> bool:
        """Whether a rollout of ``cell`` is still to be run."""
        wanted = (self.clean_request(suite, cell), self.request(suite, cell))
        return any(self.store.final(request.key) is None for request in wanted)

    def simulator(self, suite: Suite) -> Simulator:
        """The calling thread's open simulator of a suite; started at the first call."""
        return self.simulators.of(suite)

    def discard_simulator(self, suite: Suite) -> None:
        """Close a suite's simulator; the next rollout gets a fresh one."""
        self.simulators.discard(suite)

    def close(self) -> None:
        """Close every simulator and the policy."""
        self._runner.close()
        try:
            self.policy.close()
        except Exception:
            # Every rollout is recorded by now: what is wrong with parting must not hide them.
            logging.getLogger(__name__).warning("the policy raised in close", exc_info=True)

    def _obtain(
        self, wanted: RolloutRequest, clean: RolloutRecord | None
    ) -> tuple[RolloutRecord, bool]:
        found = self.store.final(wanted.key)
        if found is not None:
            return found, False
        with self.store.claim(wanted.key):
            # Another process may have run it while this one waited for the claim.
            self.store.refresh()
            found = self.store.final(wanted.key)
            if found is not None:
                return found, False
            return self._run(wanted, clean), True

    def _run(self, wanted: RolloutRequest, clean: RolloutRecord | None) -> RolloutRecord:
        cell_name = f"{wanted.episode.task_suite}/{wanted.episode.task} {wanted.condition.name}"
        self.store.started(wanted.key, cell_name)
        start = None if clean is None else self._start_of(clean)
        outcome = self._runner.run(wanted, start)
        record = make_record(wanted, outcome, worker=self.store.worker)
        measured = outcome.measured
        actions = None if measured is None else measured.actions
        frames = None if measured is None else measured.first_frames
        fingerprint = None if measured is None else measured.fingerprint
        self.store.write(record, actions, frames, fingerprint)
        self._finished(record)
        return record

    def _start_of(self, clean: RolloutRecord) -> CleanStart:
        fields = self.store.fingerprint(clean.fingerprint)
        return CleanStart(clean.fingerprint, fields, clean.initial_predicates)


def make_record(wanted: RolloutRequest, outcome: Outcome, *, worker: str) -> RolloutRecord:
    """The row of one rollout, done or in error."""
    condition, measured, error = wanted.condition, outcome.measured, outcome.error
    done = measured is not None and error is None
    got = measured if measured is not None else Measured()
    stages = got.stages if done else None
    success = got.success if done else None
    bound: list[Mapping[str, JSON]] = [asdict(i) for i in wanted.interventions]
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
        interventions=tuple(bound),
        identities=dict(wanted.identities),
        instruction=got.instruction,
        policy_seed=wanted.policy_seed,
        seed_note=wanted.seed_note,
        actions_digest=None if got.actions is None else actions_digest(got.actions),
        error=None if error is None else (error.kind, str(error)),
        attempts=outcome.attempts,
        timing={"wall": round(outcome.wall_seconds, 3), "policy": round(got.policy_seconds, 3)},
        where={"worker": worker, **({"device": outcome.device} if outcome.device else {})},
    )


def _receipt(field: str, before: object, after: object) -> tuple[str, JSON, JSON]:
    return field, _json(before), _json(after)


def _json(value: object) -> JSON:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    raise TypeError(f"a receipt's value must be a number, a text or a list, not {value!r}")
