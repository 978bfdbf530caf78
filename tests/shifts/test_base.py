from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.base import Base
from tests.shifts.fake_scene import FakeScene

normals = st.floats(-4, 4)
L2 = {"sigma_xy_m": 0.05, "sigma_yaw_deg": 5.0}
TILTED = rotation.compose(rotation.about(rotation.Z, 2.0), rotation.about(rotation.X, 0.2))


@given(normals, normals, normals)
def test_the_base_moves_in_the_plane_and_turns_about_world_z(
    x: float, y: float, yaw: float
) -> None:
    scene, before = FakeScene(base_quat=TILTED), FakeScene(base_quat=TILTED)
    Base().apply(scene, L2, {"x": x, "y": y, "yaw": yaw})
    moved = scene.base_position - before.base_position
    np.testing.assert_allclose(moved, [0.05 * x, 0.05 * y, 0.0], atol=1e-12)
    assert scene.base_position[2] == before.base_position[2]
    assert np.linalg.norm(scene.base_quat) == pytest.approx(1.0, abs=1e-12)
    # What was upright in the base's frame keeps its height, and turns by the yaw seen from above.
    old, new = rotation.rotate(TILTED, rotation.X), rotation.rotate(scene.base_quat, rotation.X)
    assert new[2] == pytest.approx(old[2], abs=1e-12)
    angle = math.atan2(new[1], new[0]) - math.atan2(old[1], old[0])
    expected = math.radians(5.0) * yaw
    assert math.remainder(angle - expected, 2 * math.pi) == pytest.approx(0.0, abs=1e-9)


def test_it_is_one_write_and_nothing_else() -> None:
    scene = FakeScene()
    Base().apply(scene, L2, {"x": 1.0, "y": -1.0, "yaw": 0.5})
    assert scene.written == ["base"]
    np.testing.assert_equal(scene.quats, FakeScene().quats)
    np.testing.assert_equal(scene.colors, FakeScene().colors)


def test_offsets_grow_with_the_level_along_one_line() -> None:
    draw = Base().draw(np.random.default_rng(5))
    offsets = []
    for sigma in (0.02, 0.05, 0.10):
        scene = FakeScene()
        Base().apply(scene, {"sigma_xy_m": sigma, "sigma_yaw_deg": 0.0}, draw)
        offsets.append((scene.base_position - FakeScene().base_position) / sigma)
    np.testing.assert_allclose(offsets[0], offsets[1])
    np.testing.assert_allclose(offsets[0], offsets[2])


def test_draws_are_independent_standard_normals() -> None:
    rng = np.random.default_rng(1)
    draws = [Base().draw(rng) for _ in range(4000)]
    values = np.array([[draw["x"], draw["y"], draw["yaw"]] for draw in draws])
    assert np.abs(values.mean(axis=0)).max() < 5 / math.sqrt(4000)
    assert np.abs(values.var(axis=0) - 1.0).max() < 5 * math.sqrt(2 / 4000)
    correlation = np.corrcoef(values.T) - np.eye(3)
    assert np.abs(correlation).max() < 5 / math.sqrt(4000)
    # Not truncated: of 12,000 normals some lie beyond three sigma.
    assert np.abs(values).max() > 3


def test_identity_is_no_offset_and_no_turn() -> None:
    draw = {"x": 1.0, "y": 1.0, "yaw": 1.0}
    assert Base().is_identity({"sigma_xy_m": 0.0, "sigma_yaw_deg": 0.0}, draw)
    assert not Base().is_identity({"sigma_xy_m": 0.0, "sigma_yaw_deg": 1.0}, draw)
    assert not Base().is_identity({"sigma_xy_m": 0.01, "sigma_yaw_deg": 0.0}, draw)


@pytest.mark.parametrize(
    "level, message",
    [
        ({"sigma_xy_m": 0.05}, "sigma_yaw_deg is missing"),
        ({**L2, "sigma_z_m": 0.1}, "sigma_z_m is unknown"),
        ({**L2, "sigma_xy_m": -0.01}, "outside"),
        ({**L2, "sigma_xy_m": math.nan}, "outside"),
        ({**L2, "sigma_xy_m": True}, "must be a number"),
    ],
)
def test_wrong_levels_are_refused(level: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Base().check(level)
