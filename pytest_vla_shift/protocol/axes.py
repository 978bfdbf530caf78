"""The ``[axes]`` table of a suite: frozen level tables, levels of its own, and frozen presets."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pytest_vla_shift.protocol.conditions import RESERVED, Axis, Level
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.tables import Table


def read_axes(table: Table) -> tuple[Axis, ...]:
    """``[axes]``: a name to a frozen level table's name, or to levels of its own.

    Returns:
        The axes in sorted order of their names.

    Raises:
        UsageError: a name that is not allowed, an unknown level table or presets, a malformed
            level; the message names the place.
    """
    axes: list[Axis] = []
    for name in table.names():
        if not re.fullmatch(r"[a-z0-9_]+", name) or name in RESERVED:
            raise UsageError(f"{table.where}: axis name {name!r} is not allowed")
        raw = table.raw(name)
        if isinstance(raw, str):
            frozen = _level_table(raw, f"{table.where}.{name}")
            if name not in frozen:
                raise UsageError(
                    f"{table.where}: {raw!r} freezes no levels for axis {name!r};"
                    f" it has {', '.join(sorted(frozen))}"
                )
            axes.append(frozen[name])
        else:
            axes.append(_axis(name, table.table(name)))
    table.finish()
    return tuple(sorted(axes, key=lambda axis: axis.name))


def frozen_axes(name: str) -> Mapping[str, Axis]:
    """The axes of a shipped level table, by name.

    Raises:
        UsageError: no such table.
    """
    return _level_table(name, "levels")


def _axis(name: str, table: Table) -> Axis:
    """One axis. ``sigma`` is shared by its levels: each key becomes the parameter ``sigma_<key>``.

    Presets are the name of a shipped file, or a list of tables of numbers.
    """
    shift = table.text("shift", default=name)
    scales = table.table("sigma", optional=True)
    shared = {f"sigma_{key}": scales.number(key, minimum=0.0) for key in scales.names()}
    presets = _presets(name, table) if "presets" in table.names() else ()
    levels: list[Level] = []
    for level in table.names():
        if not re.fullmatch(r"L[1-9]", level):
            raise UsageError(f"{table.where}: {level!r} is not a level; use L1, L2 ...")
        parameters = table.table(level)
        own = {key: parameters.number(key) for key in parameters.names()}
        twice = sorted(set(own) & set(shared))
        if twice:
            raise UsageError(f"{parameters.where}: {twice[0]!r} is given by sigma as well")
        levels.append(Level(level, {**shared, **own}))
    if not levels:
        raise UsageError(f"{table.where}: no levels")
    return Axis(name, shift, tuple(sorted(levels, key=lambda level: level.name)), presets)


def _presets(axis: str, table: Table) -> tuple[Mapping[str, float], ...]:
    if isinstance(table.raw("presets"), str):
        name = table.text("presets")
        text = _shipped("presets", name, f"{table.where}: presets")
        source = Table(tomllib.loads(text), f"presets {name!r}")
        rows = source.tables(axis)
        where = f"{source.where}: [[{axis}]]"
    else:
        rows, where = table.tables("presets"), f"{table.where}: presets"
    found = tuple({key: row.number(key) for key in row.names()} for row in rows)
    if not found:
        raise UsageError(f"{where}: no presets for axis {axis!r}")
    if len({frozenset(preset) for preset in found}) != 1:
        raise UsageError(f"{where}: the presets differ in their names")
    return found


@cache
def _level_table(name: str, where: str) -> dict[str, Axis]:
    text = _shipped("levels", name, where)
    table = Table(tomllib.loads(text), f"levels {name!r}")
    return {axis: _axis(axis, table.table(axis)) for axis in table.names()}


def _shipped(kind: str, name: str, where: str) -> str:
    """The text of ``<kind>/<name>.toml`` of this package."""
    root = files("pytest_vla_shift.protocol") / kind
    known = sorted(p.name[:-5] for p in root.iterdir() if p.name.endswith(".toml"))
    if name not in known:
        what = "level table" if kind == "levels" else kind
        raise UsageError(f"{where}: unknown {what} {name!r}; there are {', '.join(known)}")
    return (root / f"{name}.toml").read_text("utf-8")
