"""The Shift protocol: what an axis is, what it may touch, and what it must confess.

A shift never holds a simulator. It writes through a :class:`Scene`, which notes every write as
a :class:`Receipt`, or it transforms the images that the policy is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from pytest_vla_shift.protocol.observation import Image, Vector

Parameters = Mapping[str, float]
"""One level of an axis: parameter name -> magnitude, in the unit that the name ends with."""

Draw = Mapping[str, float]
"""An episode's draw on an axis: unit variates, shared by all levels of that axis."""

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

    def image(self, image: Image, level: Parameters, draw: Draw) -> Image:
        """Transform one (H, W, 3) uint8 RGB picture that the policy is about to see."""
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
    """

    axis: str
    shift: str
    level: str
    parameters: Parameters
    draw: Draw
