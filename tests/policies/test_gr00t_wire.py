"""A connection to a GR00T server, and everything that can go wrong on it."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest
import zmq

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.wires.gr00t import Api, Gr00tWire, Refused
from pytest_vla_shift.policies.wires.gr00t_channel import MOST_BYTES
from pytest_vla_shift.policies.wires.gr00t_codec import Modality, encode
from pytest_vla_shift.policies.wires.gr00t_layout import Layout
from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError
from tests.fakes.gr00t_peers import (
    PING,
    Frames,
    action_map,
    array,
    config,
    running,
    stock,
    talking,
)

PROFILE = find_profile("libero", "gr00t")
SENT = payload(PROFILE, probe_observation(PROFILE))
N15 = {"reset": {"error": "Unknown endpoint: reset"}}
SHORT_S = 0.2


def wire(
    port: int, *, token: str | None = None, api: Api | None = None, layout: Layout | None = None
) -> closing[Gr00tWire]:
    return closing(Gr00tWire("127.0.0.1", port, token=token, api=api, layout=layout))


@contextmanager
def greeted(behaviour: Callable[[str, object], object], **told: object) -> Iterator[Gr00tWire]:
    with running(behaviour) as stub, wire(stub.port, **told) as connection:  # type: ignore[arg-type]
        connection.greet(PROFILE, 5)
        stub.asked.clear()
        yield connection


# What is said, and understood.


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
        greeted(stock(PROFILE, get_action=refusal), layout="flat") as connection,
        pytest.raises(Refused),
    ):
        connection.ask(SENT, None, 5)
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


# What can go wrong. Each is the server's error, in its words; none is an action.


@pytest.mark.parametrize(
    "reply, words",
    [
        ({"error": "Unauthorized: Invalid API token"}, "Unauthorized: Invalid API token"),
        ({"error": ""}, "no reason given"),
        ({"error": None}, "None"),
        (b"ERROR", "old server"),
        (b"", "no msgpack"),
        (encode(action_map(PROFILE))[:-1], "no msgpack"),
        (b"\xc1", "no msgpack"),
        (encode(7), "a int instead of a map"),
        (encode([]), "a list of 0"),
        (encode([action_map(PROFILE)]), "a list of 1"),
        (encode([[], {}]), "a list instead of a map"),
        ([{}, {}], "has no 'action.x', only nothing"),
        ([{"action.x": 1.0}, {}], "'action.x' is a float"),
        ([{"action.x": np.zeros((5, 16, 1))}, {}], "expected"),
        (Frames([b"\x80", b"\x80"]), "2 frames"),
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_an_error_in_the_servers_words(reply: object, words: str) -> None:
    with (
        greeted(stock(PROFILE, get_action=lambda _: reply)) as connection,
        pytest.raises(WireError, match=words),
    ):
        connection.ask(SENT, None, 5)


def test_an_answer_larger_than_any_is_not_even_received() -> None:
    with greeted(stock(PROFILE, get_action=bytes(MOST_BYTES + 1))) as connection:
        begun = time.monotonic()
        with pytest.raises(WireError, match=r"more than 16 MiB"):
            connection.ask(SENT, None, 20)
        assert time.monotonic() - begun < 10


def test_nobody_there_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        begun = time.monotonic()
        with wire(port) as connection, pytest.raises(Unreachable, match="refused"):
            connection.greet(PROFILE, 60)
        assert time.monotonic() - begun < 10


def test_what_does_not_speak_zeromq_is_told_at_once() -> None:
    def http(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(64))
        peer.recv(1000)

    with talking(http) as port, wire(port) as connection:
        begun = time.monotonic()
        with pytest.raises(WireError, match="does not speak ZeroMQ"):
            connection.greet(PROFILE, 60)
        assert time.monotonic() - begun < 10


def test_no_answer_in_time_is_an_error() -> None:
    with greeted(stock(PROFILE, get_action=lambda _: None)) as connection:
        begun = time.monotonic()
        with pytest.raises(NoReply, match=r"get_action: no complete answer within 0.2 s"):
            connection.ask(SENT, None, SHORT_S)
        assert SHORT_S <= time.monotonic() - begun < SHORT_S + 1


def test_a_peer_that_dribbles_has_no_more_time_than_any() -> None:
    greeting = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00NULL" + bytes(16 + 1 + 31)

    def dribble(peer: socket.socket) -> None:
        for byte in itertools.islice(itertools.chain(greeting, itertools.cycle(b"\x00")), 400):
            peer.sendall(bytes([byte]))
            time.sleep(0.01)

    with talking(dribble) as port, wire(port) as connection:
        begun = time.monotonic()
        with pytest.raises(WireError):
            connection.greet(PROFILE, SHORT_S)
        assert time.monotonic() - begun < SHORT_S + 1


def test_the_limit_is_for_the_whole_greeting_not_for_each_question() -> None:
    def slow(answer: object) -> Callable[[object], object]:
        def behave(_: object) -> object:
            time.sleep(0.6 * SHORT_S)
            return answer

        return behave

    answers = {"ping": slow(PING), "get_modality_config": slow({}), "reset": slow({})}
    with running(stock(PROFILE, **answers)) as stub, wire(stub.port) as connection:
        begun = time.monotonic()
        with pytest.raises(NoReply):
            connection.greet(PROFILE, SHORT_S)
        assert time.monotonic() - begun < SHORT_S + 0.5


def test_an_answer_that_comes_late_is_read_by_nobody() -> None:
    late = [True]

    def act(_: object) -> object:
        if late:
            late.clear()
            time.sleep(2 * SHORT_S)
            return [action_map(PROFILE, value=0.75), {}]
        return [action_map(PROFILE, value=0.25), {}]

    with running(stock(PROFILE, get_action=act)) as stub:
        with wire(stub.port) as first:
            first.greet(PROFILE, 5)
            with pytest.raises(NoReply):
                first.ask(SENT, None, SHORT_S)
        with wire(stub.port) as second:
            second.greet(PROFILE, 5)
            answer = second.ask(SENT, None, 5)
        assert stub.endpoints.count("get_action") == 2
    assert all((value == 0.25).all() for value in answer.values())


def test_a_wire_that_failed_is_asked_no_more_once_it_is_closed() -> None:
    with greeted(stock(PROFILE)) as connection:
        connection.close()
        connection.close()
        with pytest.raises(WireError, match="no connection"):
            connection.ask(SENT, None, 5)


def test_an_answer_to_another_request_is_dropped() -> None:
    router: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def serve() -> None:
        sender, number, *_ = router.recv_multipart()
        wrong = (int.from_bytes(number, "little") ^ 1).to_bytes(4, "little")
        router.send_multipart([sender, wrong, b"", encode({"status": "other"})])
        router.send_multipart([sender, number, b"", encode({"status": "wrong state"})])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with wire(port) as connection, pytest.raises(WireError, match="wrong state"):
            connection.greet(PROFILE, 5)
    finally:
        thread.join()
        router.close(0)


def test_a_server_that_dies_while_it_is_asked_is_told_at_once_and_found_again() -> None:
    def die(_: object) -> object:
        stub._closing.set()
        return None

    with running(stock(PROFILE, get_action=die)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        begun = time.monotonic()
        with pytest.raises(WireError, match="connection was closed"):
            connection.ask(SENT, None, 60)
        assert time.monotonic() - begun < 10
        port = stub.port
    with running(stock(PROFILE), port), wire(port) as connection:
        connection.greet(PROFILE, 5)
        assert connection.ask(SENT, None, 5)


def test_a_server_that_was_restarted_between_two_requests_is_not_taken_for_the_same() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        stub.close()
        with running(stock(PROFILE), stub.port) as again:
            time.sleep(0.1)
            with pytest.raises(WireError, match="connection was closed"):
                connection.ask(SENT, None, 5)
            assert again.asked == []


def test_the_token_goes_with_every_request() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port, token="secret") as connection:
        connection.greet(PROFILE, 5)
        connection.begin(EPISODE, 1, 5)
        connection.ask(SENT, None, 5)
        assert stub.tokens == ["secret"] * 5


def test_a_ping_that_is_not_answered_as_one_is_refused() -> None:
    wrong: tuple[object, ...] = ({"status": "starting"}, [], "ok")
    for answer in wrong:
        with (
            running(stock(PROFILE, ping=encode(answer))) as stub,
            wire(stub.port) as connection,
            pytest.raises(WireError, match="answered a ping"),
        ):
            connection.greet(PROFILE, 5)


@pytest.mark.parametrize("key", ["video", "vla_shift"])
def test_a_configuration_that_is_nonsense_is_refused(key: str) -> None:
    nonsense = {**config(PROFILE), key: {"modality_keys": 5, "version": 99}}
    with (
        running(stock(PROFILE, get_modality_config=nonsense)) as stub,
        wire(stub.port) as connection,
        pytest.raises(WireError, match="get_modality_config"),
    ):
        connection.greet(PROFILE, 5)


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
