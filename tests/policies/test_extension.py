"""What our own servers and clients tell each other beyond a wire's format."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from pytest_vla_shift.policies.extension import (
    ExtensionError,
    Served,
    announce,
    announced,
    begin_of,
    begun,
    completed,
    shown,
)
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Goal,
    Observation,
    PrivilegedState,
)

SPEC = PolicySpec("expert", "3", ("front",), privileged=True, chunk=8, replan=2, seeded=True)
INFO = EpisodeInfo(
    Episode("libero_object", "pick_up_the_milk", 7),
    "pick up the milk",
    280,
    Goal((("in", "milk_1", "basket_1_contain_region"), ("open", "drawer"))),
)
TRUTH = PrivilegedState(
    {"milk_1": np.array([0.1, 0.2, 1e-17])}, {"milk_1": np.array([0.0, 0.0, 0.6, 0.8])}, {"j": 0.1}
)
SEEN = Observation(
    {"front": np.zeros((2, 2, 3), np.uint8)},
    {"eef_pos": np.array([1.0, 2.0, 3.0])},
    "go",
    12,
    TRUTH,
)


def test_what_a_server_announces_is_read() -> None:
    assert announced(announce(SPEC, sessions=False)) == Served(
        "expert 3",
        ("front",),
        8,
        2,
        privileged=True,
        seeded=True,
        language=True,
        sessions=False,
    )


def test_a_stock_server_announces_nothing() -> None:
    assert announced(None) is None


@pytest.mark.parametrize(
    "value, message",
    [
        ({}, "another version"),
        ({**announce(SPEC, sessions=True), "version": 2}, "another version"),
        ("hello", "another version"),
        ({**announce(SPEC, sessions=True), "chunk": "8"}, "'chunk' must be int, not str"),
        ({**announce(SPEC, sessions=True), "chunk": True}, "'chunk' must be int, not bool"),
        ({**announce(SPEC, sessions=True), "cameras": "front"}, "'cameras' must be list"),
        ({**announce(SPEC, sessions=True), "cameras": [1]}, "'cameras' must be list of text"),
        ({**announce(SPEC, sessions=True), "replan": 9}, "replan 9 does not fit 8"),
        ({**announce(SPEC, sessions=True), "replan": 0}, "replan 0 does not fit 8"),
        ({"version": 1}, "'cameras' must be list, not NoneType"),
    ],
)
def test_what_is_no_announcement_is_refused(value: object, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        announced(value)


def test_a_nonsensical_announcement_is_not_quoted_without_end() -> None:
    with pytest.raises(ExtensionError) as refused:
        announced({"version": "x" * 10**6})
    assert len(str(refused.value)) < 300


def test_an_episode_and_its_seed_arrive() -> None:
    assert begin_of(begun(INFO, 2**31 - 5)) == (INFO, 2**31 - 5)


def changed(key: str, value: object) -> dict[str, object]:
    return {**begun(INFO, 1), key: value}


@pytest.mark.parametrize(
    "value, message",
    [
        (None, "expected a map, not NoneType"),
        (changed("episode", ["a", "b"]), "not an episode"),
        (changed("episode", ["a", "b", "7"]), "not an episode"),
        (changed("episode", ["a", "b", True]), "not an episode"),
        (changed("goal", [["on", 1]]), "not an episode"),
        (changed("goal", ["on"]), "not an episode"),
        (changed("seed", 1.5), "'seed' must be int, not float"),
        (changed("horizon", None), "'horizon' must be int"),
        (changed("instruction", b"x"), "'instruction' must be str, not bytes"),
    ],
)
def test_what_is_no_episode_is_refused(value: object, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        begin_of(value)


def test_an_observation_is_completed_bit_for_bit_by_what_is_sent_beside_it() -> None:
    bare = Observation(SEEN.images, {"eef_pos": np.array([1.0, 2.0, 3.1])}, "go", 0)
    found = completed(bare, shown(SEEN))
    assert (found.step, found.instruction) == (12, "go")
    assert found.images is bare.images
    assert found.proprio["eef_pos"].tobytes() == SEEN.proprio["eef_pos"].tobytes()
    assert found.privileged is not None
    assert found.privileged.joints == TRUTH.joints
    for name in ("positions", "quaternions"):
        ours, theirs = getattr(TRUTH, name), getattr(found.privileged, name)
        assert ours.keys() == theirs.keys()
        assert all(ours[key].tobytes() == theirs[key].tobytes() for key in ours)


def test_what_arrives_is_in_memory_of_its_own() -> None:
    sent = shown(SEEN)
    vector = cast("dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]", sent["proprio"])[
        "eef_pos"
    ]
    vector.flags.writeable = False
    found = completed(replace(SEEN, privileged=None), sent).proprio["eef_pos"]
    assert found.flags.writeable
    assert not np.shares_memory(found, vector)


def test_a_policy_that_asked_for_no_truth_is_sent_none() -> None:
    sent = shown(replace(SEEN, privileged=None))
    assert "privileged" not in sent
    assert completed(replace(SEEN, privileged=None), sent).privileged is None


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("step", "12", "'step' must be int, not str"),
        ("proprio", [1.0], "expected a map, not list"),
        ("proprio", {"eef_pos": [1.0]}, "'eef_pos' must be a vector"),
        ("proprio", {"eef_pos": np.zeros((1, 3))}, "'eef_pos' must be a vector"),
        ("proprio", {"eef_pos": np.zeros(3, complex)}, "'eef_pos' must be a vector"),
        ("privileged", {}, "expected a map, not NoneType"),
        (
            "privileged",
            {"positions": {}, "quaternions": {}, "joints": {"j": "x"}},
            "'j' must be a number",
        ),
        (
            "privileged",
            {"positions": {}, "quaternions": {}, "joints": {"j": True}},
            "'j' must be a number",
        ),
    ],
)
def test_what_completes_nothing_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        completed(SEEN, {**shown(SEEN), key: value})
