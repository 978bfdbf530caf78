"""A robot that stands elsewhere: RoboCasa-Shift's base factor (sections III-B and VI-B)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.kinds import SceneShift, variate

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene


class Base(SceneShift):
    """Moves the robot's base in the horizontal plane of the world and turns it about world z.

    The draw is ``x``, ``y`` and ``yaw``, independent standard normals; a level multiplies the
    first two by ``sigma_xy_m`` (metres) and the third by ``sigma_yaw_deg`` (degrees, positive
    counter-clockwise from above). Joints keep their angles, so the hand moves rigidly with the
    base; nothing else in the scene moves.

    Gaussian and not truncated, as published: about one episode in 370 lies beyond three sigma on
    a given variate. The paper checks that initial states are valid; here the check after settling
    does, and a collision becomes ``invalid scene``, never a failure of the policy.
    """

    name: ClassVar[str] = "base"
    revision: ClassVar[int] = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "sigma_xy_m": (0.0, 1.0),
        "sigma_yaw_deg": (0.0, 90.0),
    }
    neutral: ClassVar[dict[str, float]] = {"sigma_xy_m": 0.0, "sigma_yaw_deg": 0.0}

    def draw(self, rng: np.random.Generator) -> Draw:
        """Three standard normals, ``x``, ``y`` and ``yaw``."""
        x, y, yaw = rng.standard_normal(3)
        return {"x": float(x), "y": float(y), "yaw": float(yaw)}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        """True if no offset differs from zero."""
        planar, yaw = _offset(level, draw)
        return not planar.any() and yaw == 0.0

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Move and turn the base in one write."""
        planar, yaw = _offset(level, draw)
        position, quat = scene.robot_base_pose()
        turned = rotation.compose(rotation.about(rotation.Z, yaw), quat)
        scene.set_robot_base_pose(position + planar, turned)


def _offset(level: Parameters, draw: Draw) -> tuple[Vector, float]:
    """(3,) metres in the world frame with no vertical part, and radians about world z."""
    sigma = level["sigma_xy_m"]
    planar = np.array([sigma * variate(draw, "x"), sigma * variate(draw, "y"), 0.0])
    return planar, math.radians(level["sigma_yaw_deg"]) * variate(draw, "yaw")
