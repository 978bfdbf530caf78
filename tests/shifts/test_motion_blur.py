from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_vla_shift.shifts.motion_blur import motion_blurred, taps


def moments(length: float, angle: float) -> tuple[float, float, float]:
    """Sum of the taps, and their variance along and across the segment, in px^2."""
    right, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    found = taps(length, angle)
    along = sum(w * (c * right - r * up) ** 2 for r, c, w in found)
    across = sum(w * (c * up + r * right) ** 2 for r, c, w in found)
    return sum(w for _, _, w in found), along, across


def by_sampling(length: float, angle: float, points: int = 20_000) -> dict[tuple[int, int], float]:
    """The definition, slowly: many points on the segment, each shared bilinearly."""
    right, down = math.cos(math.radians(angle)), -math.sin(math.radians(angle))
    shares: dict[tuple[int, int], float] = {}
    for i in range(points):
        t = length * ((i + 0.5) / points - 0.5)
        row, column = t * down, t * right
        top, left = math.floor(row), math.floor(column)
        for r in (top, top + 1):
            for c in (left, left + 1):
                share = (1 - abs(row - r)) * (1 - abs(column - c)) / points
                shares[r, c] = shares.get((r, c), 0.0) + share
    return shares


@pytest.mark.parametrize("angle", [0.0, 30.0, 45.0, 90.0, 137.0])
@pytest.mark.parametrize("length", [0.3, 1.5, 6.0])
def test_the_taps_are_the_bilinear_integral_over_the_segment(length: float, angle: float) -> None:
    expected = by_sampling(length, angle)
    found = {(r, c): w for r, c, w in taps(length, angle)}
    for place in set(expected) | set(found):
        assert found.get(place, 0.0) == pytest.approx(expected.get(place, 0.0), abs=1e-6)


@pytest.mark.parametrize("angle", [0.0, 20.0, 90.0, 170.0])
@pytest.mark.parametrize("length", [0.5, 0.75, 2.0, 6.0, 31.7])
def test_light_is_kept_and_spread_along_the_segment(length: float, angle: float) -> None:
    total, along, across = moments(length, angle)
    assert total == pytest.approx(1.0, abs=1e-12)
    # A segment's own variance, and at most a quarter of a pixel's square from each linear share.
    assert length**2 / 12 <= along + 1e-9 <= length**2 / 12 + 0.26
    assert across <= 0.26


def test_the_angle_is_counter_clockwise_as_seen_and_has_no_direction() -> None:
    upward = {(r, c) for r, c, w in taps(4.0, 45.0) if w > 0.05}
    assert {(-1, 1), (1, -1)} <= upward
    assert not {(1, 1), (-1, -1)} & upward
    for (r, c, w), (r2, c2, w2) in zip(taps(3.3, 25.0), taps(3.3, 205.0), strict=True):
        assert (r, c) == (r2, c2)
        assert w == pytest.approx(w2)


def test_no_length_is_the_identity_and_a_little_is_nearly_so() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(motion_blurred(picture, 0.0, 33.0), picture)
    nearly = motion_blurred(picture, 1e-3, 33.0)
    assert np.abs(nearly - picture).max() < 0.1


def test_a_dot_becomes_a_line_of_its_length() -> None:
    picture = np.zeros((21, 21, 3), dtype=np.uint8)
    picture[10, 10, 1] = 255
    line = motion_blurred(picture, 6.0, 0.0)
    assert line[..., 1].sum() == pytest.approx(255.0, rel=1e-6)
    assert line[..., [0, 2]].sum() == 0
    lit = np.argwhere(line[..., 1] > 1)
    assert set(lit[:, 0]) == {10}
    assert (lit[:, 1].min(), lit[:, 1].max()) == (7, 13)
    np.testing.assert_allclose(line[10, 8:13, 1], 255 / 6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 5, 3), (40, 3, 3)])
def test_any_size_is_taken_and_flat_colour_stays_flat(shape: tuple[int, int, int]) -> None:
    flat = np.full(shape, 200, dtype=np.uint8)
    np.testing.assert_allclose(motion_blurred(flat, 9.5, 60.0), 200.0, rtol=1e-6)
