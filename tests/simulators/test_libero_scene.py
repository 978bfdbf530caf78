"""A shift changes what its receipts say and nothing else: whole model and state are compared."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("libero.libero")

from pytest_vla_shift.protocol.errors import SimulatorError, UsageError
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL

Fields = dict[str, NDArray[np.generic]]


def fields() -> Fields:
    """Copies of the whole model, the integration state and the controller."""
    from pytest_vla_shift.simulators.libero_state import model_fields, state_fields

    world = support.world_of(support.simulator())
    found: Fields = {name: value.copy() for name, value in model_fields(world.model)}
    found.update(state_fields(world.model, world.data))
    for name, value in vars(world.env.robots[0].controller).items():
        if isinstance(value, np.ndarray):
            found[f"controller.{name}"] = value.copy()
    return found


def changed(before: Fields, after: Fields) -> set[str]:
    """Names of the fields that differ, with the rows that do."""
    assert before.keys() == after.keys()
    names = set()
    for name, value in before.items():
        if value.ndim < 2 or not value.size:
            names |= {name} if not np.array_equal(value, after[name]) else set()
            continue
        rows = np.flatnonzero((value != after[name]).reshape(len(value), -1).any(axis=1))
        names |= {f"{name}[{row}]" for row in rows}
    return names


def apply(shift: str) -> tuple[list[Receipt], set[str]]:
    """The receipts of a shift on a freshly prepared episode, and what it really changed."""
    sim = support.simulator()
    sim.prepare(BOWL)
    before = fields()
    receipts = sim.apply([support.intervention(shift)])
    return receipts, changed(before, fields())


def states_of_rollout() -> list[str]:
    """State digests after settling and after every chunk; nothing is drawn."""
    sim = support.simulator()
    support.settle(sim)
    found = [support.state_digest(sim)]
    for chunk in support.chunks():
        sim.step(chunk)
        found.append(support.state_digest(sim))
    return found


@pytest.fixture(scope="module")
def clean() -> list[str]:
    """States of the clean rollout."""
    support.simulator().prepare(BOWL)
    return states_of_rollout()


def test_a_turned_camera_changes_its_orientation_and_its_own_picture_only(
    clean: list[str],
) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = sim.observe(support.CAMERAS).images
    receipts, touched = apply("camera_orientation")
    camera = support.world_of(sim).env.sim.model.camera_name2id("agentview")
    assert touched == {f"model.cam_quat[{camera}]"}
    assert [receipt.field for receipt in receipts] == ["model.cam_quat[agentview]"]
    after = sim.observe(support.CAMERAS).images
    assert not np.array_equal(before["agentview"], after["agentview"])
    assert np.array_equal(before["robot0_eye_in_hand"], after["robot0_eye_in_hand"])
    assert states_of_rollout() == clean, "the physics stay as they were, bit for bit"


def test_dimmed_lights_change_light_colours_and_darken_both_pictures(clean: list[str]) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = sim.observe(support.CAMERAS).images
    receipts, touched = apply("illumination")
    fields_touched = {name.split("[")[0] for name in touched}
    assert fields_touched == {
        receipt.field.split("[")[0] for receipt in receipts if receipt.before != receipt.after
    }
    assert "model.light_diffuse" in fields_touched
    after = sim.observe(support.CAMERAS).images
    for camera in support.CAMERAS:
        assert after[camera].mean() < 0.8 * before[camera].mean()
    assert states_of_rollout() == clean


def test_a_moved_base_moves_the_robot_and_its_goal_and_nothing_else() -> None:
    receipts, touched = apply("base")
    world = support.world_of(support.simulator())
    base = world.env.sim.model.body_name2id("robot0_base")
    physical = {name for name in touched if not name.startswith("controller.")}
    # The warm start is the solver's memory of the last forward call, which a new pose needs.
    assert physical - {"state.qacc_warmstart"} == {
        f"model.body_pos[{base}]",
        f"model.body_quat[{base}]",
    }
    assert [receipt.field for receipt in receipts] == [
        "robot.base_pos",
        "robot.base_quat",
        "controller.goal_pos",
        "controller.goal_ori",
    ]
    assert receipts[0].before != receipts[0].after
    assert "controller.kp" not in touched
    assert "controller.initial_joint" not in touched


def test_a_moved_base_carries_hand_and_wrist_camera_rigidly_and_the_arm_does_not_sag() -> None:
    sim = support.simulator()
    poses = []
    for interventions in ([], [support.intervention("base")]):
        sim.prepare(BOWL)
        sim.apply(interventions)
        poses.append((_in_base(), sim.observe().proprio["joint_pos"]))
        support.settle(sim)
        poses.append((_in_base(), sim.observe().proprio["joint_pos"]))
    (clean, joints), (clean_settled, _), (moved, moved_joints), (settled, _) = poses
    assert np.allclose(clean, moved, atol=1e-9), "rigid"
    assert np.array_equal(joints, moved_joints)
    # The clean arm moves by millimetres towards the goal of the reset: so must the shifted one.
    assert np.allclose(clean_settled, settled, atol=1e-6), "no sag, and no other pull either"


def _in_base() -> NDArray[np.float64]:
    """Position of the hand and of the wrist camera in the frame of the robot's base."""
    world = support.world_of(support.simulator())
    names, data = world.env.sim.model, world.data
    base = names.body_name2id("robot0_base")
    frame, origin = data.xmat[base].reshape(3, 3), data.xpos[base]
    hand = data.site_xpos[world.env.robots[0].eef_site_id]
    camera = data.cam_xpos[names.camera_name2id("robot0_eye_in_hand")]
    return np.concatenate([(hand - origin) @ frame, (camera - origin) @ frame])


