"""Other light: LIBERO-CTRL's lighting axis (sections 3.1 and 3.2, Table 1)."""

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

COMPONENTS = ("ambient", "diffuse", "specular")


class Lighting(Metric, SceneShift):
    """Changes colour and direction of every light, the headlight's colour too.

    * ``intensity`` (EV): every component of every light times ``2 ** x``.
    * ``warmth`` (log2 of the ratio R:B): red times ``2 ** (x / 2)``, blue times ``2 ** (-x / 2)``.
    * ``green`` (log2): green times ``2 ** x``.
    * ``ambient`` (log2): the ambient components times ``2 ** x``, beside all of the above.
    * ``elevation`` (degrees): every placed light is turned about a horizontal axis through the
      point of the work surface that its ray meets, position and direction together, so that it
      shines on the same point from an elevation higher by that much. Beyond the zenith it comes
      down on the other side; a light that shines straight down is taken to lean towards +x. The
      headlight goes with the camera and has no elevation.

    A component that is black (LIBERO's lights have no ambient part, its headlight has) stays black,
    and is neither written nor confessed. Renderers clip what is brighter than white.

    The paper names the five parameters and their scales; what each multiplies, and about which
    point a light is turned, is our reading.
    """

    name: ClassVar[str] = "lighting"
    revision: ClassVar[int] = 1
    scales: ClassVar[dict[str, str]] = {
        "intensity": "intensity_ev",
        "warmth": "warmth_log2",
        "green": "green_log2",
        "ambient": "ambient_log2",
        "elevation": "elevation_deg",
    }

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Recolour and turn the lights; each component and each pose is written at most once.

        Raises:
            InvalidScene: a light does not shine down at the work surface, or would come to its
                level or below.
        """
        offsets = self.offsets(level, draw)
        for light in scene.lights:
            for component in COMPONENTS:
                factor = factors(offsets, component)
                rgb = scene.light_color(light, component)
                if rgb.any() and (factor != 1.0).any():
                    scene.set_light_color(light, component, rgb * factor)
        if offsets["elevation"] != 0.0:
            for light in scene.placed_lights:
                position, direction = scene.light_pose(light)
                scene.set_light_pose(
                    light,
                    *turned(light, position, direction, scene.work_surface, offsets["elevation"]),
                )


def factors(offsets: dict[str, float], component: str) -> Vector:
    """(3,) RGB: what a colour component of a light is multiplied by."""
    stops = offsets["intensity"] + (offsets["ambient"] if component == "ambient" else 0.0)
    half = 0.5 * offsets["warmth"]
    factor: Vector = np.exp2([stops + half, stops + offsets["green"], stops - half])
    return factor


def turned(
    light: str, position: Vector, direction: Vector, surface: float, degrees: float
) -> tuple[Vector, Vector]:
    """(3,) metres and (3,) unit direction of a light that was raised by ``degrees``.

    Args:
        light: its name, for messages.
        position: (3,) metres in the world frame.
        direction: (3,) unit vector of its rays.
        surface: height of the work surface in metres.
        degrees: negative lowers it.

    Raises:
        InvalidScene: as :meth:`Lighting.apply`.
    """
    if position[2] <= surface or direction[2] >= 0.0:
        raise InvalidScene(f"light {light!r} does not shine down at the work surface")
    before = math.degrees(rotation.elevation(-direction))
    if not 0.0 < before + degrees < 180.0:
        raise InvalidScene(
            f"light {light!r}, at an elevation of {before:.1f} degrees above the work surface,"
            f" cannot be turned by {degrees:.1f} and still shine down at it"
        )
    centre = position + direction * (surface - position[2]) / direction[2]
    turn = rotation.lift(-direction, math.radians(degrees))
    rays = rotation.rotate(turn, direction.tolist())
    return (
        centre + rotation.rotate(turn, (position - centre).tolist()),
        rays / np.linalg.norm(rays),
    )
