"""LIBERO-CTRL's frozen presets: unit vectors, ten an axis, and as far apart as is stated."""

from __future__ import annotations

import math
import tomllib
from importlib.resources import files

import numpy as np
import pytest

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.conditions import Axis
from pytest_vla_shift.shifts.actuation import AXIS, BIAS
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.kinds import Metric
from pytest_vla_shift.shifts.sensor import ANGLE
from scripts import libero_ctrl_presets as script

TEXT = (files("pytest_vla_shift.protocol") / "presets" / "libero_ctrl.toml").read_text("utf-8")
AXES = frozen_axes("libero_ctrl")
ANGLES = {"camera": 90.0, "lighting": 90.0, "robot_pose": 90.0, "sensor": 45.0, "actuation": 60.0}
"""The smallest angle between two presets of an axis, in degrees."""


def shift_of(axis: Axis) -> Metric:
    shift = load_shift(axis.shift)
    assert isinstance(shift, Metric)
    return shift


def points(
    axis: str, names: tuple[str, ...] = ()
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    names = names or tuple(shift_of(AXES[axis]).scales)
    return np.array([[preset[name] for name in names] for preset in AXES[axis].presets])


def angles(vectors: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[float]:
    """Degrees between all pairs, by the formula that is exact near 0 and 180."""
    return [
        math.degrees(2.0 * math.atan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))
        for i, a in enumerate(vectors)
        for b in vectors[i + 1 :]
    ]


def test_the_file_is_what_its_script_writes() -> None:
    """As numbers: rounded ones may differ in the last place between builds of NumPy."""
    shipped, written = tomllib.loads(TEXT), tomllib.loads(script.text())
    assert {axis: [list(row) for row in rows] for axis, rows in shipped.items()} == {
        axis: [list(row) for row in rows] for axis, rows in written.items()
    }
    for axis, rows in shipped.items():
        for row, again in zip(rows, written[axis], strict=True):
            assert row == pytest.approx(again, abs=2e-9)
    assert TEXT.startswith(script.HEADER)


def test_every_axis_has_ten_presets() -> None:
    assert {name: len(axis.presets) for name, axis in AXES.items()} == dict.fromkeys(AXES, 10)
    assert set(tomllib.loads(TEXT)) == set(AXES)
    assert [preset["paraphrase"] for preset in AXES["language"].presets] == list(range(10))


@pytest.mark.parametrize("axis", sorted(ANGLES))
def test_presets_share_the_radius_and_are_as_far_apart_as_stated(axis: str) -> None:
    directions = points(axis)
    assert np.abs(np.linalg.norm(directions, axis=1) - 1.0).max() < 1e-7
    assert min(angles(directions)) == pytest.approx(ANGLES[axis], abs=1e-6)


@pytest.mark.parametrize("axis", sorted(ANGLES))
def test_levels_share_the_direction_of_a_preset_and_differ_in_the_radius(axis: str) -> None:
    shift = shift_of(AXES[axis])
    for preset in AXES[axis].presets:
        for level, radius in zip(AXES[axis].levels, (2.0, 4.0, 8.0), strict=True):
            offsets = shift.offsets(level.parameters, preset)
            normalised = {
                name: offset / level.parameters[f"sigma_{shift.scales[name]}"]
                for name, offset in offsets.items()
            }
            assert normalised == pytest.approx(
                {name: radius * preset[name] for name in shift.scales}, abs=1e-12
            )
            assert math.hypot(*normalised.values()) == pytest.approx(radius, abs=1e-6)


@pytest.mark.parametrize("axis", ["camera", "lighting", "robot_pose"])
def test_no_two_sided_preset_is_nearly_one_coordinate_alone(axis: str) -> None:
    directions = points(axis)
    assert np.abs(directions).max() <= script.LARGEST
    # In both senses: presets have their opposites, but for the two hands that begin higher.
    opposites = 4 if axis == "robot_pose" else 5
    found = sum(angle > 179.99 for angle in angles(directions))
    assert found == opposites


def test_no_hand_begins_much_lower_and_two_begin_much_higher() -> None:
    """Things on LIBERO's tables reach up to the hand."""
    heights = sorted(8 * 0.0257 * points("robot_pose")[:, 2])
    assert heights[0] > -0.021
    assert [height > 0.13 for height in heights] == [False] * 8 + [True] * 2


def test_no_smaller_seed_would_have_done_for_the_turned_axes() -> None:
    def even(dimensions: int, seed: int) -> bool:
        return bool(np.abs(script.cross_polytope(dimensions, seed)).max() <= script.LARGEST)

    def flat(seed: int) -> bool:
        return bool(np.abs(script.cross_polytope(5, seed)[:, 1]).max() <= script.STEEPEST)

    assert next(s for s in range(99) if even(5, s) and flat(s)) == script.SEEDS["camera"]
    assert next(s for s in range(99) if even(5, s)) == script.SEEDS["lighting"]
    assert np.abs(script.hand_frame(script.SEEDS["robot_pose"])).max() <= script.LARGEST


def test_one_sided_coordinates_are_never_negative_and_all_are_used() -> None:
    for axis in ("sensor", "actuation"):
        directions = points(axis)
        names = list(shift_of(AXES[axis]).scales)
        sided = [names.index(name) for name in shift_of(AXES[axis]).one_sided]
        assert (directions[:, sided] >= 0.0).all()
        assert (np.count_nonzero(directions, axis=0) == 4).all(), "each coordinate in four presets"


def test_directions_in_space_are_unit_vectors_all_over_the_sphere() -> None:
    for names in (BIAS, AXIS):
        vectors = points("actuation", names)
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1.0).max() < 1e-7
        assert min(angles(vectors)) == pytest.approx(65.53, abs=0.01)
    assert not np.allclose(points("actuation", BIAS), points("actuation", AXIS))


def test_motion_blurs_angles_are_spread_over_half_a_turn() -> None:
    found = sorted(preset[ANGLE] for preset in AXES["sensor"].presets)
    np.testing.assert_allclose(found, np.arange(10) * 18.0)
