"""Observations and actions there and back, for every profile that is shipped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.mapping import actions, observed, payload, reply
from pytest_vla_shift.policies.profile import (
    ActionMap,
    MappingError,
    Profile,
    Transform,
    narrowed,
    read_profile,
)
from pytest_vla_shift.policies.quantities import source_of
from tests.policies.shipped_profiles import NAMES, observation_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL = read_profile("gr00t-libero")
BLIND = [narrowed(read_profile(name), ()) for name in NAMES]


def noise(profile: Profile, steps: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Motion between -1 and 1; the gripper, and what else is thresholded, at -1 or +1."""
    generator = np.random.default_rng(seed)
    chunk = generator.uniform(-1.0, 1.0, (steps, profile.action_dim))
    for part in profile.actions:
        if part.transform != "identity":
            chunk[:, part.to] = np.sign(chunk[:, part.to])
    return chunk


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_is_what_the_profile_says_in_its_order(name: str) -> None:
    profile = read_profile(name)
    sent = payload(profile, observation_for(profile))
    keys = [image.key for image in profile.images] + [state.key for state in profile.states]
    assert list(sent) == [*keys, profile.instruction, *profile.constants]
    for image in profile.images:
        picture = cast("NDArray[np.generic]", sent[image.key])
        assert (picture.dtype.name, picture.ndim) == ("uint8", 3)
    for state in profile.states:
        vector = cast("NDArray[np.generic]", sent[state.key])
        assert (vector.dtype.name, vector.shape) == (state.dtype, (state.width,))


@pytest.mark.parametrize("name", NAMES)
def test_a_server_sees_what_a_client_has(name: str) -> None:
    profile = read_profile(name)
    had = observation_for(profile)
    images, proprio, sentence = observed(profile, payload(profile, had))
    assert sentence == had.instruction
    changed = {image.camera for image in profile.images if image.resize == "openvla"}
    for camera, picture in images.items():
        assert camera in changed or np.array_equal(picture, had.images[camera])
    wanted = {source_of(part.quantity) for state in profile.states for part in state.parts}
    assert set(proprio) <= wanted
    for quantity, vector in proprio.items():
        # float32 on the way, and antipodes are one rotation
        other = had.proprio[quantity]
        sign = np.sign(vector @ other) if "quat" in quantity else 1.0
        assert vector == pytest.approx(sign * other, abs=1e-6), quantity


@pytest.mark.parametrize("name", NAMES)
def test_a_client_gets_the_actions_that_a_server_means(name: str) -> None:
    profile = read_profile(name)
    chunk = noise(profile)
    answer = reply(profile, chunk)
    assert {key: array.shape[1] for key, array in answer.items()} == profile.action_widths
    assert actions(profile, answer) == pytest.approx(chunk, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_actions_without_thresholds_arrive_bit_for_bit(name: str) -> None:
    profile = read_profile(name)
    chunk = noise(profile)
    found = actions(profile, reply(profile, chunk))
    for part in profile.actions:
        if part.transform in ("identity", "sign"):
            assert found[:, part.to].tobytes() == chunk[:, part.to].tobytes()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 50))
