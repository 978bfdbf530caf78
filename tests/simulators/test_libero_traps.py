"""What has gone wrong for others between a LIBERO policy and its simulator, in the simulator.

Each test goes through the wire's own numbers of every profile for LIBERO that is shipped, so that
a sign that is wrong twice does not pass. Elsewhere: that the environment's seed moves fixtures
though the initial state is fixed (test_libero_restore.py), the traps that need no simulator
(tests/policies/test_traps.py).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import actions, payload
from pytest_vla_shift.policies.pictures import to_profile
from pytest_vla_shift.policies.profile import ImageMap, Profile, StatePart, read_profile
from pytest_vla_shift.policies.quantities import axis_angle
from tests.policies.shipped_profiles import profiles
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL, CAMERAS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Observation, Vector
    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator

LIBERO = [profile.name for profile in profiles("libero")]

CLOSES_AND_OPENS = {
    "gr00t": (0.0, 1.0),
    "openvla": (0.0, 1.0),
    "openpi": (1.0, -1.0),
    "vla-eval": (1.0, -1.0),
    "lerobot": (1.0, -1.0),
}
"""Wire -> the number that closes a gripper and the one that opens it, as its models learnt them
(reference of each wire in docs/reference/policies.md), not as our profiles say."""

STEPS = 8


@pytest.fixture
def settled() -> LiberoSimulator:
    """The bowl's episode after settling: the gripper is open."""
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    sim.prepare(BOWL)
    support.settle(sim)
    return sim


def gap(sim: LiberoSimulator) -> float:
    """Metres between the fingers."""
    left, right = sim.observe().proprio["gripper_qpos"]
    return float(left - right)


def answer(profile: Profile, component: int, number: float) -> NDArray[np.float64]:
    """The simulator's actions for an answer of no motion with one number of the wire in it."""
    arrays = {key: np.zeros((STEPS, width)) for key, width in profile.action_widths.items()}
    for part in profile.actions:
        if component in part.to:
            arrays[part.key][:, part.columns[part.to.index(component)]] = number
    return actions(profile, arrays)


@pytest.mark.parametrize("name", LIBERO)
def test_trap_gripper_sign_close_closes_and_open_opens(name: str, settled: LiberoSimulator) -> None:
    profile = read_profile(name)
    closes, opens = CLOSES_AND_OPENS[profile.wire]
    start = gap(settled)
    settled.step(answer(profile, 6, closes))
    closed = gap(settled)
    settled.step(answer(profile, 6, opens))
    settled.step(answer(profile, 6, opens))
    assert start > 0.03
    assert closed < start - 0.03
    assert gap(settled) > closed + 0.03


def test_the_action_that_settles_opens_the_gripper() -> None:
    """The contract check takes it for the proof of which sign opens."""
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    sim.prepare(BOWL)
    before = gap(sim)
    support.settle(sim)
    assert gap(sim) > before + 0.01


@pytest.mark.parametrize("component", range(3))
def test_a_positive_position_moves_the_hand_along_that_axis(
    component: int, settled: LiberoSimulator
) -> None:
    before = settled.observe().proprio["eef_pos"]
    settled.step(answer(read_profile("gr00t-libero"), component, 0.5))
    moved = settled.observe().proprio["eef_pos"] - before
    assert moved[component] > 0.02
    assert int(np.argmax(np.abs(moved))) == component


@pytest.mark.parametrize("component", range(3))
def test_a_positive_rotation_turns_the_hand_about_that_axis_of_the_world(
    component: int, settled: LiberoSimulator
) -> None:
    before = settled.observe().proprio["eef_quat"]
    settled.step(answer(read_profile("gr00t-libero"), 3 + component, 0.5))
    turned = rotation_between(before, settled.observe().proprio["eef_quat"])
    assert turned[component] > 0.05
    assert int(np.argmax(np.abs(turned))) == component


def rotation_between(before: Vector, after: Vector) -> Vector:
    """(3,) radians in the world frame, of the shorter way."""
    (ax, ay, az, aw), (bx, by, bz, bw) = after, -before * [1.0, 1.0, 1.0, -1.0]
    product = np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )
    return axis_angle(product if product[3] >= 0.0 else -product)


@dataclass(frozen=True)
class Moment:
    """One state as we tell it, and as robosuite does: its observables, raw pictures, controller."""

    ours: Observation
    theirs: dict[str, Any]
    controller: SimpleNamespace


@functools.cache
def moment() -> Moment:
    """After some motion: the controller has measured, and the hand is turned beyond pi."""
    pytest.importorskip("libero.libero")
    sim = support.simulator()
    sim.prepare(BOWL)
    support.settle(sim)
    sim.step(-next(support.chunks()))
    env = support.world_of(sim).env
    names = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")
    theirs: dict[str, Any] = {name: env._observables[name]._sensor({}) for name in names}
    ours = sim.observe(CAMERAS)
    for camera in CAMERAS:
        theirs[f"{camera}_image"] = env.sim.render(width=64, height=64, camera_name=camera)
    controller = env.robots[0].controller
    measured = SimpleNamespace(ee_pos=controller.ee_pos, ee_ori_mat=controller.ee_ori_mat)
    assert theirs["robot0_eef_quat"][3] < 0.0, "here the two rotation vectors differ"
    return Moment(ours, theirs, measured)


