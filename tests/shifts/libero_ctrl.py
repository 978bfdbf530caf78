"""LIBERO-CTRL's metric axes for tests: their shipped levels, and draws."""

from __future__ import annotations

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.kinds import Metric
from pytest_vla_shift.shifts.protocol import Parameters

LEVELS = {
    axis.name: {level.name: level.parameters for level in axis.levels}
    for axis in frozen_axes("libero_ctrl").values()
}
"""Axis -> level -> parameters, as shipped."""


def level(axis: str, radius: float) -> Parameters:
    """The shipped scales with a radius of one's own."""
    return {**LEVELS[axis]["L1"], "radius": radius}


def along(axis: str, coordinate: str, value: float = 1.0) -> dict[str, float]:
    """A draw with all other coordinates at zero: of a whole radius, if ``value`` is 1 or -1."""
    shift = load_shift(frozen_axes("libero_ctrl")[axis].shift)
    assert isinstance(shift, Metric)
    return {name: value if name == coordinate else 0.0 for name in shift.scales}
