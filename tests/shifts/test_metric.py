"""Whatever a draw is, the levels of an axis lie on one line and grow along it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.conditions import Axis
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.kinds import Metric, offset_words
from pytest_vla_shift.shifts.protocol import Draw

AXES = frozen_axes("libero_ctrl")
Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
METRIC = sorted(name for name, axis in AXES.items() if name != "language")


def metric(axis: Axis) -> Metric:
    shift = load_shift(axis.shift)
    assert isinstance(shift, Metric)
    return shift


def normalised(shift: Metric, axis: Axis, draw: Draw) -> list[Vector]:
    """(D,) offsets in units of their scales, one a level."""
    found = []
    for level in axis.levels:
        offsets = shift.offsets(level.parameters, draw)
        scales = [level.parameters[f"sigma_{scale}"] for scale in shift.scales.values()]
        found.append(np.array([offsets[name] for name in shift.scales]) / scales)
    return found


@pytest.mark.parametrize("name", METRIC)
@settings(deadline=None)  # the first draw of an axis loads what it computes with
@given(seed=st.integers(0, 2**32 - 1))
def test_levels_of_any_draw_are_collinear_and_grow_to_their_radius(name: str, seed: int) -> None:
    axis = AXES[name]
    shift = metric(axis)
    draw = shift.draw(np.random.default_rng(seed))
    levels = normalised(shift, axis, draw)
    radii = [level.parameters["radius"] for level in axis.levels]
    assert radii == sorted(radii)
    for u, radius in zip(levels, radii, strict=True):
        assert math.isclose(float(np.linalg.norm(u)), radius, rel_tol=1e-9)
        np.testing.assert_allclose(u, levels[0] * (radius / radii[0]), rtol=1e-9, atol=1e-12)
    for position, coordinate in enumerate(shift.scales):
        assert coordinate not in shift.one_sided or levels[0][position] >= 0.0


@pytest.mark.parametrize("name", METRIC)
def test_so_are_those_of_every_preset(name: str) -> None:
    axis = AXES[name]
    shift = metric(axis)
    for preset in axis.presets:
        one, two, three = normalised(shift, axis, preset)
        np.testing.assert_allclose([two, three], [2 * one, 4 * one], rtol=1e-9, atol=1e-12)
        assert math.isclose(float(np.linalg.norm(one)), 2.0, rel_tol=1e-6)


def test_people_are_told_offsets_in_their_units() -> None:
    level = {"radius": 8.0, "sigma_noise_255": 2.6, "sigma_blur_px": 0.25}
    level |= {"sigma_jpeg_log2": 0.42, "sigma_motion_px": 0.75}
    draw = {"noise": 0.6, "blur": 0.8, "jpeg": 0.0, "motion": 0.0, "motion_angle_deg": 0.0}
    words = offset_words(metric(AXES["sensor"]), level, draw)
    assert words == "radius 8: noise +12.5/255, blur +1.6 px"
