"""Poses of LIBERO's cameras, lights and hand: what is asked for is what MuJoCo then has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("libero.libero")

import mujoco
from scipy.spatial.transform import Rotation

from pytest_vla_shift.protocol.errors import SimulatorError, UnreachablePose
from pytest_vla_shift.simulators import libero_arm
from pytest_vla_shift.simulators.libero_scene import LiberoScene
from pytest_vla_shift.simulators.libero_world import World
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL

PLACE = np.array([0.4, -0.3, 1.5])
TURN = Rotation.from_euler("xyz", [0.4, -0.2, 1.1])
WXYZ = np.roll(TURN.as_quat(), 1)


@pytest.fixture
def world() -> Iterator[World]:
    sim = support.simulator()
    sim.prepare(BOWL)
    yield support.world_of(sim)
    sim.prepare(BOWL)


@pytest.mark.parametrize("camera", ["agentview", "robot0_eye_in_hand"])
def test_a_camera_stands_where_it_is_put_in_the_world_whatever_it_hangs_on(
    world: World, camera: str
) -> None:
    scene = LiberoScene(world)
    index = world.env.sim.model.camera_name2id(camera)
    position, quat = scene.camera_pose(camera)
    np.testing.assert_allclose(position, world.data.cam_xpos[index], atol=1e-9)
    ours = Rotation.from_quat(np.roll(quat, -1)).as_matrix()
    np.testing.assert_allclose(ours, world.data.cam_xmat[index].reshape(3, 3), atol=1e-6)
    scene.set_camera_pose(camera, PLACE, WXYZ)
    np.testing.assert_allclose(world.data.cam_xpos[index], PLACE, atol=1e-9)
    np.testing.assert_allclose(
        world.data.cam_xmat[index].reshape(3, 3), TURN.as_matrix(), atol=1e-9
    )
    np.testing.assert_allclose(scene.camera_pose(camera)[0], PLACE, atol=1e-9)


def test_writing_a_pose_back_changes_no_bit(world: World) -> None:
    """The last bits of a quaternion can be seen in pictures."""
    scene = LiberoScene(world)
    scene.set_camera_pose("agentview", *scene.camera_pose("agentview"))
    for light in scene.placed_lights:
        scene.set_light_pose(light, *scene.light_pose(light))
    assert scene.receipts
    assert all(receipt.before == receipt.after for receipt in scene.receipts)


def test_a_light_stands_where_it_is_put_and_shines_where_it_is_turned(world: World) -> None:
    scene = LiberoScene(world)
    assert scene.placed_lights == ("light1", "light2")
    rays = TURN.apply([0.0, 0.0, -1.0])
    scene.set_light_pose("light2", PLACE, rays)
    np.testing.assert_allclose(world.data.light_xpos[1], PLACE, atol=1e-12)
    np.testing.assert_allclose(world.data.light_xdir[1], rays, atol=1e-12)
    np.testing.assert_allclose(scene.light_pose("light2")[1], rays, atol=1e-12)


def test_the_work_surface_is_the_tables_top(world: World) -> None:
    assert LiberoScene(world).work_surface == 0.9


def test_what_no_camera_light_or_hand_can_take_is_refused(world: World) -> None:
    scene = LiberoScene(world)
    unit, down = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, -1.0])
    with pytest.raises(ValueError, match="no camera 'front'"):
        scene.set_camera_pose("front", PLACE, unit)
    with pytest.raises(ValueError, match="not a finite position"):
        scene.set_camera_pose("agentview", np.array([np.nan, 0.0, 0.0]), unit)
    with pytest.raises(ValueError, match="not a unit quaternion"):
        scene.set_camera_pose("agentview", PLACE, 1.1 * unit)
    with pytest.raises(ValueError, match="no placed light 'headlight'"):
        scene.light_pose("headlight")
    with pytest.raises(ValueError, match="not a unit vector"):
        scene.set_light_pose("light1", PLACE, 2.0 * down)
    with pytest.raises(ValueError, match="not a finite position"):
        scene.set_eef_pose(np.array([0.0, 0.0]), unit)
    with pytest.raises(ValueError, match="not a unit quaternion"):
        scene.set_eef_pose(PLACE, np.zeros(4))
    assert scene.receipts == []


def test_what_tracks_a_body_has_no_pose_of_its_own(world: World) -> None:
    scene = LiberoScene(world)
    world.model.cam_mode[world.env.sim.model.camera_name2id("agentview")] = (
        mujoco.mjtCamLight.mjCAMLIGHT_TRACK
    )
    world.model.light_mode[0] = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
    with pytest.raises(SimulatorError, match="tracks a body"):
        scene.camera_pose("agentview")
    with pytest.raises(SimulatorError, match="tracks a body"):
        scene.light_pose("light1")


def test_joint_angles_are_within_the_limits_and_give_the_pose_or_there_are_none(
    world: World,
) -> None:
    """Far shifts, some of which push a joint to its limit, and some out of reach."""
    model, robot = world.model, world.env.robots[0]
    site = int(robot.eef_site_id)
    start, quat = libero_arm.site_pose(world.data, site)
    before = world.data.qpos.copy()
    low, high = model.jnt_range[np.asarray(robot._ref_joint_indexes)].T
    rng, data = np.random.default_rng(5), mujoco.MjData(model)
    found = at_a_limit = none = 0
    shifts = [(rng.normal(0.0, 0.12, 3), rng.normal(0.0, 0.7, 3)) for _ in range(40)]
    # Nearly half a turn about the vertical: the last joint alone cannot give it.
    shifts.append((np.zeros(3), np.array([0.0, 0.0, -3.0])))
    for away, vector in shifts:
        place = start + away
        turn = Rotation.from_rotvec(vector)
        wanted = turn * Rotation.from_quat(np.roll(quat, -1))
        try:
            joints = libero_arm.joints_for(world, place, np.roll(wanted.as_quat(), 1))
        except UnreachablePose:
            none += 1
            continue
        found += 1
        assert (joints >= low).all()
        assert (joints <= high).all()
        at_a_limit += bool(((joints == low) | (joints == high)).any())
        data.qpos[:] = before
        data.qpos[robot._ref_joint_pos_indexes] = joints
        mujoco.mj_kinematics(model, data)
        assert np.linalg.norm(data.site_xpos[site] - place) < 1e-6
        here = Rotation.from_matrix(data.site_xmat[site].reshape(3, 3))
        assert (here * wanted.inv()).magnitude() < 1e-6
    np.testing.assert_array_equal(world.data.qpos, before)
    assert found > 20
    assert none > 0
    assert at_a_limit > 0


def test_an_unreachable_hand_leaves_the_arm_where_it_was(world: World) -> None:
    scene, before = LiberoScene(world), world.data.qpos.copy()
    _, quat = scene.eef_pose()
    with pytest.raises(UnreachablePose, match=r"mm and .* degrees away"):
        scene.set_eef_pose(np.array([2.0, 0.0, 1.0]), quat)
    np.testing.assert_array_equal(world.data.qpos, before)
    assert scene.receipts == []


def test_released_hands_are_those_that_prepare_restores(world: World) -> None:
    positions, quats = libero_arm.released_hands(world)
    assert positions.shape == (50, 3)
    place, quat = LiberoScene(world).eef_pose()
    np.testing.assert_allclose(positions[BOWL.index], place, atol=1e-12)
    np.testing.assert_allclose(np.roll(quats[BOWL.index], 1), quat, atol=1e-12)
    assert len(np.unique(positions.round(6), axis=0)) == 50
