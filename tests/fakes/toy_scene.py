"""The toy's model arrays, its Scene for shifts, and its tiny ray-caster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.protocol.errors import UnreachablePose
from pytest_vla_shift.shifts.protocol import Receipt

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image, Vector

CAMERAS = ("front", "wrist")
TAN_HALF_FOVY = 0.5
ELEVATION = math.radians(51.0)
"""How steeply ``front`` looks down, from 0.9 m before the origin on which its view is centred."""

LONGEST_ARM = 0.45
"""Metres from the robot's base to the furthest place of the hand that a shift may ask for."""


def _lights() -> dict[str, Vector]:
    """``light.component`` -> (3,) RGB."""
    return {
        "lamp.ambient": np.zeros(3),
        "lamp.diffuse": np.full(3, 0.6),
        "lamp.specular": np.full(3, 0.3),
        "headlight.ambient": np.full(3, 0.1),
        "headlight.diffuse": np.full(3, 0.3),
        "headlight.specular": np.full(3, 0.5),
    }


def _unit_quat() -> Vector:
    return np.array([1.0, 0.0, 0.0, 0.0])


def front_place() -> Vector:
    """(3,) metres: where ``front`` stands until shifted."""
    return 0.9 * np.array([0.0, -math.cos(ELEVATION), math.sin(ELEVATION)])


def front_quat() -> Vector:
    """(4,) wxyz: how ``front`` is turned until shifted, with no roll."""
    half = 0.5 * (0.5 * math.pi - ELEVATION)
    return np.array([math.cos(half), math.sin(half), 0.0, 0.0])


@dataclass
class Model:
    """What a reset and a shift can touch. Metres, world frame; quaternions wxyz.

    ``front`` stands at negative y and looks down at the origin; ``wrist`` looks straight down from
    0.2 m above the hand.
    """

    target_pos: Vector
    fixture_pos: Vector
    base_pos: Vector = field(default_factory=lambda: np.zeros(3))
    base_quat: Vector = field(default_factory=_unit_quat)
    camera_quat: dict[str, Vector] = field(
        default_factory=lambda: {"front": front_quat(), "wrist": _unit_quat()}
    )
    front_pos: Vector = field(default_factory=front_place)
    lamp_pos: Vector = field(default_factory=lambda: np.array([0.5, 0.5, 2.0]))
    lamp_dir: Vector = field(default_factory=lambda: np.array([0.0, -0.28, -0.96]))
    hand_quat: Vector = field(default_factory=lambda: np.array([0.0, 1.0, 0.0, 0.0]))
    lights: dict[str, Vector] = field(default_factory=_lights)

    def arrays(self) -> dict[str, Vector]:
        """Every array by its field's name."""
        return {
            "model.target_pos": self.target_pos,
            "model.fixture_pos": self.fixture_pos,
            "model.base_pos": self.base_pos,
            "model.base_quat": self.base_quat,
            "model.cam_pos[front]": self.front_pos,
            "model.light_pos[lamp]": self.lamp_pos,
            "model.light_dir[lamp]": self.lamp_dir,
            "model.hand_quat": self.hand_quat,
            **{f"model.cam_quat[{name}]": quat for name, quat in self.camera_quat.items()},
            **{f"model.light[{name}]": rgb for name, rgb in self.lights.items()},
        }


