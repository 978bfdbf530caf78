"""RoboCasa-Shift's axes on the real simulator: all that can be compared is, before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("libero.libero", reason="needs the extra 'libero'")

import mujoco
from scipy.spatial.transform import Rotation

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.protocol import Frame, Intervention, Receipt
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
from tests.shifts.test_levels import AXES

EPISODE = Episode("libero_object", "pick_up_the_alphabet_soup_and_place_it_in_the_basket", 3)


@pytest.fixture(scope="module")
def simulator() -> Iterator[LiberoSimulator]:
    made = factory(SimulatorSettings("libero", 0, CAMERAS, 128, 128))
    yield made
    made.close()


@pytest.fixture(scope="module")
def clean_pictures(simulator: LiberoSimulator) -> Mapping[str, Array]:
    simulator.prepare(EPISODE)
    return dict(simulator.observe(CAMERAS).images)


def intervention(axis: str, level: str) -> Intervention:
    """The draw comes from one generator, whatever the level: as the plan does it."""
    name = AXES[axis]["shift"]
    draw = load_shift(name).draw(np.random.default_rng([7, 11]))
    return Intervention(axis, name, level, AXES[axis][level], draw)


def shifted(
    simulator: LiberoSimulator, axis: str, level: str, *, bulk: bool = False
) -> tuple[dict[str, list[int]], dict[str, list[int]], list[Receipt]]:
    """What of the model, what of the world, and what the simulator admits."""
    simulator.prepare(EPISODE)
    model, world = model_arrays(simulator, bulk=bulk), world_arrays(simulator)
    receipts = simulator.apply([intervention(axis, level)])
    model_after = model_arrays(simulator, bulk=bulk)
    return (
        changed(model, model_after),
        changed(world, world_arrays(simulator)),
        receipts,
    )


@pytest.mark.parametrize("level", LEVELS)
def test_illumination_changes_light_colours_and_nothing_else(
    simulator: LiberoSimulator, level: str
) -> None:
    model, world, receipts = shifted(simulator, "illumination", level, bulk=level == "L3")
    assert simulator._world is not None
    lights = simulator._world.model.nlight
    assert lights > 0
    assert model == {
        "model.light_diffuse": list(range(lights)),
        "vis.headlight.diffuse": [0, 1, 2],
        "vis.headlight.ambient": [0, 1, 2],
    }
    assert world == {}
    alpha = AXES["illumination"][level]["alpha"]
    assert len(receipts) == lights + 2
    for receipt in receipts:
        np.testing.assert_allclose(
            numbers(receipt.after), numbers(receipt.before) * alpha, rtol=1e-6
        )
        assert receipt.field.startswith(("model.light_diffuse[", "model.vis.headlight."))


@pytest.mark.parametrize("level", LEVELS)
def test_camera_changes_the_external_cameras_orientation_and_nothing_else(
    simulator: LiberoSimulator, level: str
) -> None:
    model, world, receipts = shifted(simulator, "camera", level, bulk=level == "L3")
    assert simulator._world is not None
    cameras = named(simulator, mujoco.mjtObj.mjOBJ_CAMERA, simulator._world.model.ncam)
    agentview = cameras.index("agentview")
    assert model == {"model.cam_quat": [agentview]}
    assert world == {"data.cam_xmat": [agentview]}  # forward kinematics of that camera
    (receipt,) = receipts
    assert receipt.field == "model.cam_quat[agentview]"
    yaw, pitch, roll = turn_of(receipt, frame="own").as_euler("YXZ", degrees=True)
    theta, draw = AXES["camera"][level]["theta_max_deg"], intervention("camera", level).draw
    assert (yaw, pitch) == (
        pytest.approx(theta * draw["yaw"], abs=1e-4),
        pytest.approx(theta * draw["pitch"], abs=1e-4),
    )
    assert roll == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("level", LEVELS)
def test_blur_changes_pictures_and_nothing_else(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array], level: str
) -> None:
    model, world, receipts = shifted(simulator, "blur", level, bulk=level == "L3")
    assert (model, world) == ({}, {})
    sigma = AXES["blur"][level]["sigma_px"]
    assert receipts == [Receipt("observation.rgb gaussian_blur.sigma_px", 0.0, sigma)]
    for camera, picture in simulator.observe(CAMERAS).images.items():
        clean = clean_pictures[camera].astype(np.uint8)
        np.testing.assert_array_equal(
            picture, GaussianBlur().image(clean, {"sigma_px": sigma}, {}, Frame("agentview", 0, 0))
        )
        assert (picture != clean).mean() > 0.2


@pytest.mark.parametrize("level", LEVELS)
def test_base_moves_the_robot_and_nothing_else(simulator: LiberoSimulator, level: str) -> None:
    model, world, receipts = shifted(simulator, "base", level, bulk=level == "L3")
    assert simulator._world is not None
    bodies = named(simulator, mujoco.mjtObj.mjOBJ_BODY, simulator._world.model.nbody)
    root = bodies.index("robot0_base")
    assert model == {"model.body_pos": [root], "model.body_quat": [root]}
    # Poses in the world: of the robot's bodies, geoms, sites and wrist camera. No object's.
    for family, rows in robot_rows(simulator).items():
        for array in ("pos", "quat", "mat", "ipos", "imat", "anchor", "axis", "dir"):
            moved = set(world.get(f"data.{family}{array}", []))
            if array not in ("anchor", "axis"):  # indexed by joint
                assert moved <= rows, f"data.{family}{array}"
    assert root in world["data.xpos"]
    # What the physics integrates: nothing but the solver's first guess of the accelerations.
    for name in ("qpos", "qvel", "act", "ctrl", "mocap_pos", "qfrc_applied", "xfrc_applied"):
        assert f"data.{name}" not in world, name
    fields = [receipt.field for receipt in receipts]
    assert fields[:2] == ["robot.base_pos", "robot.base_quat"]
    assert set(fields[2:]) >= {"controller.goal_pos", "controller.goal_ori"}
    draw, parameters = intervention("base", level).draw, AXES["base"][level]
    offset = numbers(receipts[0].after) - numbers(receipts[0].before)
    expected = [parameters["sigma_xy_m"] * draw["x"], parameters["sigma_xy_m"] * draw["y"], 0.0]
    np.testing.assert_allclose(offset, expected, atol=1e-12)
    turn = turn_of(receipts[1], frame="world")
    np.testing.assert_allclose(
        turn.as_rotvec(),
        [0.0, 0.0, math.radians(parameters["sigma_yaw_deg"]) * draw["yaw"]],
        atol=1e-9,
    )


@pytest.mark.parametrize("level", LEVELS)
def test_the_hand_moves_rigidly_with_the_base(simulator: LiberoSimulator, level: str) -> None:
    simulator.prepare(EPISODE)
    before = simulator.observe().proprio
    receipts = simulator.apply([intervention("base", level)])
    after = simulator.observe().proprio
    turn = turn_of(receipts[1], frame="world")
    expected = turn.apply(before["eef_pos"] - numbers(receipts[0].before))
    expected += numbers(receipts[0].after)
    np.testing.assert_allclose(after["eef_pos"], expected, atol=1e-9)
    quat = (turn * Rotation.from_quat(before["eef_quat"])).as_quat()
    assert abs(quat @ after["eef_quat"]) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_array_equal(after["joint_pos"], before["joint_pos"])


def in_base(
    simulator: LiberoSimulator,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Rotation]:
    """The hand's position and orientation in the frame of the robot's base."""
    assert simulator._world is not None
    data, bodies = simulator._world.data, simulator._world.model.nbody
    root = named(simulator, mujoco.mjtObj.mjOBJ_BODY, bodies).index("robot0_base")
    turn = Rotation.from_matrix(data.xmat[root].reshape(3, 3)).inv()
    proprio = simulator.observe().proprio
    position = turn.apply(proprio["eef_pos"] - data.xpos[root])
    return position, turn * Rotation.from_quat(proprio["eef_quat"])


@pytest.mark.parametrize(
    "parameters", [{"sigma_xy_m": 1e-9, "sigma_yaw_deg": 1e-7}, AXES["base"]["L3"]]
)
def test_the_arm_settles_in_its_bases_frame_as_the_clean_arm_does(
    simulator: LiberoSimulator, parameters: dict[str, float]
) -> None:
    """In free space neither gravity nor the controller can tell where the base stands."""
    hands = []
    part = Intervention("base", "base", "L", parameters, intervention("base", "L1").draw)
    for interventions in ([], [part]):
        simulator.prepare(EPISODE)
        simulator.apply(interventions)
        simulator.step(SETTLE, stop_on_success=False)
        hands.append(in_base(simulator))
    (clean_position, clean_turn), (position, turn) = hands
    np.testing.assert_allclose(position, clean_position, atol=1e-6)
    assert (turn * clean_turn.inv()).magnitude() < 1e-6


@pytest.mark.parametrize("axis", ["camera", "illumination", "blur"])
def test_shifts_of_what_is_seen_leave_the_physics_alone_bit_for_bit(
    simulator: LiberoSimulator, axis: str
) -> None:
    runs = []
    for interventions in ([], [intervention(axis, "L3")]):
        simulator.prepare(EPISODE)
        simulator.apply(interventions)
        simulator.step(SETTLE, stop_on_success=False)
        simulator.observe(CAMERAS)
        simulator.step(MOVE)
        runs.append(world_arrays(simulator))
    different = changed(*runs)
    different.pop("data.cam_xmat", None)
    assert different == {}


def test_camera_changes_the_external_picture_and_not_one_pixel_of_the_wrists(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array]
) -> None:
    for level in LEVELS:
        simulator.prepare(EPISODE)
        simulator.apply([intervention("camera", level)])
        difference = sees(simulator.observe(CAMERAS).images, clean_pictures)
        assert difference["agentview"] > 1.0, level
        assert difference["robot0_eye_in_hand"] == 0.0, level


def test_illumination_darkens_both_pictures_level_by_level(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array]
) -> None:
    means = {camera: [float(clean_pictures[camera].mean())] for camera in CAMERAS}
    for level in LEVELS:
        simulator.prepare(EPISODE)
        simulator.apply([intervention("illumination", level)])
        for camera, picture in simulator.observe(CAMERAS).images.items():
            means[camera].append(float(picture.mean()))
    for camera, values in means.items():
        assert all(a > b + 3.0 for a, b in pairwise(values)), (camera, values)


@pytest.mark.parametrize("axis", sorted(AXES))
def test_the_next_prepare_restores_everything_bit_for_bit(
    simulator: LiberoSimulator, clean_pictures: Mapping[str, Array], axis: str
) -> None:
    first = simulator.prepare(EPISODE)
    model, world = model_arrays(simulator), world_arrays(simulator)
    simulator.step(MOVE)
    moved = world_arrays(simulator)
    simulator.prepare(EPISODE)
    simulator.apply([intervention(axis, "L3")])
    simulator.step(SETTLE, stop_on_success=False)
    simulator.observe(CAMERAS)
    simulator.step(MOVE)
    again = simulator.prepare(EPISODE)
    assert again.fingerprint == first.fingerprint
    assert changed(model, model_arrays(simulator)) == {}
    assert changed(world, world_arrays(simulator)) == {}
    assert sees(simulator.observe(CAMERAS).images, clean_pictures) == dict.fromkeys(CAMERAS, 0.0)
    simulator.step(MOVE)
    assert changed(moved, world_arrays(simulator)) == {}


def test_a_compound_leaves_the_receipts_of_all_its_parts_in_order(
    simulator: LiberoSimulator,
) -> None:
    simulator.prepare(EPISODE)
    parts = [intervention(axis, "L2") for axis in ("blur", "camera", "illumination")]
    fields = [receipt.field for receipt in simulator.apply(parts)]
    assert fields[0] == "model.cam_quat[agentview]"
    assert fields[-1] == "observation.rgb gaussian_blur.sigma_px"
    assert any(field.startswith("model.light_diffuse[") for field in fields)
