"""One rollout, from the prepared episode to its measured outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import InvalidScene, NotAPair, SimulatorError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.observation import EpisodeInfo, Goal
from pytest_vla_shift.rollouts.desk import Desk
from pytest_vla_shift.rollouts.record import StageResult
from pytest_vla_shift.rollouts.request import RolloutRequest
from pytest_vla_shift.rollouts.stages import StageTracker
from pytest_vla_shift.shifts.apply import ActionPipeline, shifted_instruction
from pytest_vla_shift.shifts.protocol import Receipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.rollouts.seat import Seat
    from pytest_vla_shift.simulators.protocol import Prepared, Simulator, StepResult


@dataclass(frozen=True, slots=True)
class CleanStart:
    """Where the clean arm began, for the other arm to be compared with.

    Attributes:
        fingerprint: digest of the pre-shift state.
        fields: the fields behind it, to name what differs; None if their file is gone.
        initial_predicates: true after settling.
    """

    fingerprint: str
    fields: Mapping[str, str] | None
    initial_predicates: tuple[str, ...]


@dataclass(slots=True)
class Measured:
    """What a rollout gave, before it becomes a record.

    Attributes:
        fingerprint: field -> digest of the pre-shift state, instruction and horizon.
        receipts: what the shift changed.
        instruction: the sentence that the policy is given.
        initial_predicates: true after settling.
        success: the simulator's own check.
        steps: control steps after settling.
        decisions: how often the policy was asked.
        stages: depth.
        actions: (steps, D) float64, as executed: what a shift of the actions made of the policy's.
        first_frames: camera -> picture after settling, as the policy would see it.
        policy_seconds: wall time within the policy.
    """

    fingerprint: dict[str, str] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    instruction: str = ""
    initial_predicates: tuple[str, ...] = ()
    success: bool = False
    steps: int = 0
    decisions: int = 0
    stages: StageResult | None = None
    actions: NDArray[np.float64] | None = None
    first_frames: Mapping[str, Image] = field(default_factory=dict)
    policy_seconds: float = 0.0


def run_rollout(
    simulator: Simulator,
    policy: Policy,
    request: RolloutRequest,
    clean: CleanStart | None,
) -> Measured:
    """:func:`run_seated` with a policy that serves nobody else."""
    return run_seated(simulator, Desk(policy).seat(), request, clean)


def run_seated(
    simulator: Simulator,
    seat: Seat,
    request: RolloutRequest,
    clean: CleanStart | None,
) -> Measured:
    """Run ``request`` once.

    Args:
        simulator: kept between rollouts; ``prepare`` makes its history irrelevant.
        seat: its policy is reset here, with the request's seed.
        request: what to run.
        clean: where the clean arm began, which this arm must pair with; None for the clean arm.

    Raises:
        InfrastructureError: of any kind; none of them is a failure of the policy at its task.
    """
    measured = Measured()
    prepared = start(simulator, request, measured)
    if clean is not None:
        _check_pair(measured.fingerprint, clean)
    settle(simulator, request, prepared, measured)
    if clean is not None:
        _check_premise(prepared, measured, clean)
    measured.first_frames = simulator.observe(request.suite.cameras).images
    _drive(simulator, seat, request, prepared, measured)
    return measured


def start(simulator: Simulator, request: RolloutRequest, measured: Measured) -> Prepared:
    """Restore the episode, take its fingerprint, apply the shift."""
    prepared = simulator.prepare(request.episode)
    _check_stages(prepared)
    measured.fingerprint = {
        **prepared.fingerprint,
        "instruction": digest(prepared.instruction),
        "horizon": digest(request.horizon),
    }
    measured.instruction = shifted_instruction(
        request.interventions, prepared.instruction, request.episode
    )
    if request.interventions:
        measured.receipts = simulator.apply(request.interventions)
    if measured.instruction != prepared.instruction:
        measured.receipts.append(Receipt("instruction", prepared.instruction, measured.instruction))
    return prepared


def _check_stages(prepared: Prepared) -> None:
    """Milestones must be told apart by name, and each must have a predicate that is reported."""
    names = [milestone.name for milestone in prepared.stages.milestones()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SimulatorError(f"the simulator names two milestones alike: {', '.join(twice)}")
    wanted = {milestone.predicate for milestone in prepared.stages.milestones()}
    absent = sorted(wanted - set(prepared.predicates))
    if absent:
        raise SimulatorError(
            f"milestones need predicates that the simulator does not report: {', '.join(absent)}"
        )


def settle(
    simulator: Simulator, request: RolloutRequest, prepared: Prepared, measured: Measured
) -> None:
    """Let objects come to rest, the same way in both arms, and look whether they did.

    Raises:
        InvalidScene: something still moves, or the task is solved before it began.
    """
    suite = request.suite
    speed = 0.0
    if suite.settle_steps:
        idle = np.asarray(simulator.info.settle_action, dtype=np.float64)
        result = simulator.step(np.tile(idle, (suite.settle_steps, 1)), stop_on_success=False)
        speed = result.object_speed
    if not speed <= suite.settle_speed:
        raise InvalidScene(
            f"after {suite.settle_steps} settling steps an object still moves at {speed:.3f} m/s"
            f" (limit {suite.settle_speed:g})"
        )
    if simulator.success():
        raise InvalidScene("the task's goal already holds after settling")
    true = {name for name, value in simulator.predicates().items() if value}
    measured.initial_predicates = tuple(name for name in prepared.predicates if name in true)


def _check_pair(fingerprint: Mapping[str, str], clean: CleanStart) -> None:
    if digest(fingerprint) == clean.fingerprint:
        return
    if clean.fields is None:
        raise NotAPair("before the shift, the arms differ; the clean arm's fields are not on disk")
    fields = clean.fields
    differing = sorted(
        name for name in set(fingerprint) | set(fields) if fingerprint.get(name) != fields.get(name)
    )
    shown = ", ".join(differing[:8])
    more = f" and {len(differing) - 8} more" if len(differing) > 8 else ""
    raise NotAPair(f"before the shift, the arms differ in {shown}{more}")


def _check_premise(prepared: Prepared, measured: Measured, clean: CleanStart) -> None:
    """The goal must stand where it stood in the clean arm; where the robot is may differ."""
    goals = {goal_name(predicate) for predicate in prepared.goal.predicates}
    here = goals & set(measured.initial_predicates)
    there = goals & set(clean.initial_predicates)
    if here != there:
        raise InvalidScene(
            "after settling, these goal predicates differ from the clean arm's: "
            + ", ".join(sorted(here ^ there))
        )


def goal_name(predicate: Sequence[str]) -> str:
    """The name under which simulators report a goal predicate, for example ``on bowl plate``."""
    return " ".join(predicate)


def _drive(
    simulator: Simulator,
    seat: Seat,
    request: RolloutRequest,
    prepared: Prepared,
    measured: Measured,
) -> None:
    spec = seat.spec
    tracker = StageTracker(prepared.stages, measured.initial_predicates)
    info = EpisodeInfo(
        request.episode,
        measured.instruction,
        request.horizon,
        prepared.goal if spec.privileged else Goal(),
    )
    seat.begin(info, request.policy_seed)
    commands = ActionPipeline(
        request.interventions, simulator.info.layout, np.asarray(simulator.info.settle_action)
    )
    measured.receipts += commands.receipts()
    executed: list[NDArray[np.float64]] = []
    while measured.steps < request.horizon and not measured.success:
        observation = simulator.observe(spec.cameras, privileged=spec.privileged)
        observation = replace(observation, instruction=measured.instruction)
        chunk = seat.ask(observation)
        measured.policy_seconds = seat.policy_seconds
        measured.decisions += 1
        chunk = chunk[: min(spec.replan, request.horizon - measured.steps)]
        chunk = _shifted(commands, chunk, measured.steps)
        result = simulator.step(chunk)
        _check_result(result, len(chunk), len(prepared.predicates))
        for offset, row in enumerate(result.predicates, start=1):
            values = dict(zip(prepared.predicates, row.tolist(), strict=True))
            tracker.update(measured.steps + offset, values)
        executed.append(chunk[: result.steps])
        measured.steps += result.steps
        measured.success = result.success
    measured.actions = np.concatenate(executed)
    measured.stages = tracker.result()


def _shifted(
    commands: ActionPipeline, chunk: NDArray[np.float64], step: int
) -> NDArray[np.float64]:
    """What the simulator is given for the policy's ``chunk``.

    Raises:
        SimulatorError: a shift of the actions raised or answered with what is no action.
    """
    if not commands:
        return chunk
    try:
        return commands(chunk, step)
    except Exception as error:
        raise SimulatorError(f"a shift of the actions failed: {error}") from error


def _check_result(result: StepResult, asked: int, predicates: int) -> None:
    """A wrong count would misplace every later step, and a zero would go on forever."""
    if not 1 <= result.steps <= asked or (result.steps < asked and not result.success):
        raise SimulatorError(
            f"the simulator executed {result.steps} of {asked} actions, success {result.success}"
        )
    if result.predicates.shape != (result.steps, predicates):
        raise SimulatorError(
            f"the simulator reported predicates of shape {result.predicates.shape} for"
            f" {result.steps} steps and {predicates} predicates"
        )


def actions_digest(actions: NDArray[np.float64]) -> str:
    """Digest of executed actions, (steps, D) float64 in C order."""
    array = np.ascontiguousarray(actions, dtype="<f8")
    return hashlib.sha256(str(array.shape).encode() + array.tobytes()).hexdigest()[:20]
