"""Conditions: clean, null, one axis at one level, or several axes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SIMULTANEOUS = "simultaneous"
"""The compound of every axis of a suite (LIBERO-CTRL's word)."""

RESERVED = frozenset({"clean", "null", "nominal", "all", SIMULTANEOUS})
"""Names that no axis may have: each means something of its own wherever axes are named."""


@dataclass(frozen=True, slots=True)
class Level:
    """One frozen magnitude of an axis.

    Attributes:
        name: ``L1``, ``L2`` ...
        parameters: magnitudes; each name ends with its unit.
    """

    name: str
    parameters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """One factor of shift, as a suite uses it.

    Attributes:
        name: the suite's word for it, in ids and reports.
        shift: the entry point (group ``pytest_vla_shift.axes``) that implements it.
        levels: in ascending order.
        presets: draws that were frozen in advance: configuration j of a task, its j-th listed
            initial state from 0, is given preset j at every level. Empty: each episode's draw
            comes from the suite's ``draw_seed``.
    """

    name: str
    shift: str
    levels: tuple[Level, ...]
    presets: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One axis at one level, within a condition."""

    axis: Axis
    level: Level


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rollout runs under.

    Attributes:
        name: ``clean``, ``null``, ``nominal``, ``camera-L2``, ``simultaneous-L2`` or
            ``camera+lighting-L2``.
        parts: in sorted order of the axes' names; one for a single axis, several for a compound,
            none for clean, null and nominal.
        axis: ``camera``, ``simultaneous``, ``camera+lighting``; None without parts.
        level: ``L2``; None without parts.
    """

    name: str
    parts: tuple[Part, ...] = ()
    axis: str | None = None
    level: str | None = None

    @property
    def number(self) -> int:
        """2 for ``L2``, 0 without a level: what ``-m "vla(level=2)"`` compares with."""
        return 0 if self.level is None else int(self.level[1:])

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes that are shifted, sorted."""
        return tuple(part.axis.name for part in self.parts)

    @property
    def is_compound(self) -> bool:
        """Whether several axes are shifted at once."""
        return len(self.parts) > 1


CLEAN = Condition("clean")
NULL = Condition("null")
NOMINAL = Condition("nominal")
"""The clean condition on one of all released initial states, with nothing to compare it with."""


def single(axis: Axis, level: Level) -> Condition:
    """The condition of one axis at one level."""
    name = f"{axis.name}-{level.name}"
    return Condition(name, (Part(axis, level),), axis.name, level.name)


def compound_name(axes: Iterable[str], all_axes: Iterable[str]) -> str:
    """``simultaneous`` for every axis of a suite, else the sorted names joined with ``+``."""
    wanted = sorted(set(axes))
    return SIMULTANEOUS if wanted == sorted(set(all_axes)) else "+".join(wanted)


def compounds(axes: Sequence[Axis], names: Iterable[str]) -> tuple[Condition, ...]:
    """The compound of the axes ``names`` at every level that all of them have.

    Args:
        axes: all axes of the suite.
        names: which of them are shifted together.
    """
    wanted = set(names)
    chosen = sorted((axis for axis in axes if axis.name in wanted), key=lambda axis: axis.name)
    name = compound_name(wanted, (axis.name for axis in axes))
    levels = [{level.name: level for level in axis.levels} for axis in chosen]
    shared = sorted(set.intersection(*(set(found) for found in levels)))
    return tuple(
        Condition(
            f"{name}-{level}",
            tuple(Part(axis, found[level]) for axis, found in zip(chosen, levels, strict=True)),
            name,
            level,
        )
        for level in shared
    )
