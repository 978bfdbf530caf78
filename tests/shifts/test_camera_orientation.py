from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.camera_orientation import CameraOrientation
from tests.shifts.fake_scene import FakeScene

FORWARD, RIGHT, UP = (0.0, 0.0, -1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
variates = st.floats(-1, 1)
thetas = st.sampled_from([2.0, 6.0, 10.0])


def turned(theta: float, yaw: float, pitch: float, camera: str = "agentview") -> FakeScene:
    scene = FakeScene()
    CameraOrientation().apply(scene, {"theta_max_deg": theta}, {"yaw": yaw, "pitch": pitch})
    return scene


@given(thetas, variates, variates)
def test_the_view_moves_by_exactly_the_angle_of_yaw_and_pitch(
    theta: float, yaw: float, pitch: float
) -> None:
    scene = turned(theta, yaw, pitch)
    expected = math.cos(math.radians(theta * yaw)) * math.cos(math.radians(theta * pitch))
    for camera in scene.third_person_cameras:
        before, after = FakeScene().quats[camera], scene.quats[camera]
        assert np.linalg.norm(after) == pytest.approx(1.0, abs=1e-12)
        cosine = rotation.rotate(before, FORWARD) @ rotation.rotate(after, FORWARD)
        assert cosine == pytest.approx(expected, abs=1e-6)
        angle = math.degrees(math.acos(min(1.0, float(cosine))))
        assert angle <= math.sqrt(2.0) * theta + 1e-3


@given(thetas, variates, variates)
def test_each_angle_stays_within_theta_max_in_the_cameras_own_frame(
    theta: float, yaw: float, pitch: float
) -> None:
    after = turned(theta, yaw, pitch).quats["agentview"]
    inverse = FakeScene().quats["agentview"] * [1, -1, -1, -1]
    # The new viewing direction, as the camera saw it before it turned.
    seen = rotation.rotate(inverse, rotation.rotate(after, FORWARD).tolist())
    measured_yaw = math.degrees(math.atan2(-seen[0], -seen[2]))
    measured_pitch = math.degrees(math.asin(seen[1]))
    assert measured_yaw == pytest.approx(theta * yaw, abs=1e-4)
    assert measured_pitch == pytest.approx(theta * pitch, abs=1e-4)
    assert max(abs(measured_yaw), abs(measured_pitch)) <= theta + 1e-4


def test_positive_yaw_looks_left_and_positive_pitch_looks_up() -> None:
    before = FakeScene().quats["agentview"]
    left = rotation.rotate(turned(10, 1, 0).quats["agentview"], FORWARD)
    up = rotation.rotate(turned(10, 0, 1).quats["agentview"], FORWARD)
    assert left @ rotation.rotate(before, RIGHT) == pytest.approx(-math.sin(math.radians(10)))
    assert left @ rotation.rotate(before, UP) == pytest.approx(0.0, abs=1e-6)
    assert up @ rotation.rotate(before, UP) == pytest.approx(math.sin(math.radians(10)))
    assert up @ rotation.rotate(before, RIGHT) == pytest.approx(0.0, abs=1e-6)


def test_only_third_person_cameras_are_written_once_each() -> None:
    scene = turned(6, 0.3, -0.7)
    assert scene.written == ["agentview", "sideview"]
    np.testing.assert_array_equal(scene.quats["eye_in_hand"], FakeScene().quats["eye_in_hand"])
    np.testing.assert_equal(scene.colors, FakeScene().colors)


def test_one_draw_turns_the_same_way_at_every_level() -> None:
    draw = CameraOrientation().draw(np.random.default_rng(3))
    axes = []
    for theta in (2.0, 6.0, 10.0):
        scene = FakeScene()
        CameraOrientation().apply(scene, {"theta_max_deg": theta}, draw)
        inverse = FakeScene().quats["agentview"] * [1, -1, -1, -1]
        turn = rotation.compose(inverse, scene.quats["agentview"])
        axes.append(turn[1:] / np.linalg.norm(turn[1:]))
        measured = math.degrees(math.atan2(turn[2], turn[0])) * 2
        assert math.copysign(1.0, measured) == math.copysign(1.0, draw["yaw"])
    # Two small rotations compose to nearly the same axis at every magnitude.
    assert min(axes[0] @ axes[1], axes[0] @ axes[2]) > 0.99


def test_draws_fill_the_square_and_nothing_beyond_it() -> None:
    rng = np.random.default_rng(0)
    draws = [CameraOrientation().draw(rng) for _ in range(4000)]
    for name in ("yaw", "pitch"):
        values = np.array([draw[name] for draw in draws])
        assert values.min() >= -1
        assert values.max() <= 1
        # Uniform: mean 0 and variance 1/3, each within five standard errors.
        assert abs(values.mean()) < 5 * math.sqrt(1 / 3 / 4000)
        assert abs(values.var() - 1 / 3) < 5 * math.sqrt((1 / 5 - 1 / 9) / 4000)
    pairs = np.array([[draw["yaw"], draw["pitch"]] for draw in draws])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / math.sqrt(4000)


def test_identity_is_no_angle_at_all() -> None:
    shift = CameraOrientation()
    assert shift.is_identity({"theta_max_deg": 0.0}, {"yaw": 1.0, "pitch": 1.0})
    assert shift.is_identity({"theta_max_deg": 2.0}, {"yaw": 0.0, "pitch": -0.0})
    assert not shift.is_identity({"theta_max_deg": 2.0}, {"yaw": 0.0, "pitch": 1e-3})


def test_a_draw_of_another_shift_is_refused() -> None:
    with pytest.raises(ValueError, match="'yaw' is needed"):
        CameraOrientation().is_identity({"theta_max_deg": 2.0}, {})


@pytest.mark.parametrize("theta", [-1.0, 91.0])
def test_angles_out_of_range_are_refused(theta: float) -> None:
    with pytest.raises(ValueError, match="theta_max_deg"):
        CameraOrientation().check({"theta_max_deg": theta})
