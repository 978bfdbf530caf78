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
        "sideview": np.array([0.5, 0.5, -0.5, -0.5]),
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


@dataclass
class FakeScene:
    quats: dict[str, Vector] = field(default_factory=_quats)
    colors: dict[tuple[str, str], Vector] = field(default_factory=_lights)
    base_position: Vector = field(default_factory=lambda: np.array([-0.66, 0.0, 0.912]))
    base_quat: Vector = field(default_factory=lambda: np.array([1.0, 0.0, 0.0, 0.0]))
    written: list[str] = field(default_factory=list)

    third_person_cameras: tuple[str, ...] = ("agentview", "sideview")
    lights: tuple[str, ...] = ("lamp", "headlight")

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
