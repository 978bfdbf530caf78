"""A hand that begins elsewhere: LIBERO-CTRL's robot-pose axis (sections 3.1 and 3.2, Table 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.kinds import Metric, SceneShift

if TYPE_CHECKING:
    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene


class RobotPose(Metric, SceneShift):
    """Moves the end effector's grip site before the first observation, by the arm's joints alone.

    ``x``, ``y`` and ``z`` are a translation in the world frame, ``rx``, ``ry`` and ``rz`` a
    rotation vector in the world frame about the grip site (its direction is the axis, its length
    the angle). The three of a kind share one scale, so that the length of the translation and the
    angle of the rotation, each in units of its scale, are the two sides of a right triangle whose
    hypotenuse is the radius: all of it in one is Table 1's last column. Nothing else in the scene
    moves.

    Table 1 gives one scale for the position and one for the rotation; that both are isotropic, and
    in which frame, is our reading.
    """

    name: ClassVar[str] = "robot_pose"
    revision: ClassVar[int] = 1
    scales: ClassVar[dict[str, str]] = {
        "x": "position_m",
        "y": "position_m",
        "z": "position_m",
        "rx": "rotation_deg",
        "ry": "rotation_deg",
        "rz": "rotation_deg",
    }

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Move the hand in one write.

        Raises:
            UnreachablePose: the arm cannot reach the pose.
        """
        offsets = self.offsets(level, draw)
        translation = np.array([offsets[name] for name in ("x", "y", "z")])
        turn = rotation.from_vector(np.radians([offsets[n] for n in ("rx", "ry", "rz")]).tolist())
        position, quat = scene.eef_pose()
        scene.set_eef_pose(position + translation, rotation.compose(turn, quat))
