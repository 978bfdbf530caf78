"""Kinds of shift: of the scene, of the pictures, of the actions, of the sentence; and metric ones,
whose severity is a radius in normalised coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Draw, Frame, Parameters, Scene


class Magnitudes:
    """What every shift of ours does with the numbers it is given.

    Attributes:
        limits: parameter name -> closed interval of the magnitudes that make sense.
        distributions: packages whose version could change what the shift does; their versions are
            part of a rollout's key. Optional for shifts of others.
    """

    name: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]] = ()
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

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:  # noqa: ARG002
        """The picture as it came from the renderer."""
        return image


class ImageShift(Magnitudes):
    """A shift of the pictures: the scene, and so what the actions do, stays as it is."""

    transforms_images: ClassVar[bool] = True

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Nothing: the scene is not touched."""


class PassingShift(Magnitudes):
    """A shift of what passes between policy and simulator: neither scene nor pictures change."""

    transforms_images: ClassVar[bool] = False

    def apply(self, scene: Scene, level: Parameters, draw: Draw) -> None:
        """Nothing: the scene is not touched."""

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:  # noqa: ARG002
        """The picture as it came from the renderer."""
        return image


class Metric(Magnitudes):
    """Severity as LIBERO-CTRL defines it (section 3.2): offsets in units of a fixed scale each.

    A level gives ``radius``, the L2 norm of the normalised offsets, and the scales, each as
    ``sigma_<name with its unit>``. A draw gives a unit vector over the coordinates; the offset on
    coordinate i is ``radius * draw[i] * sigma_i``. All levels so share a direction.

    Attributes:
        scales: coordinate -> name of its scale, in the order of the unit vector; coordinates may
            share one (the three components of a position do).
        one_sided: coordinates whose offset cannot be negative, for example a noise's magnitude.
    """

    scales: ClassVar[Mapping[str, str]]
    one_sided: ClassVar[frozenset[str]] = frozenset()

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        """``radius`` and a scale for each coordinate."""
        scales = {f"sigma_{scale}": (0.0, 1e6) for scale in self.scales.values()}
        return {"radius": (0.0, 64.0), **scales}

    @property
    def neutral(self) -> Parameters:
        """A radius of nothing; scales do not matter then."""
        return dict.fromkeys(self.limits, 0.0)

    def draw(self, rng: np.random.Generator) -> Draw:
        """A direction, uniform on the part of the sphere that one-sided coordinates leave."""
        direction = rng.standard_normal(len(self.scales))
        direction /= math.sqrt(float(direction @ direction))
        return {
            name: abs(float(value)) if name in self.one_sided else float(value)
            for name, value in zip(self.scales, direction, strict=True)
        }

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        """True if no offset differs from zero."""
        return not any(self.offsets(level, draw).values())

    def offsets(self, level: Parameters, draw: Draw) -> dict[str, float]:
        """Coordinate -> offset, in the unit of its scale.

        Raises:
            ValueError: the draw lacks a coordinate, is no unit vector (to 1e-6), or is negative
                where it must not be.
        """
        direction = {name: variate(draw, name) for name in self.scales}
        norm = math.sqrt(sum(value * value for value in direction.values()))
        if abs(norm - 1.0) > 1e-6:
            raise ValueError(f"{self.name}: the draw's direction has norm {norm:.6f}, not 1")
        for name in sorted(self.one_sided):
            if direction[name] < 0.0:
                raise ValueError(f"{self.name}: {name} cannot be negative, it is {direction[name]}")
        radius = level["radius"]
        return {
            name: radius * direction[name] * level[f"sigma_{scale}"]
            for name, scale in self.scales.items()
        }


def offset_words(shift: Metric, level: Parameters, draw: Draw) -> str:
    """``radius 8: azimuth -15.0 deg, distance +0.21 m``: what the offsets are, for people."""
    told = []
    for name, offset in shift.offsets(level, draw).items():
        unit = shift.scales[name].rpartition("_")[2]
        if offset:
            told.append(f"{name} {offset:+.3g}{'/255' if unit == '255' else f' {unit}'}")
    return f"radius {level['radius']:g}: {', '.join(told)}"


def variate(draw: Draw, name: str) -> float:
    """The unit variate ``name`` of a draw.

    Raises:
        ValueError: the draw was not made for this shift.
    """
    if name not in draw:
        raise ValueError(f"the draw has {sorted(draw) or 'no variates'}, but {name!r} is needed")
    return draw[name]
