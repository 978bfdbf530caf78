"""Moved external cameras: LIBERO-CTRL's camera axis (sections 3.1 and 3.2, Table 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.protocol.errors import InvalidScene
from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.kinds import Metric, SceneShift

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene

FORWARD = (0.0, 0.0, -1.0)
"""A camera's viewing direction in its own frame."""


class CameraPose(Metric, SceneShift):
    """Moves every third-person camera in spherical coordinates about the point that it looks at.

    That point is where the optical axis meets the plane of the task's work surface. Offsets are
    added to the camera's azimuth (positive counter-clockwise from above) and elevation as seen from
    it, to the distance, and to the point's x and y in the world frame; the camera then looks at
    the moved point. Its roll stays as it was: it is turned about the vertical and about a
    horizontal axis only.

    The paper names the five parameters and their scales. Which point is looked at, and that the
    look-at offset carries the camera along, is our reading. All third-person cameras are moved by
    the same offsets; wrist cameras stay.
    """

    name: ClassVar[str] = "camera_pose"
    revision: ClassVar[int] = 1
    scales: ClassVar[dict[str, str]] = {
        "azimuth": "azimuth_deg",
        "elevation": "elevation_deg",
        "distance": "distance_m",
        "lookat_x": "lookat_x_m",
        "lookat_y": "lookat_y_m",
    }

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Move the cameras.

        Raises:
            InvalidScene: a camera does not look down at the work surface, or would come to its
                level or below, past the zenith, or to the point it looks at. The episode's scene
                decides that, so it is no fault of the level.
        """
        offsets = self.offsets(level, draw)
        for camera in scene.third_person_cameras:
            position, quat = scene.camera_pose(camera)
            scene.set_camera_pose(camera, *moved(camera, position, quat, scene, offsets))


def looked_at(camera: str, position: Vector, quat: Vector, surface: float) -> Vector:
    """(3,) metres: where the optical axis meets the horizontal plane at height ``surface``.

    Args:
        camera: its name, for messages.
        position: (3,) metres in the world frame.
        quat: (4,) wxyz.
        surface: metres.

    Raises:
        InvalidScene: it does not, in front of the camera.
    """
    forward = rotation.rotate(quat, FORWARD)
    if position[2] <= surface or forward[2] >= 0.0:
        raise InvalidScene(f"camera {camera!r} does not look down at the work surface")
    point: Vector = position + forward * (surface - position[2]) / forward[2]
    point[2] = surface
    return point


def moved(
    camera: str, position: Vector, quat: Vector, scene: Scene, offsets: dict[str, float]
) -> tuple[Vector, Vector]:
    """(3,) metres and (4,) wxyz of a camera after ``offsets``, in the world frame.

    Raises:
        InvalidScene: as :meth:`CameraPose.apply`.
    """
    centre = looked_at(camera, position, quat, scene.work_surface)
    arm = position - centre
    distance = float(np.linalg.norm(arm))
    before = math.degrees(rotation.elevation(arm))
    after = before + offsets["elevation"]
    if not 0.0 < after < 90.0:
        raise InvalidScene(
            f"camera {camera!r} would look at the work surface from an elevation of {after:.1f}"
            f" degrees, not between 0 and 90: it stands at {before:.1f}"
        )
    if distance + offsets["distance"] <= 0.0:
        raise InvalidScene(
            f"camera {camera!r}, {distance:.2f} m from what it looks at, cannot come nearer by"
            f" {-offsets['distance']:.2f} m"
        )
    centre = centre + np.array([offsets["lookat_x"], offsets["lookat_y"], 0.0])
    scale = 1.0 + offsets["distance"] / distance
    if offsets["azimuth"] == offsets["elevation"] == 0.0:
        # A product would normalise the quaternion, and its last bits can be seen in pictures.
        return centre + scale * arm, quat
    turn = rotation.compose(
        rotation.about(rotation.Z, math.radians(offsets["azimuth"])),
        rotation.lift(arm, math.radians(offsets["elevation"])),
    )
    return centre + scale * rotation.rotate(turn, arm.tolist()), rotation.compose(turn, quat)
