"""Turned external cameras: RoboCasa-Shift's camera factor (sections III-B and VI-B)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.kinds import SceneShift, variate

if TYPE_CHECKING:
    import numpy as np

    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene


class CameraOrientation(SceneShift):
    """Turns every third-person camera on the spot; wrist cameras and all positions stay.

    The draw is ``yaw`` and ``pitch``, each uniform in -1 ... 1. At a level they become angles by
    multiplication with ``theta_max_deg`` (degrees), so every level turns the same way and each
    angle stays within it. A MuJoCo camera looks along its -z with +x to the right and +y up: yaw
    is about its own y (positive turns the view left), then pitch about the yawed x (positive
    turns it up). The viewing direction so moves by ``acos(cos(yaw) * cos(pitch))``, at most about
    1.41 ``theta_max_deg``. All third-person cameras turn by the same angles.

    The paper bounds yaw and pitch and does not name their distribution within the bounds;
    uniform and independent is our reading.
    """

    name: ClassVar[str] = "camera_orientation"
    revision: ClassVar[int] = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {"theta_max_deg": (0.0, 90.0)}
    neutral: ClassVar[dict[str, float]] = {"theta_max_deg": 0.0}

    def draw(self, rng: np.random.Generator) -> Draw:
        """Two unit variates, ``yaw`` and ``pitch``."""
        yaw, pitch = rng.uniform(-1.0, 1.0, size=2)
        return {"yaw": float(yaw), "pitch": float(pitch)}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        """True if neither angle differs from zero."""
        theta = level["theta_max_deg"]
        return theta * variate(draw, "yaw") == 0.0 and theta * variate(draw, "pitch") == 0.0

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Turn the cameras, each in the frame of its parent body."""
        theta = math.radians(level["theta_max_deg"])
        yaw = rotation.about(rotation.Y, theta * variate(draw, "yaw"))
        pitch = rotation.about(rotation.X, theta * variate(draw, "pitch"))
        turn = rotation.compose(yaw, pitch)
        for camera in scene.third_person_cameras:
            scene.set_camera_quat(camera, rotation.compose(scene.camera_quat(camera), turn))
