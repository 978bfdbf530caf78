"""The two kinds of shift: one that changes the scene once, and one that changes every picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Draw, Parameters, Scene


class Magnitudes:
    """What every shift of ours does with the numbers it is given.

    Attributes:
        limits: parameter name -> closed interval of the magnitudes that make sense.
    """

    name: ClassVar[str]
    limits: ClassVar[Mapping[str, tuple[float, float]]]

    @property
    def parameters(self) -> frozenset[str]:
        """The names that every level must give."""
        return frozenset(self.limits)

    def check(self, level: Parameters) -> None:
        """Raise ValueError for a missing, unknown, non-finite or out-of-range magnitude."""
        missing, unknown = self.parameters - set(level), set(level) - self.parameters
        if missing or unknown:
            wrong = [f"{name} is missing" for name in sorted(missing)]
            wrong += [f"{name} is unknown" for name in sorted(unknown)]
            raise ValueError(
                f"{self.name} takes {', '.join(sorted(self.parameters))}: {'; '.join(wrong)}"
            )
        for name, (low, high) in self.limits.items():
            value = level[name]
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{self.name}: {name} must be a number, not {value!r}")
            if not (math.isfinite(value) and low <= value <= high):
                raise ValueError(f"{self.name}: {name} = {value} is outside {low} ... {high}")

    def draw(self, rng: np.random.Generator) -> Draw:  # noqa: ARG002 - the protocol's signature
        """Empty: a deterministic shift leaves the generator alone."""
        return {}


class SceneShift(Magnitudes):
    """A shift of the scene: pictures change only because the scene has."""

    transforms_images: ClassVar[bool] = False

    def image(self, image: Image, level: Parameters, draw: Draw) -> Image:  # noqa: ARG002
        """The picture as it came from the renderer."""
        return image


class ImageShift(Magnitudes):
    """A shift of the pictures: the scene, and so what the actions do, stays as it is."""

    transforms_images: ClassVar[bool] = True

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Nothing: the scene is not touched."""


def variate(draw: Draw, name: str) -> float:
    """The unit variate ``name`` of a draw.

    Raises:
        ValueError: the draw was not made for this shift.
    """
    if name not in draw:
        raise ValueError(f"the draw has {sorted(draw) or 'no variates'}, but {name!r} is needed")
    return draw[name]