def images() -> list[tuple[str, ImageMap]]:
    """Every picture of every profile, at whatever size the tests draw."""
    return [
        (profile.name, replace(image, size=None, resize="none"))
        for profile in profiles("libero")
        for image in profile.images
    ]


def test_trap_180_degrees_against_vertical_flip() -> None:
    """LIBERO's scripts send raw[::-1, ::-1] of what robosuite renders; bit for bit."""
    seen, pictures = moment().ours.images, moment().theirs
    for name, image in images():
        raw = pictures[f"{image.camera}_image"]
        found = to_profile(image, seen[image.camera])
        assert np.array_equal(found, raw[::-1, ::-1]), name
        assert not np.array_equal(found, raw[::-1]), "a vertical flip alone"
        assert not np.array_equal(found, raw), "no turn at all"
        assert not np.array_equal(found, seen[image.camera][::-1, ::-1]), "upright, rotated"


def test_an_upright_picture_shows_on_the_right_what_is_on_the_cameras_right(
    settled: LiberoSimulator,
) -> None:
    """So that what a policy of LIBERO is sent, its mirror image, shows it on the left."""
    import mujoco

    world = support.world_of(settled)
    model, data = world.model, world.data
    start, _ = world.env.sim.model.get_joint_qpos_addr("wine_bottle_1_joint0")
    camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "agentview")
    right = data.cam_xmat[camera].reshape(3, 3)[:, 0].copy()
    place = data.qpos[start : start + 3].copy()
    columns: list[float] = []
    without = np.zeros(())
    for moved in (np.array([0.0, 0.0, -5.0]), np.zeros(3), 0.15 * right):
        data.qpos[start : start + 3] = place + moved
        mujoco.mj_forward(model, data)
        picture = settled.observe(("agentview",)).images["agentview"].astype(float)
        if not without.shape:
            without = picture
            continue
        weights = np.abs(picture - without).sum(axis=(0, 2))
        columns.append(float(np.average(np.arange(len(weights)), weights=weights)))
    assert columns[1] > columns[0] + 3


def any_size(profile: Profile) -> Profile:
    """``profile`` for the small pictures of the tests."""
    return replace(
        profile, images=tuple(replace(i, size=None, resize="none") for i in profile.images)
    )


def without_antipode(profile: Profile) -> Profile:
    """vla-eval's profile for a server that asks for quat_no_antipodal."""
    first, *rest = profile.states
    parts = tuple(
        StatePart("eef_axis_angle_rounded", 0, 3) if "axis_angle" in part.quantity else part
        for part in first.parts
    )
    return replace(profile, states=(replace(first, parts=parts), *rest))


@pytest.mark.parametrize("no_antipodal", [False, True])
def test_traps_antipode_and_order_of_images_vla_evals_own_observation_bit_for_bit(
    no_antipodal: bool,
) -> None:
    benchmark = pytest.importorskip("vla_eval.benchmarks.libero.benchmark")
    profile = any_size(read_profile("vla-eval-libero"))
    ours = payload(without_antipode(profile) if no_antipodal else profile, moment().ours)
    theirs = benchmark.LIBEROBenchmark(
        send_state=True, send_wrist_image=True, quat_no_antipodal=no_antipodal
    )
    theirs._env = SimpleNamespace(robots=[SimpleNamespace(controller=moment().controller)])
    wanted = theirs.make_obs(moment().theirs, {"name": "put the bowl on the plate"})
    pictures = {f"images/{key}": picture for key, picture in wanted["images"].items()}
    assert [key for key in ours if key.startswith("images/")] == list(pictures), "base, then wrist"
    for key, value in {
        **pictures,
        **{k: wanted[k] for k in ("states", "controller_states")},
    }.items():
        found = ours[key]
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape, found.tobytes()) == (
            value.dtype,
            value.shape,
            value.tobytes(),
        ), key
    assert ours["task_description"] == wanted["task_description"]


def test_the_state_of_openpis_and_openvlas_scripts_bit_for_bit() -> None:
    """Position, robosuite's rotation vector and both fingers, float64; of the raw observation."""
    from robosuite.utils.transform_utils import quat2axisangle

    raw = moment().theirs
    wanted = np.concatenate(
        (
            raw["robot0_eef_pos"],
            quat2axisangle(raw["robot0_eef_quat"].copy()),
            raw["robot0_gripper_qpos"],
        )
    )
    assert np.linalg.norm(wanted[3:6]) > np.pi, "the longer way"
    for name, key in (("openpi-libero", "observation/state"), ("openvla-oft-libero", "state")):
        found = payload(any_size(read_profile(name)), moment().ours)[key]
        assert isinstance(found, np.ndarray)
        assert (found.dtype.name, found.tobytes()) == ("float64", wanted.tobytes()), name


def test_trap_the_controllers_state_is_not_the_hands(settled: LiberoSimulator) -> None:
    """X-VLA is lost with the other one: a quarter turn lies between them."""
    seen = settled.observe().proprio
    assert np.array_equal(seen["controller_pos"], seen["eef_pos"])
    between = rotation_between(seen["eef_quat"], seen["controller_quat"])
    assert np.linalg.norm(between) == pytest.approx(np.pi / 2, abs=1e-3)
