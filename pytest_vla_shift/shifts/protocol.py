"""The Shift protocol: what an axis is, what it may touch, and what it must confess.

A shift never holds a simulator. It writes through a :class:`Scene`, which notes every write as
a :class:`Receipt`, or it transforms what passes between simulator and policy: the pictures, the
commanded actions (:class:`ActionShift`), the instruction (:class:`LanguageShift`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytest_vla_shift.protocol.identity import stable_seed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Episode, Image, Vector

Parameters = Mapping[str, float]
"""One level of an axis: parameter name -> magnitude, in the unit that the name ends with."""

Draw = Mapping[str, float]
"""An episode's draw on an axis, shared by all levels of that axis: unit variates, or a preset."""

Value = float | Sequence[float]


@dataclass(frozen=True, slots=True)
class Receipt:
    """One thing that a shift changed.

    Attributes:
        field: ``model.cam_quat[agentview]``, ``robot.base_pos``, ``observation.rgb`` ...
        before: the value before the shift; scalars or flat lists, JSON-able.
        after: the value after it.
    """

    field: str
    before: Value | str
    after: Value | str


class Scene(Protocol):
    """The prepared simulator, as far as a shift may reach into it.

    Every setter records its own receipt and touches nothing else. Positions are metres, angles
    radians, quaternions wxyz as in MuJoCo's model arrays.
    """

    @property
    def third_person_cameras(self) -> tuple[str, ...]:
        """Names of the external cameras whose pictures the policy may be given."""
        ...

    @property
    def lights(self) -> tuple[str, ...]:
        """Names of the model's lights, and ``headlight``."""
        ...

    def camera_quat(self, camera: str) -> Vector:
        """(4,) wxyz, the camera's orientation in the frame of its parent body."""
        ...

    def set_camera_quat(self, camera: str, quat: Vector) -> None: ...

    def light_color(self, light: str, component: str) -> Vector:
        """(3,) RGB of ``component``: ``ambient``, ``diffuse`` or ``specular``."""
        ...

    def set_light_color(self, light: str, component: str, rgb: Vector) -> None: ...

    def robot_base_pose(self) -> tuple[Vector, Vector]:
        """(3,) world position and (4,) wxyz orientation of the robot's base."""
        ...

    def set_robot_base_pose(self, position: Vector, quat: Vector) -> None: ...

    def camera_pose(self, camera: str) -> tuple[Vector, Vector]:
        """(3,) position and (4,) wxyz orientation of a third-person camera, in the world frame.

        A camera looks along its own -z, with +x to the right and +y up.
        """
        ...

    def set_camera_pose(self, camera: str, position: Vector, quat: Vector) -> None: ...

    @property
    def placed_lights(self) -> tuple[str, ...]:
        """Names of the lights that stand somewhere: all but ``headlight``."""
        ...

    def light_pose(self, light: str) -> tuple[Vector, Vector]:
        """(3,) position and (3,) unit direction of a placed light's rays, in the world frame."""
        ...

    def set_light_pose(self, light: str, position: Vector, direction: Vector) -> None: ...

    @property
    def work_surface(self) -> float:
        """World height in metres of the plane on which the task's objects stand."""
        ...

    def eef_pose(self) -> tuple[Vector, Vector]:
        """(3,) world position and (4,) wxyz orientation of the end effector's grip site."""
        ...

    def set_eef_pose(self, position: Vector, quat: Vector) -> None:
        """Bring the grip site there by the arm's joints alone, at once and at rest.

        Raises:
            UnreachablePose: no joint angles within the limits give the pose.
        """
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """Which picture of a rollout is about to be shown.

    Attributes:
        camera: whose picture.
        step: control steps executed since settling.
        seed: of the randomness within the rollout on this axis; the same at all levels, and in
            compounds.
    """

    camera: str
    step: int
    seed: int

    def generator(self) -> np.random.Generator:
        """A generator of this frame's own, so that noise is fresh in every frame and the same
        however often a frame is drawn."""
        return _generator("frame", self.seed, self.camera, self.step)


