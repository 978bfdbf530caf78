"""What has gone wrong for others between a policy's numbers and a robot: those without a simulator.

What needs LIBERO is in tests/simulators/test_libero_traps.py: the gripper's sign, the rotation of
pictures, the antipode, the order of vla-eval's images, and in test_libero_restore.py that the
environment's seed moves fixtures. A socket of ZeroMQ that has to be made anew after a time-out is
in test_gr00t_wire.py, the four shapes of errors in the tests of each wire.

RoboCasa's simulator is not in this package yet: of its two orders, what is tested is that every
profile leads each number from its name, or its place, on the wire to the component that means it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import actions, payload
from pytest_vla_shift.policies.profile import Profile, read_profile
from pytest_vla_shift.policies.wires import gr00t_codec, json_numpy, openpi_codec, vla_eval_codec
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Observation
from pytest_vla_shift.rollouts.rollout import run_rollout
from tests.fakes.toy_simulator import HORIZON, SETTLE_STEPS
from tests.policies.shipped_profiles import NAMES, profiles
from tests.rollouts.toy import idle, requested, toy, toy_suite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

# Orders of actions and states

ROBOCASA_ACTION = (
    *("x", "y", "z", "rx", "ry", "rz", "gripper"),
    *("base_x", "base_y", "base_yaw", "torso", "mode"),
)
"""robocasa's own order, ``convert_action``: the one that its simulator takes."""

LEROBOT_ACTION = (
    *("base_x", "base_y", "base_yaw", "torso", "mode"),
    *("x", "y", "z", "rx", "ry", "rz", "gripper"),
)
"""lerobot's: as many numbers, so that a mix-up raises nothing."""

GR00T_ACTION = {
    "action.end_effector_position": ("x", "y", "z"),
    "action.end_effector_rotation": ("rx", "ry", "rz"),
    "action.gripper_close": ("gripper",),
    "action.base_motion": ("base_x", "base_y", "base_yaw", "torso"),
    "action.control_mode": ("mode",),
}

ACTION_ORDERS: dict[str, dict[str, tuple[str, ...]]] = {
    "gr00t-robocasa": GR00T_ACTION,
    "gr00t-robocasa365": GR00T_ACTION,
    "lerobot-robocasa": {"action": LEROBOT_ACTION},
    "vla-eval-robocasa365": {"actions": ROBOCASA_ACTION},
}
"""Profile -> name on the wire -> what each of its columns moves."""

QUATERNION = ("x", "y", "z", "w")

GR00T_STATE = {
    "end_effector_position_relative": [f"eef_pos_relative.{i}" for i in range(3)],
    "end_effector_rotation_relative": [f"eef_quat_relative.{i}" for i in range(4)],
    "gripper_qpos": [f"gripper_qpos.{i}" for i in range(2)],
    "base_position": [f"base_pos.{i}" for i in range(3)],
    "base_rotation": [f"base_quat.{i}" for i in range(4)],
}

STATE_ORDERS: dict[str, dict[str, list[str]]] = {
    "gr00t-robocasa": {f"state.{key}": names for key, names in GR00T_STATE.items()},
    "gr00t-robocasa365": {f"state.{key}": names for key, names in GR00T_STATE.items()},
    "vla-eval-robocasa365": {f"state/state.{key}": names for key, names in GR00T_STATE.items()},
    "lerobot-robocasa": {
        "observation.state": [
            *(f"base_pos.{i}" for i in range(3)),
            *(f"base_quat.{i}" for i in range(4)),
            *(f"eef_pos_relative.{i}" for i in range(3)),
            *(f"eef_quat_relative.{i}" for i in range(4)),
            *(f"gripper_qpos.{i}" for i in range(2)),
        ]
    },
}


def test_every_profile_for_robocasa_is_in_both_tables() -> None:
    names = {profile.name for profile in profiles("robocasa")}
    assert names == set(ACTION_ORDERS) == set(STATE_ORDERS)


def marked(profile: Profile, key: str, column: int) -> tuple[Arrays, Arrays]:
    """An answer, and the same with another number in one place."""
    plain = {name: np.full((1, width), 0.1) for name, width in profile.action_widths.items()}
    other = {name: array.copy() for name, array in plain.items()}
    other[key][0, column] = 0.9
    return plain, other


@pytest.mark.parametrize("name", ACTION_ORDERS)
def test_trap_12_d_action_orders_a_marked_number_arrives_where_it_is_meant(name: str) -> None:
    profile = read_profile(name)
    order = ACTION_ORDERS[name]
    assert {key: len(names) for key, names in order.items()} == profile.action_widths
    for key, names in order.items():
        for column, meaning in enumerate(names):
            plain, other = marked(profile, key, column)
            (changed,) = np.flatnonzero(actions(profile, plain)[0] != actions(profile, other)[0])
            assert ROBOCASA_ACTION[changed] == meaning, f"{key}[{column}]"


