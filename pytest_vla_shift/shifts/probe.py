"""A scene of plain numbers that refuses what no simulator could take. For ``check_axis``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.protocol import Receipt

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector

COMPONENTS = ("ambient", "diffuse", "specular")


class ProbeScene:
    """Two external cameras, a wrist camera that must not be touched, two lights, a robot."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        # Both look down at the work surface, 43 and 37 degrees steep: from the front and the right.
        self._quats = {
            "left": _looking(elevation=43.0, azimuth=0.0),
            "right": _looking(elevation=37.0, azimuth=70.0),
        }
        self._places = {
            "left": np.array([0.7, 0.1, 1.5]),
            "right": np.array([0.3, 0.9, 1.6]),
        }
        self._lights = {
            f"{light}.{component}": np.array([0.2, 0.4, 0.6])
            for light in self.lights
            for component in COMPONENTS
        }
        self._lamp = np.array([1.0, 0.5, 3.0]), np.array([0.0, -0.28, -0.96])
        self._hand = np.array([-0.1, 0.0, 1.1]), np.array([0.0, 0.8, 0.6, 0.0])
        self._base = np.array([-0.5, 0.1, 0.9]), np.array([0.8, 0.0, 0.0, 0.6])

    third_person_cameras = ("left", "right")
    lights = ("lamp", "headlight")
    placed_lights = ("lamp",)
    work_surface = 0.8

    def public(self) -> tuple[object, ...]:
        """What a shift could have overwritten without a setter."""
        fixed = self.third_person_cameras, self.lights, self.placed_lights, self.work_surface
        return *fixed, sorted(vars(self))

    def camera_quat(self, camera: str) -> Vector:
        """A copy, wxyz."""
        return self._quats[self._camera(camera)].copy()

    def set_camera_quat(self, camera: str, quat: Vector) -> None:
        """One write."""
        value = _checked(quat, 4, unit=True)
        key = self._camera(camera)
        old, self._quats[key] = self._quats[key], value
        self._note(f"model.cam_quat[{key}]", old, value)

    def light_color(self, light: str, component: str) -> Vector:
        """A copy, RGB."""
        return self._lights[self._light(light, component)].copy()

    def set_light_color(self, light: str, component: str, rgb: Vector) -> None:
        """One write."""
        value = _checked(rgb, 3)
        if (value < 0).any():
            raise AssertionError(f"light {light!r} gets a negative {component}: {value.tolist()}")
        key = self._light(light, component)
        old, self._lights[key] = self._lights[key], value
        self._note(f"model.light.{key}", old, value)

    def robot_base_pose(self) -> tuple[Vector, Vector]:
        """Copies, metres and wxyz in the world frame."""
        return self._base[0].copy(), self._base[1].copy()

    def set_robot_base_pose(self, position: Vector, quat: Vector) -> None:
        """One write."""
        new = _checked(position, 3), _checked(quat, 4, unit=True)
        old, self._base = self._base, new
        self._note("robot.base", np.concatenate(old), np.concatenate(new))

    def camera_pose(self, camera: str) -> tuple[Vector, Vector]:
        """Copies, metres and wxyz; the cameras' parent is the world."""
        return self._places[self._camera(camera)].copy(), self.camera_quat(camera)

    def set_camera_pose(self, camera: str, position: Vector, quat: Vector) -> None:
        """Two writes."""
        place = _checked(position, 3)
        self.set_camera_quat(camera, quat)
        old, self._places[camera] = self._places[camera], place
        self._note(f"model.cam_pos[{camera}]", old, place)

    def light_pose(self, light: str) -> tuple[Vector, Vector]:
        """Copies, metres and unit direction in the world frame."""
        self._placed(light)
        return self._lamp[0].copy(), self._lamp[1].copy()

    def set_light_pose(self, light: str, position: Vector, direction: Vector) -> None:
        """One write."""
        self._placed(light)
        new = _checked(position, 3), _checked(direction, 3, unit=True)
        old, self._lamp = self._lamp, new
        self._note(f"model.light_pose[{light}]", np.concatenate(old), np.concatenate(new))

    def eef_pose(self) -> tuple[Vector, Vector]:
        """Copies, metres and wxyz in the world frame."""
        return self._hand[0].copy(), self._hand[1].copy()

    def set_eef_pose(self, position: Vector, quat: Vector) -> None:
        """One write; every pose can be reached."""
        new = _checked(position, 3), _checked(quat, 4, unit=True)
        old, self._hand = self._hand, new
        self._note("robot.eef", np.concatenate(old), np.concatenate(new))

    def _note(self, field: str, old: Vector, new: Vector) -> None:
        self.receipts.append(Receipt(field, old.tolist(), new.tolist()))

    def _camera(self, camera: str) -> str:
        if camera not in self._quats:
            raise AssertionError(f"camera {camera!r} is not one of {self.third_person_cameras}")
        return camera

    def _placed(self, light: str) -> None:
        if light not in self.placed_lights:
            raise AssertionError(f"light {light!r} stands nowhere: {self.placed_lights} do")

    def _light(self, light: str, component: str) -> str:
        if light not in self.lights or component not in COMPONENTS:
            raise AssertionError(f"no light {light!r} with a component {component!r}")
        return f"{light}.{component}"


def _looking(*, elevation: float, azimuth: float) -> Vector:
    """(4,) wxyz of an upright camera that stands in this direction, in degrees, and looks back."""
    round_z = rotation.about(rotation.Z, math.radians(90.0 + azimuth))
    return rotation.compose(round_z, rotation.about(rotation.X, math.radians(90.0 - elevation)))


def _checked(value: Vector, size: int, *, unit: bool = False) -> Vector:
    """A copy of a finite float64 vector, of unit length where a rotation or direction is due."""
    array = np.array(value, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise AssertionError(f"expected {size} finite numbers, got {array.tolist()}")
    if unit and abs(float(np.linalg.norm(array)) - 1.0) > 1e-6:
        raise AssertionError(
            f"expected a unit {'quaternion' if size == 4 else 'vector'}, got {array.tolist()}"
        )
    return array
