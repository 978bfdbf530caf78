"""Conditions: clean, null, one axis at one level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """One frozen magnitude of an axis.

    Attributes:
        name: ``L1``, ``L2`` ...
        parameters: magnitudes; each name ends with its unit.
    """

    name: str
    parameters: Mapping[str, float]

    @property
    def number(self) -> int:
        """1 for ``L1``: what ``-m "vla(level=1)"`` compares with."""
        return int(self.name[1:])


@dataclass(frozen=True, slots=True)
class Axis:
    """One factor of shift, as a suite uses it.

    Attributes:
        name: the suite's word for it, in ids and reports.
        shift: the entry point (group ``pytest_vla_shift.axes``) that implements it.
        levels: in ascending order.
    """

    name: str
    shift: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rollout runs under.

    Attributes:
        name: ``clean``, ``null`` or ``camera-L2``.
        axis: None for clean and null.
        level: None for clean and null.
    """

    name: str
    axis: Axis | None = None
    level: Level | None = None


CLEAN = Condition("clean")
NULL = Condition("null")


def single(axis: Axis, level: Level) -> Condition:
    """The condition of one axis at one level."""
    return Condition(f"{axis.name}-{level.name}", axis, level)
