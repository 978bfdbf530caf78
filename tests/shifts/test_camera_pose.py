from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.protocol.errors import InvalidScene
from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.camera_pose import FORWARD, CameraPose, looked_at
from pytest_vla_shift.shifts.check import check_axis
from tests.shifts.fake_scene import FakeScene
from tests.shifts.libero_ctrl import LEVELS, along, level

offsets = st.floats(-1, 1)


def spherical(scene: FakeScene, camera: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Azimuth and elevation in degrees, distance, look-at x and y; measured independently.

    The look-at comes from marching along the optical axis, not from the shift's own formula.
    """
    position, quat = scene.places[camera], scene.quats[camera]
    forward = rotation.rotate(quat, FORWARD)
    length = (position[2] - scene.work_surface) / -forward[2]
    point = position + length * forward
    assert point[2] == pytest.approx(scene.work_surface, abs=1e-9)
    azimuth = math.degrees(math.atan2(-forward[1], -forward[0]))
    elevation = math.degrees(math.asin(-forward[2]))
    return np.array([azimuth, elevation, length, point[0], point[1]])


def applied(radius: float, draw: dict[str, float]) -> FakeScene:
    scene = FakeScene()
    CameraPose().apply(scene, level("camera", radius), draw)
    return scene


@given(offsets, offsets, offsets, offsets, offsets)
def test_every_offset_is_what_the_scales_say_and_no_other_coordinate_moves(
    azimuth: float, elevation: float, distance: float, x: float, y: float
) -> None:
    raw = np.array([azimuth, elevation, distance, x, y])
    norm = float(np.linalg.norm(raw))
    if norm < 1e-3:
        return
    direction = raw / norm
    scene = applied(4.0, dict(zip(CameraPose.scales, direction.tolist(), strict=True)))
    scales = np.array([3.48, 4.77, 0.064, 0.0195, 0.0133])
    for camera in scene.third_person_cameras:
        before = spherical(FakeScene(), camera)
        moved = spherical(scene, camera) - before
        moved[0] = math.remainder(moved[0], 360.0)
        # The scene's quaternions are of unit length to 1e-7, as MuJoCo's are.
        np.testing.assert_allclose(moved, 4.0 * direction * scales, atol=1e-5)


@given(offsets, offsets)
def test_the_horizon_stays_level(azimuth: float, elevation: float) -> None:
    norm = math.hypot(azimuth, elevation)
    if norm < 1e-3:
        return
    draw = {**along("camera", "distance", 0.0), "azimuth": azimuth / norm}
    draw["elevation"] = elevation / norm
    scene = applied(6.0, draw)
    for camera in scene.third_person_cameras:
        right = rotation.rotate(scene.quats[camera], (1.0, 0.0, 0.0))
        assert right[2] == pytest.approx(0.0, abs=1e-6)
        up = rotation.rotate(scene.quats[camera], (0.0, 1.0, 0.0))
        assert up[2] > 0


def test_a_camera_with_roll_keeps_it() -> None:
    def roll(scene: FakeScene) -> float:
        quat = scene.quats["agentview"]
        right = rotation.rotate(quat, (1.0, 0.0, 0.0))
        level_right = np.cross(rotation.rotate(quat, FORWARD), [0.0, 0.0, 1.0])
        up = rotation.rotate(quat, (0.0, 1.0, 0.0))
        return math.atan2(float(up @ level_right), float(right @ level_right))

    scene = FakeScene()
    scene.quats["agentview"] = rotation.compose(
        scene.quats["agentview"], rotation.about(rotation.Z, 0.3)
    )
    before = roll(scene)
    assert abs(before) == pytest.approx(0.3, abs=1e-6)
    draw = {**along("camera", "azimuth", 0.6), "elevation": 0.8}
    CameraPose().apply(scene, level("camera", 6.0), draw)
    assert roll(scene) == pytest.approx(before, abs=1e-9)


def test_signs_are_counter_clockwise_from_above_up_and_away() -> None:
    start = FakeScene().places["agentview"]  # on the +x side, looking towards -x
    assert applied(2.0, along("camera", "azimuth")).places["agentview"][1] > start[1] + 0.05
    assert applied(2.0, along("camera", "elevation")).places["agentview"][2] > start[2] + 0.05
    away = applied(2.0, along("camera", "distance")).places["agentview"] - start
    assert away @ rotation.rotate(FakeScene().quats["agentview"], FORWARD) == pytest.approx(
        -2.0 * 0.064
    )
    x = applied(2.0, along("camera", "lookat_x")).places["agentview"] - start
    np.testing.assert_allclose(x, [2.0 * 0.0195, 0.0, 0.0], atol=1e-12)


def test_without_a_turn_the_orientation_is_not_recomputed() -> None:
    scene = applied(8.0, along("camera", "distance"))
    for camera in scene.third_person_cameras:
        np.testing.assert_array_equal(scene.quats[camera], FakeScene().quats[camera])


def test_external_cameras_are_written_once_each_and_the_wrist_never() -> None:
    scene = applied(2.0, along("camera", "azimuth"))
    assert scene.written == ["agentview pose", "sideview pose"]
    np.testing.assert_array_equal(scene.quats["eye_in_hand"], FakeScene().quats["eye_in_hand"])


@pytest.mark.parametrize(
    "draw, message",
    [
        (along("camera", "elevation", -1.0), "from an elevation of -"),
        (along("camera", "elevation"), "from an elevation of 9"),
    ],
)
def test_below_the_surface_and_past_the_zenith_are_no_camera_poses(
    draw: dict[str, float], message: str
) -> None:
    with pytest.raises(InvalidScene, match=message):
        applied(12.0, draw)


def test_a_distance_of_nothing_is_no_camera_pose() -> None:
    with pytest.raises(InvalidScene, match="cannot come nearer by"):
        applied(20.0, along("camera", "distance", -1.0))


@pytest.mark.parametrize("height", [0.5, 0.9])
def test_a_camera_at_or_under_the_surface_looks_at_nothing(height: float) -> None:
    quat = FakeScene().quats["agentview"]
    with pytest.raises(InvalidScene, match="does not look down"):
        looked_at("agentview", np.array([1.0, 0.0, height]), quat, 0.9)


def test_a_camera_that_looks_up_looks_at_nothing() -> None:
    up = rotation.about(rotation.X, math.radians(100.0))
    with pytest.raises(InvalidScene, match="does not look down"):
        looked_at("agentview", np.array([1.0, 0.0, 2.0]), up, 0.9)


def test_the_contract_holds_at_the_shipped_levels() -> None:
    check_axis(CameraPose(), LEVELS["camera"])
