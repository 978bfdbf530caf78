"""What a vla-eval server's hello makes of a profile, and what is refused."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.profile import MappingError, Profile, read_profile
from pytest_vla_shift.policies.wires.protocol import WireError
from pytest_vla_shift.policies.wires.vla_eval_terms import Said, Terms, flat, nested, terms
from pytest_vla_shift.protocol.errors import UsageError

LIBERO = read_profile("vla-eval-libero")
KITCHEN = read_profile("vla-eval-robocasa365")


def spec(form: str, dims: int = 0, **more: object) -> dict[str, object]:
    return {"name": "it", "dims": dims, "format": form, **more}


NAMES = st.sampled_from(
    [
        "observation_params",
        "action_spec",
        "observation_spec",
        "model_server",
        "send_state",
        "send_wrist_image",
        "quat_no_antipodal",
        "absolute_action",
        "send_video_history",
        "seed",
        "position",
        "gripper",
        "state",
        "dims",
        "format",
        "range",
        "accepts",
    ]
)

PICTURE = spec("rgb_hwc_uint8")
ARM = {
    "position": spec("delta_xyz", 3, range=[-1, 1]),
    "rotation": spec("axis_angle", 3, range=[-3.15, 3.15]),
    "gripper": spec("binary_close_positive", 1, range=[-1, 1]),
}


def agreed(
    params: object = None,
    actions: object = None,
    seen: object = None,
    said: Said | None = None,
    server: str = "AnyModelServer",
    profile: Profile = LIBERO,
) -> Terms:
    hello = {
        "model_server": server,
        "observation_params": params,
        "action_spec": actions,
        "observation_spec": seen,
    }
    return terms(profile, {k: v for k, v in hello.items() if v is not None}, said or Said())


def keys(found: Terms) -> list[str]:
    profile = found.profile
    return [i.key for i in profile.images] + [s.key for s in profile.states]


def row(found: Terms, item: str) -> Row:
    (only,) = [row for row in found.rows if row.item == item]
    return only


def fits(found: Terms) -> bool:
    return all(row.fits for row in found.rows)


BASE, WRIST, STATES = ["images/agentview"], ["images/wrist"], ["states", "controller_states"]


@pytest.mark.parametrize(
    "params, sent",
    [
        (None, BASE),
        ({}, BASE),
        ({"send_wrist_image": True}, BASE + WRIST),
        ({"send_state": True}, BASE + STATES),
        ({"send_state": True, "send_wrist_image": True}, BASE + WRIST + STATES),
        ({"send_state": False, "send_wrist_image": False}, BASE),
    ],
)
def test_what_a_server_asks_for_is_sent_and_nothing_else(params: object, sent: list[str]) -> None:
    """As the harness's benchmark: what nobody asks for stays out."""
    assert keys(agreed(params)) == sent


def test_the_base_comes_before_the_wrist() -> None:
    """Servers take pictures by their place."""
    both = agreed({"send_wrist_image": True}).profile
    assert both.cameras == ("agentview", "robot0_eye_in_hand")


@pytest.mark.parametrize(
    "said, sent",
    [
        (Said(send_wrist_image=True), BASE + WRIST + STATES),
        (Said(send_state=False), BASE),
        (Said(send_wrist_image=True, send_state=False), BASE + WRIST),
    ],
)
def test_the_user_wins(said: Said, sent: list[str]) -> None:
    found = agreed({"send_state": True, "send_wrist_image": False}, said=said)
    assert keys(found) == sent
    assert fits(found)


@pytest.mark.parametrize("camera", ["frontview", "robot0_eye_in_hand"])
@pytest.mark.parametrize("key", ["images/wrist", "images/hand"])
def test_the_wrists_picture_is_known_by_its_name_or_by_its_camera(key: str, camera: str) -> None:
    base, wrist = LIBERO.images
    mine = replace(LIBERO, images=(base, replace(wrist, key=key, camera=camera)))
    is_wrist = key == "images/wrist" or camera == "robot0_eye_in_hand"
    found = row(agreed({"send_wrist_image": True}, profile=mine), "picture of the wrist")
    assert (found.ours, found.fits) == (("sent" if is_wrist else "not in the profile"), is_wrist)
    declined = row(agreed({"send_wrist_image": False}, profile=mine), "picture of the wrist")
    if key == "images/wrist":
        assert (declined.ours, declined.fits) == ("not sent", True)


def test_groots_server_gets_the_wrist_without_asking() -> None:
    """It fills a black picture in where the second is missing, and never asks."""
    assert keys(agreed({"send_state": True}, server="GR00TModelServer")) == BASE + WRIST + STATES
    told = agreed({"send_wrist_image": False}, server="GR00TModelServer")
    assert keys(told) == BASE


def test_a_server_that_declares_two_pictures_gets_two() -> None:
    assert keys(agreed(seen={"image": PICTURE, "wrist": PICTURE})) == BASE + WRIST


