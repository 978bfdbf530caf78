"""The Simulator protocol: where a rollout happens. ``observe`` is the only thing that renders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.protocol.observation import Episode, Goal, Observation
from pytest_vla_shift.protocol.stages import StageSpec
from pytest_vla_shift.shifts.protocol import ActionLayout, Intervention, Receipt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SimulatorSettings:
    """What a suite fixes about its simulator; part of every key.

    Attributes:
        simulator: the entry point's name, for example ``libero``.
        env_seed: the seed given before every reset (communities differ: 0 or 7).
        cameras: the cameras that may be asked for.
        height: picture height in pixels.
        width: picture width in pixels.
    """

    simulator: str
    env_seed: int
    cameras: tuple[str, ...]
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class SimulatorInfo:
    """What a simulator says of itself.

    Attributes:
        name: the entry point's name.
        versions: distribution name -> version of everything that decides its numbers.
        recipe: raised whenever our adapter would give other numbers for the same request.
        renderer: the GL platform asked for: ``egl``, ``osmesa``, ``none``.
        action_dim: width of an action.
        action_low, action_high: bounds that an action is clipped to by the simulator.
        settle_action: the action during settling: no motion, gripper open.
        control_hz: control steps a second of simulated time.
        cameras: every camera that a suite may ask for.
        position: [start, stop) of an action's three components that move the end effector.
        rotation: [start, stop) of the three that turn it.
        proprio: names of the proprioception that every observation has, so that a policy whose
            state needs another is refused before the first episode; empty if it does not say.
    """

    name: str
    versions: Mapping[str, str]
    recipe: int
    renderer: str
    action_dim: int
    action_low: float
    action_high: float
    settle_action: tuple[float, ...]
    control_hz: float
    cameras: tuple[str, ...]
    position: tuple[int, int]
    rotation: tuple[int, int]
    proprio: tuple[str, ...] = ()

    @property
    def layout(self) -> ActionLayout:
        """Where an action's parts are, as action shifts need it."""
        return ActionLayout(
            self.position, self.rotation, self.action_low, self.action_high, self.control_hz
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """The episode, restored and not yet shifted.

    Attributes:
        fingerprint: field name -> hex digest of the pre-shift value (qpos, qvel, act, mocap,
            every model array that a reset can touch, controller state).
        instruction: the task's own sentence.
        goal: the task's goal predicates.
        predicates: names, in the order of the columns of :attr:`StepResult.predicates`.
        stages: the task's milestones over those predicates.
    """

    fingerprint: Mapping[str, str]
    instruction: str
    goal: Goal
    predicates: tuple[str, ...]
    stages: StageSpec


@dataclass(frozen=True, slots=True)
class StepResult:
    """What happened in one action chunk.

    Attributes:
        steps: control steps executed; fewer than asked for when the task was solved.
        success: the simulator's own success check, after the last step executed.
        predicates: (steps, P) bool, every predicate after every step.
        object_speed: largest speed of any movable object after the last step, m/s.
    """

    steps: int
    success: bool
    predicates: NDArray[np.bool_]
    object_speed: float


class Simulator(Protocol):
    """One simulated world, prepared again for every rollout and kept between them.

    It may have a property ``device``, text: what it really draws with, as it knows after
    ``prepare``. Records keep it for people.
    """

    @property
    def info(self) -> SimulatorInfo: ...

    def prepare(self, episode: Episode) -> Prepared:
        """Restore ``episode`` through the one path that there is, whatever happened before.

        Raises:
            MissingAsset: a file of the episode is not there.
            SimulatorError: the restored state is not what was asked for.
        """
        ...

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        """Shift the prepared episode. Called at most once after ``prepare``, before any step.

        Scene and pictures are shifted here; actions and the instruction, by the rollout.
        """
        ...

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        """The present observation; renders exactly ``cameras``, with image shifts applied."""
        ...

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        """Execute an action chunk of shape (T, action_dim), T >= 1, without rendering.

        Settling uses ``stop_on_success=False``.
        """
        ...

    def success(self) -> bool:
        """The simulator's own success check of the present state."""
        ...

    def predicates(self) -> Mapping[str, bool]:
        """Every predicate of the present state."""
        ...

    def close(self) -> None:
        """Free everything, GL contexts first. Idempotent; never raises."""
        ...


class SimulatorFactory(Protocol):
    """What an entry point of the group ``pytest_vla_shift.simulators`` names.

    ``describe`` must be cheap and import no simulator: it decides keys before anything starts.
    """

    def __call__(self, settings: SimulatorSettings) -> Simulator: ...

    def describe(self) -> SimulatorInfo:
        """Versions and action layout.

        Raises:
            UsageError: the simulator's packages are missing; says what to install.
        """
        ...
