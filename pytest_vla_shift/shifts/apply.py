"""Interventions onto a rollout: once onto the scene, then onto pictures, actions and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.shifts.protocol import (
    ActionLayout,
    ActionShift,
    Command,
    Frame,
    Intervention,
    LanguageShift,
    Receipt,
    Scene,
    Shift,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Episode, Image


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

    def image(self, image: Image, camera: str, step: int) -> Image:
        """Transform one picture."""
        item = self.intervention
        return self.shift.image(image, item.parameters, item.draw, Frame(camera, step, item.seed))

    def receipts(self, what: str) -> list[Receipt]:
        """One receipt a parameter: the neutral value before, the level's value after."""
        return [
            Receipt(f"{what} {self.shift.name}.{name}", self.shift.neutral[name], value)
            for name, value in sorted(self.intervention.parameters.items())
        ]


@dataclass(frozen=True, slots=True)
class ImagePipeline:
    """The image shifts of one episode, in the order of its interventions. Empty when clean."""

    stages: tuple[BoundShift, ...] = ()

    def __call__(self, image: Image, camera: str, step: int) -> Image:
        """(H, W, 3) uint8 RGB through every stage, C-contiguous; the input is not modified.

        Args:
            image: as rendered.
            camera: whose picture.
            step: control steps executed since settling.
        """
        for stage in self.stages:
            image = stage.image(image, camera, step)
        return np.ascontiguousarray(image)

    def receipts(self) -> list[Receipt]:
        """What every stage does to every picture."""
        return [receipt for stage in self.stages for receipt in stage.receipts("observation.rgb")]


class ActionPipeline:
    """The action shifts of one rollout, in the order of its interventions. Empty when clean.

    Args:
        interventions: of the rollout.
        layout: where an action's parts are.
        rest: (D,) the action of no motion.
    """

    def __init__(
        self,
        interventions: Sequence[Intervention],
        layout: ActionLayout,
        rest: NDArray[np.float64],
    ) -> None:
        self._stages: list[tuple[ActionShift, Intervention]] = []
        for item in interventions:
            shift = action_shift(item.shift)
            if shift is not None:
                self._stages.append((shift, item))
        self._layout = layout
        self._rest = rest
        # What each stage was given so far, (k, D): a delay needs it.
        self._histories = [np.empty((0, len(rest))) for _ in self._stages]

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __call__(self, chunk: NDArray[np.float64], step: int) -> NDArray[np.float64]:
        """(T, D) the actions to execute for the commanded ``chunk``, whose first is step ``step``.

        Every action given here must be executed, or the rollout be over: the stages remember it.

        Raises:
            ValueError: a stage answers with another shape, or with a number that is not finite.
        """
        out = np.array(chunk, dtype=np.float64)
        for index, (shift, item) in enumerate(self._stages):
            commanded = np.concatenate([self._histories[index], out])
            commanded.flags.writeable = False
            self._histories[index] = commanded
            first = len(commanded) - len(out)
            for offset in range(len(out)):
                command = Command(step + offset, item.seed, self._layout, self._rest)
                given = commanded[: first + offset + 1]
                done = np.asarray(shift.action(given, item.parameters, item.draw, command))
                if done.shape != out[offset].shape or not np.isfinite(done).all():
                    raise ValueError(f"shift {shift.name!r} makes {given[-1]} into {done}")
                out[offset] = done
        return out

    def receipts(self) -> list[Receipt]:
        """What every stage does to every action."""
        return [
            receipt
            for shift, item in self._stages
            for receipt in BoundShift(shift, item).receipts("action")
        ]


def shifted_instruction(
    interventions: Sequence[Intervention], instruction: str, episode: Episode
) -> str:
    """The sentence that the policy is given: the task's own, through every language shift."""
    for item in interventions:
        shift = language_shift(item.shift)
        if shift is not None:
            instruction = shift.instruction(instruction, item.parameters, item.draw, episode)
    return instruction


# Python 3.11 takes half a millisecond to say whether an object follows a protocol.


@cache
def language_shift(name: str) -> LanguageShift | None:
    """The shift of that name, if it is one of the instruction."""
    shift = cached_shift(name)
    return shift if isinstance(shift, LanguageShift) else None


@cache
def action_shift(name: str) -> ActionShift | None:
    """The shift of that name, if it is one of the actions."""
    shift = cached_shift(name)
    return shift if isinstance(shift, ActionShift) else None


@cache
def shift_versions(name: str) -> Mapping[str, str]:
    """Versions of the packages that the shift of that name says could change what it does."""
    wanted: tuple[str, ...] = getattr(cached_shift(name), "distributions", ())
    found = {}
    for distribution in wanted:
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            found[distribution] = "not installed"
    return MappingProxyType(found)


@cache
def cached_shift(name: str) -> Shift:
    """The shift of that name, looked up once: each look reads every installed package's metadata.

    A shift is stateless, so that one object serves everyone.
    """
    return load_shift(name)


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