@dataclass
class ToyScene:
    """A Scene over :class:`Model` and the hand's place, (3,) metres."""

    model: Model
    hand: Vector
    receipts: list[Receipt] = field(default_factory=list)

    third_person_cameras: tuple[str, ...] = ("front",)
    lights: tuple[str, ...] = ("lamp", "headlight")
    placed_lights: tuple[str, ...] = ("lamp",)
    work_surface: float = 0.0

    def camera_quat(self, camera: str) -> Vector:
        return self.model.camera_quat[camera].copy()

    def set_camera_quat(self, camera: str, quat: Vector) -> None:
        self._write(f"model.cam_quat[{camera}]", self.model.camera_quat[camera], quat)

    def light_color(self, light: str, component: str) -> Vector:
        return self.model.lights[f"{light}.{component}"].copy()

    def set_light_color(self, light: str, component: str, rgb: Vector) -> None:
        name = f"{light}.{component}"
        self._write(f"model.light[{name}]", self.model.lights[name], rgb)

    def robot_base_pose(self) -> tuple[Vector, Vector]:
        return self.model.base_pos.copy(), self.model.base_quat.copy()

    def set_robot_base_pose(self, position: Vector, quat: Vector) -> None:
        # The hand is carried along, and its place is no field of the model.
        self.hand[:] += position - self.model.base_pos
        self._write("robot.base_pos", self.model.base_pos, position)
        self._write("robot.base_quat", self.model.base_quat, quat)

    def camera_pose(self, camera: str) -> tuple[Vector, Vector]:
        assert camera == "front"
        return self.model.front_pos.copy(), self.camera_quat(camera)

    def set_camera_pose(self, camera: str, position: Vector, quat: Vector) -> None:
        assert camera == "front"
        self._write(f"model.cam_pos[{camera}]", self.model.front_pos, position)
        self.set_camera_quat(camera, quat)

    def light_pose(self, light: str) -> tuple[Vector, Vector]:
        assert light == "lamp"
        return self.model.lamp_pos.copy(), self.model.lamp_dir.copy()

    def set_light_pose(self, light: str, position: Vector, direction: Vector) -> None:
        assert light == "lamp"
        self._write(f"model.light_pos[{light}]", self.model.lamp_pos, position)
        self._write(f"model.light_dir[{light}]", self.model.lamp_dir, direction)

    def eef_pose(self) -> tuple[Vector, Vector]:
        return self.hand.copy(), self.model.hand_quat.copy()

    def set_eef_pose(self, position: Vector, quat: Vector) -> None:
        if np.linalg.norm(position - self.model.base_pos) > LONGEST_ARM:
            raise UnreachablePose(f"the toy's hand does not reach {position.tolist()}")
        self._write("robot.eef_pos", self.hand, position)
        self._write("robot.eef_quat", self.model.hand_quat, quat)

    def _write(self, name: str, target: Vector, value: Vector) -> None:
        before = target.tolist()
        target[:] = value
        self.receipts.append(Receipt(name, before, target.tolist()))


def rotate(quat: Vector, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """``vectors`` (..., 3) turned by the unit quaternion ``quat`` (wxyz)."""
    axis = quat[1:]
    twice = 2.0 * np.cross(axis, vectors)
    turned: NDArray[np.float64] = vectors + quat[0] * twice + np.cross(axis, twice)
    return turned


def floor_points(eye: Vector, quat: Vector, height: int, width: int) -> NDArray[np.float64]:
    """(height, width, 2) metres: where the rays through pixel centres meet the floor z = 0."""
    rows, columns = np.mgrid[0:height, 0:width]
    rays = np.stack(
        [
            TAN_HALF_FOVY * (2 * columns + 1 - width) / height,
            TAN_HALF_FOVY * (height - 2 * rows - 1) / height,
            np.full(rows.shape, -1.0),
        ],
        axis=-1,
    )
    rays = rotate(quat, rays)
    points: NDArray[np.float64] = eye[:2] + rays[..., :2] * (
        eye[2] / np.maximum(-rays[..., 2:], 1e-3)
    )
    return points


def render(model: Model, hand: Vector, camera: str, height: int, width: int) -> Image:
    """(height, width, 3) uint8: everything lies flat on the floor."""
    eye = model.front_pos if camera == "front" else hand + np.array([0.0, 0.0, 0.2])
    floor = floor_points(eye, model.camera_quat[camera], height, width)
    checker = np.floor(floor / 0.1).sum(axis=-1) % 2
    albedo = np.repeat((0.45 + 0.1 * checker)[..., None], 3, axis=-1)
    for centre, radius, colour in (
        (model.base_pos, 0.06, (0.2, 0.2, 0.9)),
        (model.fixture_pos, 0.05, (0.7, 0.7, 0.1)),
        (model.target_pos, 0.05, (0.95, 0.1, 0.1)),
        (hand, 0.02, (0.1, 0.9, 0.1)),
    ):
        albedo[np.linalg.norm(floor - centre[:2], axis=-1) < radius] = colour
    shade = sum((rgb for name, rgb in model.lights.items() if "specular" not in name), np.zeros(3))
    return np.ascontiguousarray((np.clip(albedo * shade, 0, 1) * 255).round().astype(np.uint8))
