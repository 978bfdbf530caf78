"""A fake Scene of plain arrays: notes who read and wrote what, and has a wrist camera to spare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector


def _quats() -> dict[str, Vector]:
    return {
        "agentview": np.array(
            [0.6380177736282349, 0.3048497438430786, 0.3048497438430786, 0.6380177736282349]
        ),
        "sideview": np.array([0.0, 0.0, 0.42261826174069944, 0.9063077870366499]),
        "eye_in_hand": np.array([0.0, 0.7071067811865476, 0.7071067811865476, 0.0]),
    }


def _lights() -> dict[tuple[str, str], Vector]:
    return {
        ("lamp", "ambient"): np.zeros(3),
        ("lamp", "diffuse"): np.array([0.8, 0.7, 0.6]),
        ("lamp", "specular"): np.array([0.3, 0.3, 0.3]),
        ("headlight", "ambient"): np.full(3, 0.1),
        ("headlight", "diffuse"): np.full(3, 0.4),
        ("headlight", "specular"): np.full(3, 0.5),
    }


def _places() -> dict[str, Vector]:
    return {
        "agentview": np.array([0.6586131746834771, 0.0, 1.6103500240372423]),
        "sideview": np.array([-0.2, 1.3, 1.7]),
    }


@dataclass
class FakeScene:
    quats: dict[str, Vector] = field(default_factory=_quats)
    colors: dict[tuple[str, str], Vector] = field(default_factory=_lights)
    base_position: Vector = field(default_factory=lambda: np.array([-0.66, 0.0, 0.912]))
    base_quat: Vector = field(default_factory=lambda: np.array([1.0, 0.0, 0.0, 0.0]))
    places: dict[str, Vector] = field(default_factory=_places)
    lamp: tuple[Vector, Vector] = field(
        default_factory=lambda: (np.array([1.0, 1.0, 4.0]), np.array([0.0, -0.28, -0.96]))
    )
    hand: tuple[Vector, Vector] = field(
        default_factory=lambda: (np.array([-0.2, 0.0, 1.17]), np.array([0.0, 0.8, 0.6, 0.0]))
    )
    written: list[str] = field(default_factory=list)

    third_person_cameras: tuple[str, ...] = ("agentview", "sideview")
    lights: tuple[str, ...] = ("lamp", "headlight")
    placed_lights: tuple[str, ...] = ("lamp",)
    work_surface: float = 0.9

    def camera_quat(self, camera: str) -> Vector:
        return self.quats[camera].copy()

    def set_camera_quat(self, camera: str, quat: Vector) -> None:
        self.written.append(camera)
        self.quats[camera] = quat

    def light_color(self, light: str, component: str) -> Vector:
        return self.colors[light, component].copy()

    def set_light_color(self, light: str, component: str, rgb: Vector) -> None:
        self.written.append(f"{light}.{component}")
        self.colors[light, component] = rgb

    def robot_base_pose(self) -> tuple[Vector, Vector]:
        return self.base_position.copy(), self.base_quat.copy()

    def set_robot_base_pose(self, position: Vector, quat: Vector) -> None:
        self.written.append("base")
        self.base_position, self.base_quat = position, quat

    def camera_pose(self, camera: str) -> tuple[Vector, Vector]:
        return self.places[camera].copy(), self.quats[camera].copy()

    def set_camera_pose(self, camera: str, position: Vector, quat: Vector) -> None:
        self.written.append(f"{camera} pose")
        self.places[camera], self.quats[camera] = position, quat

    def light_pose(self, light: str) -> tuple[Vector, Vector]:
        assert light == "lamp"
        return self.lamp[0].copy(), self.lamp[1].copy()

    def set_light_pose(self, light: str, position: Vector, direction: Vector) -> None:
        assert light == "lamp"
        self.written.append(f"{light} pose")
        self.lamp = position, direction

    def eef_pose(self) -> tuple[Vector, Vector]:
        return self.hand[0].copy(), self.hand[1].copy()

    def set_eef_pose(self, position: Vector, quat: Vector) -> None:
        self.written.append("hand")
        self.hand = position, quat