def test_a_server_that_declares_a_state_of_ours_gets_it() -> None:
    declared = spec("eef_pos3_axisangle3_gripper2", 8)
    assert keys(agreed(seen={"image": PICTURE, "state": declared})) == BASE + STATES


@pytest.mark.parametrize(
    "params, quantity",
    [
        ({}, "eef_axis_angle_short"),
        ({"quat_no_antipodal": False}, "eef_axis_angle_short"),
        ({"quat_no_antipodal": True}, "eef_axis_angle_rounded"),
    ],
)
def test_the_antipode_of_the_rotation_is_as_asked_for(
    params: dict[str, object], quantity: str
) -> None:
    found = agreed({"send_state": True, **params})
    states, controller = found.profile.states
    assert states.parts[1].quantity == quantity
    assert controller.parts[1].quantity == "controller_axis_angle_short"
    assert row(found, "rotation in states").ours == quantity


def test_the_user_says_how_the_rotation_is() -> None:
    found = agreed(
        {"send_state": True, "quat_no_antipodal": True}, said=Said(quat_no_antipodal=False)
    )
    assert found.profile.states[0].parts[1].quantity == "eef_axis_angle_short"


def test_poses_instead_of_changes_are_refused() -> None:
    """X-VLA on LIBERO gives absolute poses."""
    assert not row(agreed({"absolute_action": True}), "absolute_action").fits
    assert row(agreed({"absolute_action": False}), "absolute_action").fits


@pytest.mark.parametrize("name", ["seed", "env_seed", "max_steps", "brightness"])
def test_what_is_not_done_is_said(name: str) -> None:
    found = agreed({name: 3})
    assert fits(found)
    assert row(found, name).policy == "3"
    (warning,) = found.warnings
    assert f"{name} 3" in warning


def test_what_belongs_to_other_benchmarks_is_passed_over() -> None:
    """GR00T's server asks for it whatever it is evaluated on."""
    found = agreed(
        {"max_episode_steps": 300, "success_mode": "accumulate", "deterministic_episodes": False}
    )
    assert fits(found)
    assert found.warnings == ()


@pytest.mark.parametrize("params", [{"send_video_history": True}, {"control_mode": "arm_pd"}])
def test_what_the_policy_cannot_do_without_and_is_not_there_is_refused(
    params: dict[str, object],
) -> None:
    (name,) = params
    assert not row(agreed(params), name).fits


def test_declared_actions_of_an_arm_fit() -> None:
    found = agreed(actions=ARM)
    assert fits(found)
    assert found.profile.actions == LIBERO.actions


@pytest.mark.parametrize(
    "name, declared",
    [
        ("position", spec("absolute_xyz", 3)),
        ("position", spec("delta_xyz", 3, range=[-2, 2])),
        ("position", spec("delta_xyz", 2)),
        ("rotation", spec("euler_xyz", 3)),
        ("rotation", spec("quaternion_xyzw", 4)),
        ("rotation", spec("rot6d_interleaved", 6)),
        ("gripper", spec("binary_close_negative", 1)),
        ("gripper", spec("continuous_01", 1)),
        ("gripper", spec("binary_close_positive", 2)),
        ("joints", spec("joint_positions_r1pro", 23)),
        ("actions", spec("absolute_joint_positions_with_grippers", 14)),
        ("actions", spec("raw", 14)),
        ("base_motion", spec("base_velocity3_torso1", 4)),
    ],
)
def test_actions_of_another_kind_are_refused(name: str, declared: dict[str, object]) -> None:
    found = agreed(actions={**ARM, name: declared})
    assert not row(found, f"action {name}").fits
    assert str(declared["format"]) in row(found, f"action {name}").policy


@pytest.mark.parametrize("declared", [spec("raw"), spec("raw", 7)])
def test_raw_says_nothing(declared: dict[str, object]) -> None:
    assert fits(agreed(actions={"actions": declared}))


def test_groot_says_euler_and_gives_rotation_vectors() -> None:
    euler = {**ARM, "rotation": spec("euler_xyz", 3)}
    assert fits(agreed(actions=euler, server="GR00TModelServer"))


def test_a_gripper_from_0_to_1_whose_1_closes_is_read_so() -> None:
    found = agreed(actions={"gripper": spec("binary_close_01", 1)})
    assert fits(found)
    assert [part.transform for part in found.profile.actions] == ["identity", "half"]


def test_a_gripper_of_an_unknown_direction_is_the_users_to_say() -> None:
    actions = {"gripper": spec("continuous_01", 1)}
    assert not fits(agreed(actions=actions))
    found = agreed(actions=actions, said=Said(gripper="open01"))
    assert fits(found)
    assert [part.transform for part in found.profile.actions] == ["identity", "open01"]


def test_items_can_be_overruled_one_by_one() -> None:
    actions = {**ARM, "rotation": spec("euler_xyz", 3), "gripper": spec("binary_close_negative", 1)}
    found = agreed(actions=actions, said=Said(overrule=("action rotation",)))
    assert row(found, "action rotation").fits
    assert "overruled" in row(found, "action rotation").ours
    assert not row(found, "action gripper").fits


