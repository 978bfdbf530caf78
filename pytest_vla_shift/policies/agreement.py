"""Do a policy and what runs it mean the same? Both sides, item by item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One item of the contract between a policy and what runs it.

    Attributes:
        item: what is compared, in a few words: ``image video.image``.
        policy: the policy's, or its server's, side.
        ours: the profile's, suite's or simulator's side.
        fits: whether they go together.
    """

    item: str
    policy: str
    ours: str
    fits: bool


@dataclass(frozen=True, slots=True)
class SimulatorSide:
    """What a suite and its simulator offer.

    Attributes:
        simulator: its name.
        cameras, height, width: the observation that the suite allows.
        action_dim: width of an action.
        action_low, action_high: what an action is clipped to.
        position: [start, stop) of an action's components that move the end effector.
        rotation: [start, stop) of those that turn it.
        settle_action: the action that does nothing but open the gripper; empty if unknown.
        proprio: names of the proprioception that it tells; empty if unknown.
    """

    simulator: str
    cameras: tuple[str, ...]
    height: int
    width: int
    action_dim: int
    action_low: float
    action_high: float
    position: tuple[int, int] = (0, 0)
    rotation: tuple[int, int] = (0, 0)
    settle_action: tuple[float, ...] = ()
    proprio: tuple[str, ...] = ()

    def meaning(self, components: Sequence[int]) -> str:
        """What components of an action do, in a word.

        ``gripper`` is said of an arm alone: where one component is left beside six of motion.
        """
        for word, (start, stop) in (("position", self.position), ("rotation", self.rotation)):
            if all(start <= index < stop for index in components):
                return word
        moved = {*range(*self.position), *range(*self.rotation)}
        if len(moved) == self.action_dim - 1 and not moved & set(components):
            return "gripper"
        return f"component{'s' * (len(components) > 1)}"


class Agrees(Protocol):
    """What a policy may have beyond the protocol: its own comparison with a simulator."""

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        """Every item that could be compared; the run is refused if one does not fit."""
        ...


def side_by_side(rows: Iterable[Row], left: str, right: str) -> str:
    """The rows as a table of at most 80 columns; those that do not fit are marked.

    Args:
        rows: of the contract.
        left: whose the policy's side is.
        right: whose the other side is.
    """
    listed = [("", "", left, right)]
    listed += [("" if row.fits else "!", row.item, row.policy, row.ours) for row in rows]
    first = min(22, max(len(item) for _, item, _, _ in listed))
    second = (WIDTH - 2 - first - 4) // 2
    lines: list[str] = []
    for mark, *cells in listed:
        wrapped = [
            _wrapped(cell, width)
            for cell, width in zip(cells, (first, second, second), strict=True)
        ]
        for at in range(max(map(len, wrapped))):
            texts = [column[at] if at < len(column) else "" for column in wrapped]
            sign = mark if at == 0 else ""
            lines.append(f"{sign:2}{texts[0]:{first}}  {texts[1]:{second}}  {texts[2]}".rstrip())
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width``; a word longer than that is broken where its parts meet."""
    lines = [""]
    for word in text.split():
        rest = word
        while len(rest) > width:
            room = width - len(lines[-1]) - bool(lines[-1])
            at = 1 + max(rest.rfind(mark, 0, room) for mark in "_./") if room > 0 else 0
            if not at and not lines[-1]:
                at = width
            lines[-1] = f"{lines[-1]} {rest[:at]}".strip()
            lines.append("")
            rest = rest[at:]
        if len(lines[-1]) + bool(lines[-1]) + len(rest) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {rest}".strip()
    return lines
