"""A connection to a GR00T server: what is said, and understood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.wires.gr00t import Api, Gr00tWire, Refused
from pytest_vla_shift.policies.wires.gr00t_codec import Arrays, Modality, encode
from pytest_vla_shift.policies.wires.gr00t_layout import Layout
from pytest_vla_shift.policies.wires.protocol import WireError
from tests.fakes.gr00t_peers import (
    action_map,
    array,
    config,
    running,
    stock,
)

PROFILE = find_profile("libero", "gr00t")
SENT = payload(PROFILE, probe_observation(PROFILE))
N15 = {"reset": {"error": "Unknown endpoint: reset"}}
SHORT_S = 0.2


def wire(
    port: int,
    *,
    token: str | None = None,
    api: Api | None = None,
    layout: Layout | None = None,
    arrays: Arrays | None = None,
) -> closing[Gr00tWire]:
    made = Gr00tWire("127.0.0.1", port, token=token, api=api, layout=layout, arrays=arrays)
    return closing(made)


@contextmanager
def greeted(behaviour: Callable[[str, object], object], **told: object) -> Iterator[Gr00tWire]:
    with running(behaviour) as stub, wire(stub.port, **told) as connection:  # type: ignore[arg-type]
        connection.greet(PROFILE, 5)
        stub.asked.clear()
        yield connection


def test_a_stock_server_is_greeted_without_anything_that_it_does_not_know() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port) as connection:
        said = connection.greet(PROFILE, 5)
        assert stub.asked == [
            ("ping", None),
            ("get_modality_config", None),
            ("reset", {"options": None}),
        ]
        assert stub.tokens == [None, None, None]
    assert said.server == "GR00T N1.6 or later"
    assert said.profile == PROFILE
    assert said.chunk == 16
    assert said.seedable
    assert said.served is None
    assert said.rows
    assert all(row.fits for row in said.rows)


def test_a_server_without_reset_is_n15_and_is_never_reset() -> None:
    answers = {**N15, "get_action": {k: np.zeros((16, 1)) for k in PROFILE.action_widths}}
    with running(stock(PROFILE, **answers)) as stub, wire(stub.port) as connection:
        said = connection.greet(PROFILE, 5)
        stub.asked.clear()
        connection.begin(EPISODE, 5, 5)
        connection.ask(SENT, None, 5)
        assert stub.endpoints == ["get_action"]
    assert said.server == "GR00T N1.5"
    assert not said.seedable


def test_a_version_that_is_told_is_not_asked_for() -> None:
    for api in ("n1.5", "n1.6"):
        with running(stock(PROFILE)) as stub, wire(stub.port, api=api) as connection:
            connection.greet(PROFILE, 5)
            assert stub.endpoints == ["ping", "get_modality_config"]


def test_a_server_that_says_nothing_of_itself_is_taken_as_the_profile_has_it() -> None:
    for answer in ({}, None, {"error": "'Policy' object has no attribute 'modality_configs'"}):
        behaviour = stock(PROFILE, get_modality_config=encode(answer))
        with running(behaviour) as stub, wire(stub.port) as connection:
            said = connection.greet(PROFILE, 5)
        assert (said.profile, said.rows, said.chunk) == (PROFILE, (), None)


def test_a_reset_that_fails_for_another_reason_is_an_error_not_a_version() -> None:
    with (
        running(stock(PROFILE, reset={"error": "CUDA error: out of memory"})) as stub,
        wire(stub.port) as connection,
        pytest.raises(WireError, match=r"refused reset: CUDA error: out of memory"),
    ):
        connection.greet(PROFILE, 5)


def test_the_seed_goes_with_the_reset() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        connection.begin(EPISODE, 2**63 + 7, 5)
        assert stub.asked[-1] == ("reset", {"options": {"seed": 2**63 + 7}})


def test_a_flat_observation_is_what_the_simulation_wrapper_takes() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        connection.ask(SENT, None, 5)
        endpoint, data = stub.asked[-1]
    assert endpoint == "get_action"
    assert isinstance(data, dict)
    assert set(data) == {"observation", "options"}
    assert data["options"] is None
    observation = data["observation"]
    assert list(observation) == list(SENT)
    for key in ("video.image", "video.wrist_image"):
        assert array(observation, key).shape == (1, 1, 256, 256, 3)
        assert array(observation, key).dtype == np.uint8
        np.testing.assert_array_equal(array(observation, key)[0, 0], SENT[key])
    widths = {"x": 1, "y": 1, "z": 1, "roll": 1, "pitch": 1, "yaw": 1, "gripper": 2}
    for key, width in widths.items():
        assert array(observation, f"state.{key}").shape == (1, 1, width)
        assert array(observation, f"state.{key}").dtype == np.float32
    assert observation[PROFILE.instruction] == [SENT[PROFILE.instruction]]


@pytest.mark.parametrize("words", ["Observation must contain a 'video' key", "'video'"])
def test_a_server_without_the_wrapper_is_asked_again_in_its_own_layout(words: str) -> None:
    def act(data: object) -> object:
        assert isinstance(data, dict)
        if "video" not in data["observation"]:
            return {"error": words}
        bare = {key.removeprefix("action."): a for key, a in action_map(PROFILE).items()}
        return [bare, {}]

    with running(stock(PROFILE, get_action=act)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        answer = connection.ask(SENT, None, 5)
        connection.ask(SENT, None, 5)
        assert stub.endpoints[3:] == ["get_action"] * 3  # tried once, and then known
        data = stub.asked[-1][1]
    assert {key: value.shape for key, value in answer.items()} == dict.fromkeys(
        PROFILE.action_widths, (16, 1)
    )
    assert isinstance(data, dict)
    observation = data["observation"]
    assert set(observation) == {"video", "state", "language"}
    assert list(observation["video"]) == ["image", "wrist_image"]
    assert array(observation, "video", "image").shape == (1, 1, 256, 256, 3)
    assert array(observation, "state", "gripper").shape == (1, 1, 2)
    assert observation["language"] == {PROFILE.instruction: [[SENT[PROFILE.instruction]]]}


def test_another_complaint_is_no_layout() -> None:
    words = "Video key 'video.front' must be in observation"
    with (
        running(stock(PROFILE, get_action={"error": words})) as stub,
        wire(stub.port) as connection,
    ):
        connection.greet(PROFILE, 5)
        with pytest.raises(Refused, match=words):
            connection.ask(SENT, None, 5)
        assert stub.endpoints.count("get_action") == 1


def test_a_layout_that_is_told_is_not_changed() -> None:
    refusal = {"error": "Observation must contain a 'video' key"}
    with (
        running(stock(PROFILE, get_action=refusal)) as stub,
        wire(stub.port, layout="flat") as connection,
    ):
        connection.greet(PROFILE, 5)
        with pytest.raises(Refused):
            connection.ask(SENT, None, 5)
        assert stub.endpoints.count("get_action") == 1
    with (
        running(stock(PROFILE)) as stub,
        wire(stub.port, layout="nested") as connection,
    ):
        connection.greet(PROFILE, 5)
        connection.ask(SENT, None, 5)
        data = stub.asked[-1][1]
    assert isinstance(data, dict)
    assert set(data["observation"]) == {"video", "state", "language"}


def test_n15_is_sent_the_observation_itself_without_a_batch() -> None:
    answers = {**N15, "get_action": {k: np.zeros(16) for k in PROFILE.action_widths}}
    with running(stock(PROFILE, **answers)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        answer = connection.ask(SENT, None, 5)
        data = stub.asked[-1][1]
    assert {key: value.shape for key, value in answer.items()} == dict.fromkeys(
        PROFILE.action_widths, (16, 1)
    )
    assert isinstance(data, dict)
    assert list(data) == list(SENT)
    assert array(data, "video.image").shape == (1, 256, 256, 3)
    assert array(data, "state.gripper").shape == (1, 2)
    assert data[PROFILE.instruction] == [SENT[PROFILE.instruction]]


WIDE = find_profile("robocasa", "gr00t")


@pytest.mark.parametrize(
    "shape, width, expected",
    [
        ((1, 16, 1), 1, (16, 1)),
        ((1, 16, 3), 3, (16, 3)),
        ((16, 3), 3, (16, 3)),
        ((16,), 1, (16, 1)),
        ((3,), 3, (1, 3)),
        ((), 1, (1, 1)),
        ((1, 1, 1), 1, (1, 1)),
        ((2, 16, 1), 1, None),
        ((1, 1, 16, 1), 1, None),
        ((16,), 3, None),
        ((), 3, None),
    ],
)
def test_actions_of_every_form_are_read_with_their_width(
    shape: tuple[int, ...], width: int, expected: tuple[int, int] | None
) -> None:
    from pytest_vla_shift.policies.wires.gr00t_layout import actions

    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    answer = {"gripper": values}
    if expected is None:
        with pytest.raises(WireError, match="expected"):
            actions(answer, {"action.gripper": width})
        return
    read = actions([answer, {}], {"action.gripper": width})["action.gripper"]
    np.testing.assert_array_equal(read, values.reshape(expected), strict=True)


def test_the_token_goes_with_every_request() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port, token="secret") as connection:
        connection.greet(PROFILE, 5)
        connection.begin(EPISODE, 1, 5)
        connection.ask(SENT, None, 5)
        assert stub.tokens == ["secret"] * 5


def test_the_server_is_never_told_to_end() -> None:
    with running(stock(PROFILE)) as stub:
        with wire(stub.port) as connection:
            connection.greet(PROFILE, 5)
            connection.begin(EPISODE, 1, 5)
            connection.ask(SENT, None, 5)
        assert "kill" not in stub.endpoints


def test_actions_in_the_servers_own_names_without_a_configuration_are_found() -> None:
    bare = {key.removeprefix("action."): a for key, a in action_map(PROFILE).items()}
    behaviour = stock(PROFILE, get_modality_config={}, get_action=[bare, {}])
    with greeted(behaviour) as connection:
        assert list(connection.ask(SENT, None, 5)) == list(PROFILE.action_widths)


def test_a_modality_that_is_told_in_n15s_words_is_the_same() -> None:
    prefixed = {
        "video": Modality(tuple(i.key for i in PROFILE.images), (0,)),
        "action": Modality(tuple(PROFILE.action_widths), tuple(range(16))),
    }
    with running(stock(PROFILE, get_modality_config=prefixed)) as stub, wire(stub.port) as one:
        said = one.greet(PROFILE, 5)
    assert said.profile == PROFILE
    assert all(row.fits for row in said.rows)


def test_a_server_is_sent_arrays_as_it_writes_its_own() -> None:
    said = config(PROFILE)
    earlier, later = encode(said, "npy"), encode(said, "msgpack-numpy")
    told: dict[Arrays | None, dict[bytes, Arrays]] = {
        None: {earlier: "npy", later: "msgpack-numpy", encode({}): "npy"},
        "npy": {later: "npy"},
        "msgpack-numpy": {earlier: "msgpack-numpy"},
    }
    for arrays, cases in told.items():
        for answer, expected in cases.items():
            with (
                running(stock(PROFILE, get_modality_config=answer)) as stub,
                wire(stub.port, arrays=arrays) as connection,
            ):
                connection.greet(PROFILE, 5)
                connection.ask(SENT, None, 5)
                assert stub.arrays == {expected}
