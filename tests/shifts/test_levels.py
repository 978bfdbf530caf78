"""The frozen levels, against the numbers that RoboCasa-Shift prints in section III-B."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.check import check_axis

TEXT = (files("pytest_vla_shift.protocol") / "levels" / "robocasa_shift.toml").read_text("utf-8")
AXES = tomllib.loads(TEXT)
PUBLISHED = {
    "illumination": [("alpha", (0.8, 0.6, 0.4))],
    "camera": [("theta_max_deg", (2.0, 6.0, 10.0))],
    "base": [("sigma_xy_m", (0.02, 0.05, 0.10)), ("sigma_yaw_deg", (2.0, 5.0, 10.0))],
    "blur": [("sigma_px", (1.0, 2.0, 4.0))],
}


def test_the_levels_are_the_published_ones() -> None:
    assert AXES.keys() == PUBLISHED.keys()
    for axis, parameters in PUBLISHED.items():
        levels = {name: level for name, level in AXES[axis].items() if name != "shift"}
        assert list(levels) == ["L1", "L2", "L3"]
        for i, level in enumerate(levels.values()):
            assert level == {name: values[i] for name, values in parameters}


@pytest.mark.parametrize("axis", sorted(AXES))
def test_every_axis_keeps_the_contract_at_its_levels(axis: str) -> None:
    table = dict(AXES[axis])
    check_axis(load_shift(table.pop("shift")), table)
