"""Dimmer light: RoboCasa-Shift's illumination factor (sections III-B and VI-B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytest_vla_shift.shifts.kinds import SceneShift

if TYPE_CHECKING:
    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene

COMPONENTS = ("diffuse", "ambient")
"""What is scaled. Appendix VI-B names these two; specular highlights stay as they are."""


class Illumination(SceneShift):
    """Multiplies the diffuse and ambient colour of every light, the headlight too, by ``alpha``.

    ``alpha`` is in 0 ... 1 and 1 is identity. Deterministic. A component that is black already
    (LIBERO's lights have no ambient part) cannot get darker, and is neither written nor confessed.
    """

    name: ClassVar[str] = "illumination"
    revision: ClassVar[int] = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1.0)}
    neutral: ClassVar[dict[str, float]] = {"alpha": 1.0}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:  # noqa: ARG002
        """True at full light."""
        return level["alpha"] == 1.0

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:  # noqa: ARG002
        """Dim all lights."""
        for light in scene.lights:
            for component in COMPONENTS:
                rgb = scene.light_color(light, component)
                if rgb.any():
                    scene.set_light_color(light, component, rgb * level["alpha"])