def test_what_is_overruled_must_be_compared() -> None:
    with pytest.raises(UsageError, match=r"'rotation'.*action rotation"):
        agreed(actions=ARM, said=Said(overrule=("rotation",)))


@pytest.mark.parametrize(
    "declared",
    [
        spec("eef_pos3_euler3_gripper2", 8),
        spec("eef_pos3_quat4_gripper1", 8),
        spec("joint_positions"),
        spec("rot6d_interleaved_proprio_20d", 20),
        spec("mine", 8, accepts=["eef_pos3_euler3_gripper2"]),
    ],
)
def test_another_state_is_refused(declared: dict[str, object]) -> None:
    found = agreed({"send_state": True}, seen={"image": PICTURE, "state": declared})
    assert not row(found, "observation state").fits


@pytest.mark.parametrize(
    "declared",
    [
        spec("eef_pos3_axisangle3_gripper2", 8),
        spec("raw"),
        spec("mine", 8, accepts=["eef_pos3_axisangle3_gripper2", "another"]),
    ],
)
def test_a_state_that_the_server_takes_fits(declared: dict[str, object]) -> None:
    assert fits(agreed({"send_state": True}, seen={"image": PICTURE, "state": declared}))


def test_more_pictures_than_there_are_cameras_are_refused() -> None:
    found = agreed(seen={"head": PICTURE, "left_wrist": PICTURE, "right_wrist": PICTURE})
    assert not row(found, "pictures").fits
    assert "head, left_wrist, right_wrist" in row(found, "pictures").policy


def test_a_kitchens_pictures_and_states_are_sent_always() -> None:
    """They are under other names, which no parameter governs."""
    found = agreed(profile=KITCHEN, server="RoboCasa365GR00TModelServer")
    assert found.profile == KITCHEN
    assert fits(found)


def test_a_kitchens_five_parts_of_an_action_fit() -> None:
    five = {
        **ARM,
        "gripper": spec("binary_close_01", 1, range=[0, 1]),
        "base_motion": spec("base_velocity3_torso1", 4, range=[-1, 1]),
        "control_mode": spec("base_mode_01", 1, range=[0, 1]),
    }
    assert fits(agreed(actions=five, profile=KITCHEN))
    assert not fits(agreed(actions=five, profile=LIBERO))


@pytest.mark.parametrize(
    "hello",
    [
        {"observation_params": [1]},
        {"observation_params": {"send_state": "yes"}},
        {"observation_params": {str(n): n for n in range(101)}},
        {"action_spec": [1]},
        {"action_spec": {"position": 3}},
        {"action_spec": {"position": {"dims": "3", "format": "delta_xyz"}}},
        {"action_spec": {"position": spec("delta_xyz", 3, range=[1])}},
        {"observation_spec": {"state": spec("raw", accepts="raw")}},
        {"observation_spec": {str(n): spec("raw") for n in range(101)}},
    ],
)
def test_nonsense_is_refused(hello: dict[str, object]) -> None:
    with pytest.raises(WireError, match="its "):
        terms(LIBERO, hello, Said())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(NAMES, ANYTHING, max_size=6), st.booleans())
def test_whatever_a_hello_has_is_understood_or_refused(
    hello: dict[str, object], arrays: bool
) -> None:
    if arrays:  # an array has no truth value
        hello = {**hello, "observation_params": {"absolute_action": np.zeros(2)}}
    with contextlib.suppress(WireError):
        found = terms(LIBERO, hello, Said())
        assert found.profile.images
        assert found.profile.action_dim == 7


@pytest.mark.parametrize("key", ["observation_params", "action_spec", "observation_spec"])
def test_an_array_for_a_map_is_refused(key: str) -> None:
    with pytest.raises(WireError, match=key):
        terms(LIBERO, {key: np.zeros(2)}, Said())


def test_a_slash_nests() -> None:
    payload = {"images/video.a": 1, "images/b": 2, "task": 3, "x/y/z": 4}
    found = nested(payload)
    assert found == {"images": {"video.a": 1, "b": 2}, "task": 3, "x": {"y": {"z": 4}}}
    assert list(found["images"]) == ["video.a", "b"]  # type: ignore[call-overload]


@pytest.mark.parametrize("payload", [{"a": 1, "a/b": 2}, {"a/b": 2, "a": 1}])
def test_a_key_is_a_map_or_a_value(payload: dict[str, object]) -> None:
    with pytest.raises(MappingError):
        nested(payload)


def test_what_was_nested_is_found_again() -> None:
    payload = {"images/agentview": "a", "images/wrist": "b", "states": "c", "task_description": "d"}
    assert flat(LIBERO, {**nested(payload), "more": "e"}) == payload
    assert flat(LIBERO, {"images": 3}) == {}
