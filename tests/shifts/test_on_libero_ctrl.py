"""LIBERO-CTRL's scene axes on the real simulator: all that can be compared is, before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

pytest.importorskip("libero.libero", reason="needs the extra 'libero'")

import mujoco
from scipy.spatial.transform import Rotation

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.errors import UnreachablePose
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.lighting import COMPONENTS
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from tests.shifts.libero_arrays import (
    CAMERAS,
    LEVELS,
    MOVE,
    SETTLE,
    Array,
    changed,
    model_arrays,
    named,
    numbers,
    robot_rows,
    sees,
    turn_of,
    world_arrays,
)

# A kitchen: three placed lights, one of which shines straight down, and fixtures.
EPISODE = Episode("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it", 4)
AXES = frozen_axes("libero_ctrl")
PRESET = 7

Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@pytest.fixture(scope="module")
def simulator() -> Iterator[LiberoSimulator]:
    made = factory(SimulatorSettings("libero", 0, CAMERAS, 128, 128))
    yield made
    made.close()


@pytest.fixture(scope="module")
def clean_pictures(simulator: LiberoSimulator) -> Mapping[str, Array]:
    simulator.prepare(EPISODE)
    return dict(simulator.observe(CAMERAS).images)


def intervention(
    axis: str, level: str, preset: int = PRESET, radius: float | None = None
) -> Intervention:
    found = AXES[axis]
    parameters = dict({item.name: item.parameters for item in found.levels}[level])
    if radius is not None:
        parameters["radius"] = radius
    return Intervention(axis, found.shift, level, parameters, found.presets[preset])


def offset(axis: str, level: str, coordinate: str, scale: str) -> float:
    item = intervention(axis, level)
    return item.parameters["radius"] * item.draw[coordinate] * item.parameters[f"sigma_{scale}"]


def shifted(
    simulator: LiberoSimulator, axis: str, level: str, *, bulk: bool = False
) -> tuple[dict[str, list[int]], dict[str, list[int]], list[Receipt]]:
    """What of the model, what of the world, and what the simulator admits."""
    simulator.prepare(EPISODE)
    model, world = model_arrays(simulator, bulk=bulk), world_arrays(simulator)
    receipts = simulator.apply([intervention(axis, level)])
    model_after = model_arrays(simulator, bulk=bulk)
    return changed(model, model_after), changed(world, world_arrays(simulator)), receipts


def settled(simulator: LiberoSimulator, interventions: Sequence[Intervention]) -> None:
    simulator.prepare(EPISODE)
    simulator.apply(interventions)
    result = simulator.step(SETTLE, stop_on_success=False)
    assert result.object_speed < 0.05


def hand(simulator: LiberoSimulator) -> tuple[Vector, Rotation]:
    """The grip site's position in metres and its rotation, in the world frame."""
    assert simulator._world is not None
    site = simulator._world.env.robots[0].eef_site_id
    data = simulator._world.data
    return data.site_xpos[site].copy(), Rotation.from_matrix(data.site_xmat[site].reshape(3, 3))


def joints_of_the_rest(simulator: LiberoSimulator) -> Vector:
    """Poses of all free objects and positions of all fixtures' joints: of all but the robot."""
    assert simulator._world is not None
    model, data = simulator._world.model, simulator._world.data
    arm = simulator._world.env.robots[0]
    ours = {int(i) for i in (*arm._ref_joint_pos_indexes, *arm._ref_gripper_joint_pos_indexes)}
    rest = [i for i in range(model.nq) if i not in ours]
    rest_of_all: Vector = data.qpos[rest].copy()
    return rest_of_all


