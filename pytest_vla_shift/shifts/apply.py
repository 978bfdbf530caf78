"""Interventions onto a prepared episode: once onto the scene, then onto every picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.shifts.protocol import Intervention, Receipt, Scene, Shift

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image


def load_shift(name: str) -> Shift:
    """The shift behind an entry point's name or ``module:attr`` (a class or an instance).

    Raises:
        UsageError: unknown, not importable, or not a shift.
    """
    found = registry.load("axes", name)
    if isinstance(found, type):
        try:
            found = found()
        except TypeError as error:
            raise UsageError(f"shift {name!r} must need no arguments: {error}") from error
    if not isinstance(found, Shift):
        missing = sorted(m for m in vars(Shift) if m[0] != "_" and not hasattr(found, m))
        raise UsageError(f"shift {name!r} is not a Shift: it has no {', '.join(missing)}")
    return found


@dataclass(frozen=True, slots=True)
class BoundShift:
    """A shift together with the level and draw of one episode."""

    shift: Shift
    intervention: Intervention

    def is_identity(self) -> bool:
        """True if nothing would change."""
        return self.shift.is_identity(self.intervention.parameters, self.intervention.draw)

    def apply(self, scene: Scene) -> None:
        """Change the scene."""
        self.shift.apply(scene, self.intervention.parameters, self.intervention.draw)

    def image(self, image: Image) -> Image:
        """Transform one picture."""
        return self.shift.image(image, self.intervention.parameters, self.intervention.draw)


@dataclass(frozen=True, slots=True)
class ImagePipeline:
    """The image shifts of one episode, in the order of its interventions. Empty when clean."""

    stages: tuple[BoundShift, ...] = ()

    def __call__(self, image: Image) -> Image:
        """(H, W, 3) uint8 RGB through every stage, C-contiguous; the input is not modified."""
        for stage in self.stages:
            image = stage.image(image)
        return np.ascontiguousarray(image)

    def receipts(self) -> list[Receipt]:
        """One receipt a parameter: neutral value before, the level's value after."""
        return [
            Receipt(
                field=f"observation.rgb {stage.shift.name}.{name}",
                before=stage.shift.neutral[name],
                after=value,
            )
            for stage in self.stages
            for name, value in sorted(stage.intervention.parameters.items())
        ]


def apply_interventions(scene: Scene, interventions: Sequence[Intervention]) -> ImagePipeline:
    """Apply interventions in order, skipping identities; the scene records its own receipts.

    Returns:
        The pipeline that the simulator must send every picture through until the next ``prepare``.

    Raises:
        UsageError: a shift cannot be loaded, or its magnitudes or draw do not fit it. Checked for
            all interventions before the scene is touched.
    """
    bound = [BoundShift(load_shift(item.shift), item) for item in interventions]
    active: list[BoundShift] = []
    for item in bound:
        try:
            item.shift.check(item.intervention.parameters)
            if not item.is_identity():
                active.append(item)
        except ValueError as error:
            where = f"axis {item.intervention.axis!r}, level {item.intervention.level!r}"
            raise UsageError(f"{where}: {error}") from error
    for item in active:
        item.apply(scene)
    return ImagePipeline(tuple(item for item in active if item.shift.transforms_images))
