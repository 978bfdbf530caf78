from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.protocol import Draw
from pytest_vla_shift.shifts.robot_pose import RobotPose
from tests.shifts.fake_scene import FakeScene
from tests.shifts.libero_ctrl import LEVELS, along, level


def applied(radius: float, draw: Draw) -> FakeScene:
    scene = FakeScene()
    RobotPose().apply(scene, level("robot_pose", radius), draw)
    return scene


def moved(scene: FakeScene) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Rotation]:
    """Translation and rotation of the hand in the world frame, by scipy."""
    position, quat = FakeScene().hand
    before, after = (Rotation.from_quat(np.roll(q, -1)) for q in (quat, scene.hand[1]))
    return scene.hand[0] - position, after * before.inv()


@pytest.mark.parametrize("coordinate", ["x", "y", "z"])
def test_at_radius_8_a_translation_alone_is_20_6_centimetres_along_the_worlds_axis(
    coordinate: str,
) -> None:
    translation, turn = moved(applied(8.0, along("robot_pose", coordinate)))
    expected = [0.206 if name == coordinate else 0.0 for name in "xyz"]
    np.testing.assert_allclose(translation, expected, atol=5e-4)
    assert turn.magnitude() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("coordinate", ["rx", "ry", "rz"])
def test_at_radius_8_a_rotation_alone_is_31_5_degrees_about_the_worlds_axis(
    coordinate: str,
) -> None:
    translation, turn = moved(applied(8.0, along("robot_pose", coordinate, -1.0)))
    expected = [-31.5 if name == coordinate else 0.0 for name in ("rx", "ry", "rz")]
    np.testing.assert_allclose(turn.as_rotvec(degrees=True), expected, atol=0.05)
    np.testing.assert_array_equal(translation, 0.0)


def test_position_and_rotation_share_the_radius_as_a_right_triangle() -> None:
    draw = RobotPose().draw(np.random.default_rng(4))
    translation, turn = moved(applied(4.0, draw))
    sides = float(np.linalg.norm(translation)) / 0.0257, math.degrees(turn.magnitude()) / 3.94
    assert math.hypot(*sides) == pytest.approx(4.0, abs=1e-6)
    assert min(sides) > 0.1


def test_it_is_one_write_and_nothing_else() -> None:
    scene = applied(2.0, RobotPose().draw(np.random.default_rng(0)))
    assert scene.written == ["hand"]


def test_the_contract_holds_at_the_shipped_levels() -> None:
    check_axis(RobotPose(), LEVELS["robot_pose"])