def test_blur_touches_the_pictures_and_not_the_scene(clean: list[str]) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = sim.observe(support.CAMERAS).images
    receipts, touched = apply("gaussian_blur")
    assert touched == set()
    assert receipts
    after = sim.observe(support.CAMERAS).images
    for camera in support.CAMERAS:
        roughness = [
            np.abs(np.diff(image[camera].astype(int), axis=0)).mean() for image in (before, after)
        ]
        assert roughness[1] < 0.5 * roughness[0]
    assert states_of_rollout() == clean


def test_no_intervention_changes_nothing_and_says_so() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = fields()
    assert sim.apply([]) == []
    assert changed(before, fields()) == set()


def test_a_zero_magnitude_is_skipped_and_not_recomputed() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    before = fields()
    nothing = Intervention(
        "camera", "camera_orientation", "L0", {"theta_max_deg": 0.0}, {"yaw": 0.7, "pitch": -0.5}
    )
    assert sim.apply([nothing]) == []
    assert changed(before, fields()) == set()


def test_apply_is_refused_twice_and_after_a_step() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    sim.apply([])
    with pytest.raises(SimulatorError, match="apply is called once"):
        sim.apply([])
    sim.prepare(BOWL)
    support.settle(sim)
    with pytest.raises(SimulatorError, match="before any step"):
        sim.apply([support.intervention("base")])


def test_a_shift_that_cannot_be_applied_leaves_no_episode_to_roll_out() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    wrong = Intervention("camera", "camera_orientation", "L1", {"theta_max_deg": -1.0}, {})
    with pytest.raises(UsageError):
        sim.apply([wrong])
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        support.settle(sim)


def test_the_scene_refuses_what_would_silently_mean_something_else() -> None:
    from pytest_vla_shift.simulators.libero_scene import LiberoScene

    sim = support.simulator()
    sim.prepare(BOWL)
    scene = LiberoScene(support.world_of(sim))
    unit = np.array([1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="no camera 'agent_view'"):
        scene.camera_quat("agent_view")
    with pytest.raises(ValueError, match="not a unit quaternion"):
        scene.set_camera_quat("agentview", 1.01 * unit)
    with pytest.raises(ValueError, match="not a unit quaternion"):
        scene.set_robot_base_pose(np.zeros(3), np.full(4, np.nan))
    with pytest.raises(ValueError, match="not a finite position"):
        scene.set_robot_base_pose(np.array([np.inf, 0.0, 0.0]), unit)
    with pytest.raises(ValueError, match="no light 'sun'"):
        scene.light_color("sun", "diffuse")
    with pytest.raises(ValueError, match="no light component 'colour'"):
        scene.light_color("headlight", "colour")
    with pytest.raises(ValueError, match="finite colours"):
        scene.set_light_color("headlight", "diffuse", np.array([-0.1, 0.0, 0.0]))
    assert scene.receipts == []


def test_the_fingerprint_sees_every_field_that_a_reset_or_a_shift_can_touch() -> None:
    """openvla#342: a fixture 3 mm aside is another episode. Nothing may slip through unseen."""
    from pytest_vla_shift.simulators.libero_state import fingerprint, model_fields

    sim = support.simulator()
    before = sim.prepare(BOWL).fingerprint
    world = support.world_of(sim)
    writable = [name for name, value in model_fields(world.model) if value.ndim and value.size]
    assert {"model.body_pos", "model.cam_quat", "model.light_diffuse", "model.site_rgba"} <= set(
        writable
    )
    for name, value in model_fields(world.model):
        if name in writable:
            old = value.flat[0].item()
            value.flat[0] = old + 1 if value.dtype.kind in "iu" else old + 0.003
            after = fingerprint(world.env)
            assert {n for n in after if after[n] != before[n]} == {name}
            value.flat[0] = old
    for array, name in (
        (world.data.qpos, "state.qpos"),
        (world.data.qvel, "state.qvel"),
        (world.data.ctrl, "state.ctrl"),
        (world.data.qacc_warmstart, "state.qacc_warmstart"),
        (world.env.robots[0].controller.goal_pos, "controller.goal_pos"),
        (world.env.robots[0].gripper.current_action, "gripper.current_action"),
    ):
        old = float(array[0])
        array[0] += 1e-9
        after = fingerprint(world.env)
        assert {n for n in after if after[n] != before[n]} == {name}
        array[0] = old
    world.model.opt.timestep *= 2
    assert fingerprint(world.env)["model.opt.timestep"] != before["model.opt.timestep"]
    world.model.vis.headlight.active = 0
    assert sim.prepare(BOWL).fingerprint == before, "and prepare puts all of it back"