def test_the_two_12_d_orders_are_two() -> None:
    """One vector, read as lerobot's and as robocasa's: nothing is where the other has it."""
    vector = np.arange(1.0, 13.0)[None] / 100.0
    lerobot = actions(read_profile("lerobot-robocasa"), {"action": vector})
    robocasa = actions(read_profile("vla-eval-robocasa365"), {"actions": vector})
    assert lerobot.shape == robocasa.shape == (1, 12)
    motion = [
        index for index, word in enumerate(ROBOCASA_ACTION) if word not in ("gripper", "mode")
    ]
    assert not (lerobot[0, motion] == robocasa[0, motion]).any()


@pytest.mark.parametrize("name", STATE_ORDERS)
def test_trap_state_orders_a_marked_number_arrives_where_it_is_meant(name: str) -> None:
    profile = read_profile(name)
    values, at = {}, 1.0
    for quantity, width in (
        ("eef_pos_relative", 3),
        ("eef_quat_relative", 4),
        ("gripper_qpos", 2),
        ("base_pos", 3),
        ("base_quat", 4),
    ):
        values[quantity] = np.arange(at, at + width)
        at += width
    seen = Observation(
        {image.camera: np.zeros((256, 256, 3), np.uint8) for image in profile.images},
        values,
        "",
        0,
    )
    sent = payload(profile, seen)
    assert {state.key for state in profile.states} == set(STATE_ORDERS[name])
    for key, names in STATE_ORDERS[name].items():
        wanted = [values[n.split(".")[0]][int(n.split(".")[1])] for n in names]
        assert cast("NDArray[np.float64]", sent[key]).tolist() == wanted


# Types


STATE_TYPES = {
    "gr00t-libero": {"float32"},
    "gr00t-libero-n15": {"float64"},
    "gr00t-robocasa": {"float32"},
    "gr00t-robocasa365": {"float32"},
    "lerobot-libero": {"float32"},
    "lerobot-libero-wrist-image": {"float32"},
    "lerobot-robocasa": {"float32"},
    "openpi-libero": {"float64"},
    "openvla-libero": set(),
    "openvla-oft-libero": {"float64"},
    "vla-eval-libero": {"float32", "float64"},
    "vla-eval-robocasa365": {"float32"},
}
"""GR00T N1.6 and later refuse any but float32 in strict mode; openpi's script sends float64;
vla-eval one state of each."""


@pytest.mark.parametrize("name", NAMES)
def test_trap_float32_state_for_gr00t_and_float64_for_openpi(name: str) -> None:
    assert {state.dtype for state in read_profile(name).states} == STATE_TYPES[name]


# Memory

CODECS: dict[str, Callable[[object], object]] = {
    "gr00t npy": lambda value: gr00t_codec.decode(gr00t_codec.encode({"x": value})),
    "gr00t msgpack-numpy": lambda value: gr00t_codec.decode(
        gr00t_codec.encode({"x": value}, "msgpack-numpy")
    ),
    "openpi": lambda value: openpi_codec.read(openpi_codec.pack({"x": value})),
    "vla-eval": lambda value: (
        vla_eval_codec.read(
            vla_eval_codec.pack(vla_eval_codec.Message("observation", {"x": value}, 0, 0.0))
        ).payload
    ),
    "openvla": lambda value: json_numpy.decode(json_numpy.encode({"x": value})),
}


def views() -> list[NDArray[np.generic]]:
    """Pictures and vectors that share memory with others and lie in it in other orders."""
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    vector = np.arange(8.0)
    return [
        picture[::-1, ::-1],
        picture[:, ::-1],
        picture[::2, 1:],
        picture.transpose(1, 0, 2),
        np.asfortranarray(picture),
        vector[::-1],
        vector.astype(np.float32)[1::3],
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_trap_negative_strides_what_arrives_is_the_view_and_not_its_memory(codec: str) -> None:
    for view in views():
        received = CODECS[codec](view)
        assert isinstance(received, dict)
        found = received["x"]
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (view.dtype, view.shape)
        assert found.tobytes() == np.ascontiguousarray(view).tobytes()


@pytest.mark.parametrize("codec", CODECS)
def test_trap_read_only_arrays_of_a_codec_become_actions_that_may_be_written(codec: str) -> None:
    profile = read_profile("openpi-libero")
    received = CODECS[codec](np.full((2, 7), 0.5))
    assert isinstance(received, dict)
    raw = received["x"]
    raw.flags.writeable = False
    found = actions(profile, {"actions": raw})
    found += 1.0
    assert raw.tolist() == np.full((2, 7), 0.5).tolist()


# Horizons


def test_trap_settle_steps_are_outside_the_horizon() -> None:
    """Its scripts' loops run for max_steps + 10: a policy has all of the horizon."""
    suite = toy_suite()
    simulator = toy(suite)
    policy = idle(4, 4)
    measured = run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    assert measured.steps == HORIZON
    assert simulator.observe().step == HORIZON
    assert sum(map(len, simulator.chunks)) == SETTLE_STEPS + HORIZON


def test_trap_spatial_has_220_steps_and_not_lerobots_280() -> None:
    horizons = {
        "libero_spatial": 220,
        "libero_object": 280,
        "libero_goal": 300,
        "libero_10": 520,
        "libero_90": 400,
    }
    for name, horizon in horizons.items():
        suite = catalog.find(name)
        assert suite is not None
        assert suite.horizon == horizon