@dataclass(frozen=True, slots=True)
class ActionLayout:
    """Where an action's parts are. The other components are the gripper's and the base's.

    Attributes:
        position: [start, stop) of the end effector's three translation components.
        rotation: [start, stop) of its three rotation components.
        low, high: bounds that the simulator clips an action to.
        control_hz: control steps a second of simulated time.
    """

    position: tuple[int, int]
    rotation: tuple[int, int]
    low: float
    high: float
    control_hz: float


@dataclass(frozen=True, slots=True)
class Command:
    """Which action of a rollout is about to be executed.

    Attributes:
        step: control steps executed since settling.
        seed: as for :class:`Frame`.
        layout: where the action's parts are.
        rest: (D,) the action of no motion, taken as commanded before the first one.
    """

    step: int
    seed: int
    layout: ActionLayout
    rest: NDArray[np.float64]

    def generator(self) -> np.random.Generator:
        """A generator of this step's own."""
        return _generator("command", self.seed, self.step)


def _generator(*parts: str | int) -> np.random.Generator:
    """A generator that depends on ``parts`` and nothing else."""
    import numpy as np  # describing a simulator must load nothing heavy

    return np.random.default_rng(stable_seed(*parts))


@runtime_checkable
class Shift(Protocol):
    """One factor of shift. Stateless: everything that varies is in ``level`` and ``draw``.

    Class attributes will do for what is a property here.
    """

    @property
    def name(self) -> str:
        """The entry point's name."""
        ...

    @property
    def revision(self) -> int:
        """Raised whenever the same level and draw would give another result."""
        ...

    @property
    def parameters(self) -> frozenset[str]:
        """The names that every level of this shift must give, no more and no fewer."""
        ...

    @property
    def neutral(self) -> Parameters:
        """For every parameter the magnitude at which nothing is shifted."""
        ...

    @property
    def transforms_images(self) -> bool:
        """Whether :meth:`image` does anything; receipts then say so."""
        ...

    def check(self, level: Parameters) -> None:
        """Raise ValueError if a magnitude is out of range (negative sigma, alpha above 1 ...)."""
        ...

    def draw(self, rng: np.random.Generator) -> Draw:
        """The episode's draw, the same for every level; empty for a deterministic shift."""
        ...

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        """True if nothing would change: the shift is then skipped, not recomputed."""
        ...

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Change the scene once, after the fingerprint and before settling."""
        ...

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        """Transform one (H, W, 3) uint8 RGB picture that the policy is about to see."""
        ...


@runtime_checkable
class ActionShift(Shift, Protocol):
    """A shift of what becomes of a commanded action. It has no effect during settling."""

    def action(
        self, commanded: NDArray[np.float64], level: Parameters, draw: Draw, command: Command
    ) -> NDArray[np.float64]:
        """(D,) the action to execute in place of ``commanded[-1]``.

        Args:
            commanded: (k + 1, D) float64, every action of the rollout so far, this one last.
            level, draw: as everywhere.
            command: which action, and how it is laid out.
        """
        ...


@runtime_checkable
class LanguageShift(Shift, Protocol):
    """A shift of the sentence that the policy is given. An identity for one that takes none."""

    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        """The sentence in place of ``instruction``, the task's own.

        Raises:
            ValueError: there is none for this task. Asked for every task before any rollout, with
                an empty ``instruction``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Intervention:
    """A shift bound to an episode: what crosses the process boundary as plain JSON.

    Attributes:
        axis: the suite's name for the axis, for example ``camera``.
        shift: the entry point that implements it, for example ``camera_orientation``.
        level: ``L1`` ... as written in the suite.
        parameters: the level's magnitudes.
        draw: the episode's draw.
        seed: of the randomness within the rollout (noise), the same at all levels.
    """

    axis: str
    shift: str
    level: str
    parameters: Parameters
    draw: Draw
    seed: int = 0
