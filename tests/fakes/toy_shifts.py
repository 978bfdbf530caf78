"""Two plain shifts with certain effect, for tests that should not depend on a random draw."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.shifts.protocol import Draw, Frame, Parameters, Scene

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image


class MoveBase:
    """The robot's base ``x_m`` metres along the world's x."""

    name = "move_base"
    revision = 1
    parameters = frozenset({"x_m"})
    neutral: Parameters = MappingProxyType({"x_m": 0.0})
    transforms_images = False

    def check(self, level: Parameters) -> None:
        if not np.isfinite(level["x_m"]):
            raise ValueError("x_m must be finite")

    def draw(self, rng: np.random.Generator) -> Draw:
        return {}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return level["x_m"] == 0

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        position, quat = scene.robot_base_pose()
        position[0] += level["x_m"]
        scene.set_robot_base_pose(position, quat)

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return image


class Dim:
    """Every ambient and diffuse light times ``alpha``."""

    name = "dim"
    revision = 1
    parameters = frozenset({"alpha"})
    neutral: Parameters = MappingProxyType({"alpha": 1.0})
    transforms_images = False

    def check(self, level: Parameters) -> None:
        if not 0 <= level["alpha"] <= 1:
            raise ValueError("alpha must be in [0, 1]")

    def draw(self, rng: np.random.Generator) -> Draw:
        return {}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return level["alpha"] == 1

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        for light in scene.lights:
            for component in ("ambient", "diffuse"):
                color = scene.light_color(light, component)
                scene.set_light_color(light, component, color * level["alpha"])

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        return image
