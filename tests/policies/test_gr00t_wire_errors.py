"""What can go wrong on a connection to a GR00T server: each is the server's error, no action."""

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
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.wires.gr00t import Gr00tWire
from pytest_vla_shift.policies.wires.gr00t_channel import MOST_BYTES
from pytest_vla_shift.policies.wires.gr00t_codec import encode
from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError
from tests.fakes.gr00t_peers import (
    PING,
    Framed,
    Frames,
    action_map,
    config,
    running,
    stock,
    talking,
)

PROFILE = find_profile("libero", "gr00t")
SENT = payload(PROFILE, probe_observation(PROFILE))
SHORT_S = 0.2


def wire(port: int, host: str = "127.0.0.1") -> closing[Gr00tWire]:
    return closing(Gr00tWire(host, port))


@contextmanager
def ends_within(limit_s: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < limit_s


@contextmanager
def greeted(behaviour: Callable[[str, object], object]) -> Iterator[Gr00tWire]:
    with running(behaviour) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        yield connection


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
        ([{"action.x": None}, {}], "^[^,]*'action.x' is nil, not an array"),
        ([{"x": None}, {}], "'action.x' is nil, not an array"),
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
    with (
        greeted(stock(PROFILE, get_action=bytes(MOST_BYTES + 1))) as connection,
        ends_within(10),
        pytest.raises(WireError, match=r"more than 16 MiB"),
    ):
        connection.ask(SENT, None, 20)


def test_nobody_there_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with wire(port) as connection, ends_within(10), pytest.raises(Unreachable, match="refused"):
            connection.greet(PROFILE, 60)


def test_what_does_not_speak_zeromq_is_told_at_once() -> None:
    def http(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(64))
        peer.recv(1000)

    with (
        talking(http) as port,
        wire(port) as connection,
        ends_within(10),
        pytest.raises(WireError, match="does not speak ZeroMQ"),
    ):
        connection.greet(PROFILE, 60)


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

    with (
        talking(dribble) as port,
        wire(port) as connection,
        ends_within(SHORT_S + 1),
        pytest.raises(WireError),
    ):
        connection.greet(PROFILE, SHORT_S)


def test_the_limit_is_for_the_whole_greeting_not_for_each_question() -> None:
    def slow(answer: object) -> Callable[[object], object]:
        def behave(_: object) -> object:
            time.sleep(0.6 * SHORT_S)
            return answer

        return behave

    answers = {"ping": slow(PING), "get_modality_config": slow({}), "reset": slow({})}
    with (
        running(stock(PROFILE, **answers)) as stub,
        wire(stub.port) as connection,
        ends_within(SHORT_S + 0.5),
        pytest.raises(NoReply),
    ):
        connection.greet(PROFILE, SHORT_S)


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
        with ends_within(10), pytest.raises(WireError, match="connection was closed"):
            connection.ask(SENT, None, 60)
        port = stub.port
    with running(stock(PROFILE), port), wire(port) as connection:
        connection.greet(PROFILE, 5)
        assert connection.ask(SENT, None, 5)


def test_a_server_that_was_restarted_between_two_requests_is_not_taken_for_the_same() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port) as connection:
        connection.greet(PROFILE, 5)
        stub.close()
        with running(stock(PROFILE), stub.port) as again:
            time.sleep(0.3)  # ZeroMQ by itself would connect again after 0.1 s
            with pytest.raises(WireError, match="connection was closed"):
                connection.ask(SENT, None, 5)
            time.sleep(0.1)
            assert again.asked == []


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


@pytest.mark.parametrize(
    "part",
    [
        b"",  # of the answer's envelope alone
        b"\x00",
        b"\x00\x40" + b"\x82" * 10,
        b"\x02" + (1000).to_bytes(8, "big") + b"\x82" * 999,
    ],
    ids=["nothing", "no length", "short", "long"],
)
def test_half_a_frame_is_no_answer_whether_the_server_stays_or_goes(part: bytes) -> None:
    stays = threading.Event()

    def half(peer: socket.socket) -> None:
        framed = Framed(peer)
        framed.send(framed.request() + part)
        if stays.is_set():
            peer.recv(1)

    with talking(half) as port:
        with wire(port) as connection, pytest.raises(WireError, match="connection was closed"):
            connection.greet(PROFILE, 20)
        stays.set()
        with wire(port) as connection, pytest.raises(NoReply, match=r"ping: .* within 0.2 s"):
            connection.greet(PROFILE, SHORT_S)


def test_a_frame_that_claims_to_be_endless_takes_no_memory() -> None:
    def claim(peer: socket.socket) -> None:
        framed = Framed(peer)
        framed.send(framed.request() + b"\x02" + (1 << 40).to_bytes(8, "big"))
        peer.recv(1)

    with (
        talking(claim) as port,
        wire(port) as connection,
        ends_within(10),
        pytest.raises(WireError, match="16 MiB"),
    ):
        connection.greet(PROFILE, 20)


def test_an_answer_in_drops_has_no_more_time_than_any() -> None:
    answer = encode(PING)

    def drip(peer: socket.socket) -> None:
        framed = Framed(peer)
        framed.send(framed.request() + b"\x00" + bytes([len(answer)]))
        for byte in answer:
            framed.send(bytes([byte]))
            time.sleep(0.02)

    assert len(answer) * 0.02 > 2 * SHORT_S
    with (
        talking(drip) as port,
        wire(port) as connection,
        ends_within(SHORT_S + 0.5),
        pytest.raises(NoReply),
    ):
        connection.greet(PROFILE, SHORT_S)


def test_a_name_is_followed_to_the_address_that_answers() -> None:
    with running(stock(PROFILE)) as stub, wire(stub.port, "localhost") as connection:
        connection.greet(PROFILE, 5)  # localhost may be ::1 first, where nobody listens