@pytest.mark.parametrize("level", LEVELS)
def test_camera_moves_the_external_camera_and_nothing_else(
    simulator: LiberoSimulator, level: str
) -> None:
    model, world, receipts = shifted(simulator, "camera", level, bulk=level == "L3")
    assert simulator._world is not None
    cameras = named(simulator, mujoco.mjtObj.mjOBJ_CAMERA, simulator._world.model.ncam)
    agentview = cameras.index("agentview")
    assert model == {"model.cam_pos": [agentview], "model.cam_quat": [agentview]}
    assert world == {"data.cam_xmat": [agentview], "data.cam_xpos": [agentview]}
    assert [receipt.field for receipt in receipts] == [
        "model.cam_pos[agentview]",
        "model.cam_quat[agentview]",
    ]

    def spherical(position: Vector, quat: Vector) -> Vector:
        """About the point of the table (0.9 m high) on the optical axis; degrees, metres."""
        forward = Rotation.from_quat(np.roll(quat, -1)).apply([0.0, 0.0, -1.0])
        length = (position[2] - 0.9) / -forward[2]
        azimuth = math.degrees(math.atan2(-forward[1], -forward[0]))
        elevation = math.degrees(math.asin(-forward[2]))
        return np.array([azimuth, elevation, length, *(position + length * forward)[:2]])

    before = spherical(numbers(receipts[0].before), numbers(receipts[1].before))
    after = spherical(numbers(receipts[0].after), numbers(receipts[1].after))
    names = ("azimuth_deg", "elevation_deg", "distance_m", "lookat_x_m", "lookat_y_m")
    expected = [offset("camera", level, name.rsplit("_", 1)[0], name) for name in names]
    np.testing.assert_allclose(after - before, expected, atol=2e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_lighting_changes_lights_and_nothing_else(simulator: LiberoSimulator, level: str) -> None:
    model, world, receipts = shifted(simulator, "lighting", level, bulk=level == "L3")
    assert simulator._world is not None
    lights = list(range(simulator._world.model.nlight))
    assert len(lights) == 3
    every = ("diffuse", "specular", "pos", "dir")  # the placed lights have no ambient part
    headlight = {f"vis.headlight.{component}": [0, 1, 2] for component in COMPONENTS}
    assert model == {**{f"model.light_{name}": lights for name in every}, **headlight}
    assert world == {"data.light_xpos": lights, "data.light_xdir": lights}
    assert len(receipts) == 4 * len(lights) + 3
    assert len({receipt.field for receipt in receipts}) == len(receipts)
    stops = offset("lighting", level, "intensity", "intensity_ev")
    warmth = offset("lighting", level, "warmth", "warmth_log2")
    green = offset("lighting", level, "green", "green_log2")
    ambient = offset("lighting", level, "ambient", "ambient_log2")
    factor = np.exp2([stops + warmth / 2, stops + green, stops - warmth / 2])
    elevation = offset("lighting", level, "elevation", "elevation_deg")
    for receipt in receipts:
        before, after = numbers(receipt.before), numbers(receipt.after)
        if "light_pos" in receipt.field:
            continue
        if "light_dir" in receipt.field:
            cosine = float(before @ after)
            assert math.degrees(math.acos(cosine)) == pytest.approx(abs(elevation), abs=1e-4)
            continue
        expected = factor * (2**ambient if "ambient" in receipt.field else 1.0)
        np.testing.assert_allclose(after, before * expected, rtol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_robot_pose_moves_the_arm_and_nothing_else(simulator: LiberoSimulator, level: str) -> None:
    simulator.prepare(EPISODE)
    start, turned = hand(simulator)
    others = joints_of_the_rest(simulator)
    model, world, receipts = shifted(simulator, "robot_pose", level, bulk=level == "L3")
    assert simulator._world is not None
    assert model == {}
    assert joints_of_the_rest(simulator).tobytes() == others.tobytes(), "bit for bit"
    arm = simulator._world.env.robots[0]
    assert set(world["data.qpos"]) == {int(i) for i in arm._ref_joint_pos_indexes}
    for name in ("qvel", "act", "ctrl", "mocap_pos", "qfrc_applied", "xfrc_applied"):
        assert f"data.{name}" not in world, name
    assert not simulator._world.data.qvel[arm._ref_joint_vel_indexes].any(), "at rest"
    for family, rows in robot_rows(simulator).items():
        for array in ("pos", "quat", "mat", "ipos", "imat"):
            assert set(world.get(f"data.{family}{array}", [])) <= rows, f"data.{family}{array}"
    # Where the arm was told to go and what was measured of it; neither posture nor gains.
    assert {name for name in world if name.startswith(("controller.", "gripper."))} == {
        *("controller.goal_pos", "controller.goal_ori", "controller.ee_pos"),
        *("controller.ee_ori_mat", "controller.initial_ee_pos", "controller.initial_ee_ori_mat"),
    }
    assert [receipt.field for receipt in receipts] == [
        *("robot.joint_pos", "robot.eef_pos", "robot.eef_quat"),
        *("controller.goal_pos", "controller.goal_ori"),
    ]
    # The residual of the inverse kinematics, against the offset and by the simulator's own sites.
    translation = [offset("robot_pose", level, name, "position_m") for name in "xyz"]
    vector = [offset("robot_pose", level, f"r{name}", "rotation_deg") for name in "xyz"]
    position, turn = hand(simulator)
    assert np.linalg.norm(position - start - translation) < 1e-5
    wanted = Rotation.from_rotvec(vector, degrees=True) * turned
    assert (turn * wanted.inv()).magnitude() < 1e-5
    np.testing.assert_allclose(numbers(receipts[1].after), position, atol=1e-12)
    moved = turn_of(receipts[2], frame="world").as_rotvec(degrees=True)
    np.testing.assert_allclose(moved, vector, atol=1e-3)


@pytest.mark.parametrize("axis", ["camera", "lighting"])
def test_shifts_of_what_is_seen_leave_the_physics_alone_bit_for_bit(
    simulator: LiberoSimulator, axis: str
) -> None:
    runs = []
    for interventions in ([], [intervention(axis, "L3")]):
        settled(simulator, interventions)
        simulator.observe(CAMERAS)
        simulator.step(MOVE)
        runs.append(world_arrays(simulator))
    seen = {"data.cam_xmat", "data.cam_xpos", "data.light_xpos", "data.light_xdir"}
    assert set(changed(*runs)) <= seen


def test_a_hand_shifted_by_a_nanometre_settles_as_the_clean_one(
    simulator: LiberoSimulator,
) -> None:
    """The arm is pulled towards the goal of the reset: a goal reset to the present pose is not."""
    settled(simulator, [])
    clean_position, clean_turn = hand(simulator)
    clean = joints_of_the_rest(simulator)
    settled(simulator, [intervention("robot_pose", "L1", radius=1e-7)])
    position, turn = hand(simulator)
    np.testing.assert_allclose(position, clean_position, atol=1e-6)
    assert (turn * clean_turn.inv()).magnitude() < 1e-6
    np.testing.assert_allclose(joints_of_the_rest(simulator), clean, atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_a_shifted_hand_drifts_while_settling_as_the_clean_one_does(
    simulator: LiberoSimulator, level: str
) -> None:
    drifts = []
    for interventions in ([], [intervention("robot_pose", level)]):
        simulator.prepare(EPISODE)
        simulator.apply(interventions)
        before, turned = hand(simulator)
        result = simulator.step(SETTLE, stop_on_success=False)
        assert result.object_speed < 0.05
        after, turn = hand(simulator)
        drift = turned.inv().apply(after - before), (turned.inv() * turn).as_rotvec(degrees=True)
        drifts.append((*drift, joints_of_the_rest(simulator)))
    (position, turn_vector, scene), (position_here, turn_here, scene_here) = drifts
    # In the hand's own frame: rigidly carried, up to what the arm's inertia makes of it.
    assert np.linalg.norm(position_here - position) < 2e-3
    assert np.linalg.norm(turn_here - turn_vector) < 0.15
    np.testing.assert_allclose(scene_here, scene, atol=1e-5)


def test_what_is_out_of_reach_is_no_policys_failure(simulator: LiberoSimulator) -> None:
    simulator.prepare(EPISODE)
    with pytest.raises(UnreachablePose, match="no joint angles within the limits"):
        simulator.apply([intervention("robot_pose", "L3", radius=64.0)])


def test_camera_changes_the_external_picture_and_not_one_pixel_of_the_wrists(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array]
) -> None:
    growing = []
    for level in LEVELS:
        simulator.prepare(EPISODE)
        simulator.apply([intervention("camera", level)])
        difference = sees(simulator.observe(CAMERAS).images, clean_pictures)
        growing.append(difference["agentview"])
        assert difference["robot0_eye_in_hand"] == 0.0, level
    assert growing == sorted(growing)
    assert growing[0] > 3.0


@pytest.mark.parametrize("axis", ["lighting", "robot_pose"])
def test_lighting_and_robot_pose_change_both_pictures(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array], axis: str
) -> None:
    for level in LEVELS:
        simulator.prepare(EPISODE)
        simulator.apply([intervention(axis, level)])
        difference = sees(simulator.observe(CAMERAS).images, clean_pictures)
        assert min(difference.values()) > 0.5, (level, difference)


@pytest.mark.parametrize("axis", ["camera", "lighting", "robot_pose"])
def test_the_next_prepare_restores_everything_bit_for_bit(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array], axis: str
) -> None:
    first = simulator.prepare(EPISODE)
    model, world = model_arrays(simulator), world_arrays(simulator)
    settled(simulator, [intervention(axis, "L3")])
    simulator.observe(CAMERAS)
    simulator.step(MOVE)
    again = simulator.prepare(EPISODE)
    assert again.fingerprint == first.fingerprint
    assert changed(model, model_arrays(simulator)) == {}
    assert changed(world, world_arrays(simulator)) == {}
    assert sees(simulator.observe(CAMERAS).images, clean_pictures) == dict.fromkeys(CAMERAS, 0.0)


def test_the_three_at_once_leave_the_receipts_that_each_leaves_alone(
    simulator: LiberoSimulator,
) -> None:
    """They touch different things, so that a compound is exactly its parts."""
    alone: list[Receipt] = []
    for axis in ("camera", "lighting", "robot_pose"):
        simulator.prepare(EPISODE)
        alone += simulator.apply([intervention(axis, "L2")])
    simulator.prepare(EPISODE)
    parts = [intervention(axis, "L2") for axis in ("camera", "lighting", "robot_pose")]
    assert simulator.apply(parts) == alone


def test_no_radius_is_skipped_and_not_recomputed(simulator: LiberoSimulator) -> None:
    simulator.prepare(EPISODE)
    model, world = model_arrays(simulator), world_arrays(simulator)
    parts = [intervention(axis, "L1", radius=0.0) for axis in ("camera", "lighting", "robot_pose")]
    assert simulator.apply(parts) == []
    assert changed(model, model_arrays(simulator)) == {}
    assert changed(world, world_arrays(simulator)) == {}