def test_observations_and_actions_come_back_whatever_they_are(seed: int, steps: int) -> None:
    for profile in BLIND:
        chunk = noise(profile, steps, seed)
        assert actions(profile, reply(profile, chunk)) == pytest.approx(chunk, abs=1e-12)
        had = observation_for(profile, seed)
        _, proprio, _ = observed(profile, payload(profile, had))
        for quantity, vector in proprio.items():
            other = had.proprio[quantity]
            if "quat" in quantity:  # antipodes are one rotation
                assert abs(vector @ other) == pytest.approx(1.0, abs=1e-5)
            else:
                assert vector == pytest.approx(other, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_each_component_of_an_action_comes_from_one_place(name: str) -> None:
    """A marked number in one column of the wire's arrays moves one component, the one it is for."""
    profile = read_profile(name)
    middle = {key: np.zeros((1, width)) for key, width in profile.action_widths.items()}
    for part in profile.actions:
        middle[part.key][:, part.columns] = part.low
    still = actions(profile, middle)[0]
    moved = []
    for part in profile.actions:
        for column, component in zip(part.columns, part.to, strict=True):
            marked = {key: array.copy() for key, array in middle.items()}
            marked[part.key][0, column] = part.high
            (changed,) = np.flatnonzero(actions(profile, marked)[0] != still)
            assert changed == component
            moved.append(component)
    assert sorted(moved) == list(range(profile.action_dim))


def one(transform: str) -> Profile:
    low = 0.0 if transform in ("open01", "half") else -1.0
    part = ActionMap("a", (0,), (0,), cast("Transform", transform), low, 1.0)
    return replace(SMALL, action_dim=1, actions=(part,))


def through(transform: str, value: float) -> float:
    return float(actions(one(transform), {"a": np.array([[value]])})[0, 0])


@pytest.mark.parametrize(
    "transform, pairs",
    [
        ("identity", [(-1.5, -1.5), (0.25, 0.25)]),
        ("sign", [(-0.01, -1.0), (-0.0, 1.0), (0.0, 1.0), (0.7, 1.0)]),
        ("open01", [(1.0, -1.0), (0.51, -1.0), (0.5, 0.0), (0.49, 1.0), (0.0, 1.0), (-0.2, 1.0)]),
        ("half", [(0.49, -1.0), (0.5, 1.0), (1.0, 1.0), (0.0, -1.0)]),
    ],
)
def test_what_becomes_of_a_number(transform: str, pairs: list[tuple[float, float]]) -> None:
    assert [through(transform, value) for value, _ in pairs] == [wanted for _, wanted in pairs]


@given(value=st.floats(-1.0, 1.0), transform=st.sampled_from(["identity", "open01", "sign"]))
def test_a_gripper_goes_there_and_back_as_the_simulator_reads_it(
    value: float, transform: str
) -> None:
    """robosuite takes the sign of a gripper's number; half way is no motion, but for ``sign``."""
    profile = one(transform)
    found = actions(profile, reply(profile, np.array([[value]])))[0, 0]
    if transform == "sign" and value == 0.0:
        assert found == 1.0
    elif transform == "open01" and abs(value) < 1e-15:
        assert found in (0.0, np.sign(value))  # 1 - value is rounded
    else:
        assert np.sign(found) == np.sign(value)


@pytest.mark.parametrize("value", [-1.5, 3.0])
@pytest.mark.parametrize("transform", ["identity", "open01", "half"])
def test_what_a_simulator_would_clip_is_served_within_the_range(
    value: float, transform: str
) -> None:
    """A policy of ours may leave -1 to 1; that must not look like another convention."""
    profile = one(transform)
    found = actions(profile, reply(profile, np.array([[value]])))[0, 0]
    assert found == (value if transform == "identity" else np.sign(value))


BAD = {
    "missing": ({}, "the answer has no 'a', only nothing"),
    "other": ({"b": np.zeros((1, 1))}, "the answer has no 'a', only b"),
    "text": ({"a": np.array([["x"]])}, r"'a' is <U1\[1, 1\]; expected real numbers \[T, 1\]"),
    "complex": ({"a": np.zeros((1, 1), complex)}, r"'a' is complex128"),
    "flags": ({"a": np.zeros((1, 1), bool)}, r"'a' is bool"),
    "objects": ({"a": np.array([[None]])}, r"'a' is object"),
    "flat": ({"a": np.zeros(1)}, r"'a' is float64\[1\]"),
    "batched": ({"a": np.zeros((1, 1, 1))}, r"'a' is float64\[1, 1, 1\]"),
    "wide": ({"a": np.zeros((1, 2))}, r"'a' is float64\[1, 2\]"),
    "no steps": ({"a": np.zeros((0, 1))}, r"'a' is float64\[0, 1\]"),
    "nan": ({"a": np.array([[np.nan]])}, "'a' has a NaN or an infinity in it"),
    "infinite": ({"a": np.array([[0.0], [np.inf]])}, "'a' has a NaN or an infinity in it"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_answer_that_is_none_is_refused(case: str) -> None:
    answer, message = BAD[case]
    with pytest.raises(MappingError, match=message):
        actions(one("identity"), cast("dict[str, NDArray[np.generic]]", answer))


def test_arrays_of_different_lengths_are_refused() -> None:
    answer = reply(SMALL, np.zeros((4, 7)))
    answer["action.y"] = np.zeros((3, 1))
    with pytest.raises(MappingError, match=r"'action.y' has 3 steps, others have 4"):
        actions(SMALL, answer)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", ">f4"])
def test_every_real_type_is_read(dtype: str) -> None:
    answer = {"a": np.array([[1], [0]]).astype(dtype)}
    found = actions(one("identity"), answer)
    assert (found.dtype.name, found.tolist()) == ("float64", [[1.0], [0.0]])


def test_a_camera_that_is_not_there_is_named() -> None:
    had = observation_for(SMALL)
    with pytest.raises(MappingError, match=r"'video.image' needs camera 'agentview'"):
        payload(SMALL, replace(had, images={}))


SENT_WRONG = {
    "video.image": (np.zeros((2, 2, 3)), r"'video.image' is float64\[2, 2, 3\]; expected uint8"),
    "video.wrist_image": ("x", r"'video.wrist_image' is a str; expected uint8 \[H, W, 3\]"),
    "state.x": (np.zeros(2), r"'state.x' is float64\[2\]; expected \[1\]"),
    "state.gripper": (np.zeros(2, complex), r"'state.gripper' is complex128\[2\]"),
    SMALL.instruction: (np.zeros(1), r"task_description' is float64\[1\]; expected text"),
}


@pytest.mark.parametrize("key", SENT_WRONG)
@pytest.mark.parametrize("how", ["wrong", "missing"])
def test_a_server_refuses_what_the_profile_does_not_say(key: str, how: str) -> None:
    sent = payload(SMALL, observation_for(SMALL))
    value, message = SENT_WRONG[key]
    if how == "missing":
        del sent[key]
        message = f"'{key}' is missing"
    else:
        sent[key] = cast("str", value)
    with pytest.raises(MappingError, match=message):
        observed(SMALL, sent)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_was_given_is_written_to_or_handed_on(name: str) -> None:
    """Arrays of codecs are read only, and of one buffer: whatever goes on is another's own."""
    profile = read_profile(name)
    had = observation_for(profile)
    given_arrays: list[NDArray[np.generic]] = [*had.images.values(), *had.proprio.values()]
    for array in given_arrays:
        array.flags.writeable = False
    sent = payload(profile, had)
    arrays = [value for value in sent.values() if not isinstance(value, str)]
    for array in arrays:
        assert array.flags.c_contiguous
        assert not any(np.shares_memory(array, other) for other in given_arrays)
        array.flags.writeable = False
    images, proprio, _ = observed(profile, sent)
    owned: list[NDArray[np.generic]] = [*images.values(), *proprio.values()]
    for own in owned:
        assert own.flags.writeable
        assert not any(np.shares_memory(own, other) for other in arrays)
    answer = reply(profile, noise(profile))
    for array in answer.values():
        array.flags.writeable = False
    found = actions(profile, answer)
    assert found.flags.writeable
    assert not any(np.shares_memory(found, array) for array in answer.values())
