"""The vla-eval wire: what it says, and that whatever the server does is an error with its words."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from pytest_vla_shift.policies.probe import EPISODE
from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import FIRST, PolicySettings
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.vla_eval import VlaEvalWire
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyServerError, UsageError
from tests.policies.observations import INFO
from tests.policies.shipped_profiles import observation_for
from tests.policies.websocket_peers import (
    TEXT,
    close_frame,
    closed_port,
    frame,
    read_frame,
    serving,
    shake_hands,
)

LIBERO = read_profile("vla-eval-libero")
LOOK = observation_for(LIBERO)
HELLO: dict[str, object] = {
    "harness_version": "0.8.0",
    "protocol_version": 1,
    "model_server": "AnyModelServer",
    "capabilities": {},
    "observation_params": {"send_wrist_image": True, "send_state": True},
}
ACTION = np.array([0.1, -0.2, 0.3, 0.0, 0.0, 0.5, -0.7], np.float32)

Answers = Callable[[Message], Iterable[bytes]]
"""What a server sends after a message; bytes of frames."""

Script = Callable[[socket.socket], None]


def said(kind: str, payload: dict[str, object], seq: int) -> bytes:
    return frame(pack(Message(kind, payload, seq, time.time())))


def error(words: str, seq: int) -> bytes:
    return said("error", {"error": words}, seq)


def act(message: Message, actions: object = ACTION) -> Iterable[bytes]:
    """A server that is well."""
    if message.kind == "hello":
        yield said("hello", HELLO, message.seq)
    elif message.kind == "observation":
        yield said("action", {"actions": actions}, message.seq)


def talking(answers: Answers, heard: list[Message] | None = None) -> Script:
    """A connection on which ``answers`` decides."""

    def script(peer: socket.socket) -> None:
        shake_hands(peer)
        while True:
            try:
                message = read(read_frame(peer))
            except CodecError:  # the client's goodbye
                return
            if heard is not None:
                heard.append(message)
            for part in answers(message):
                peer.sendall(part)

    return script


def after_trial(answers: Answers) -> Answers:
    """Well up to the answer to the trial observation, and then ``answers``."""
    tried: list[Message] = []

    def both(message: Message) -> Iterable[bytes]:
        if len(tried) < 2 or message.kind == "hello":
            tried.extend([message] * (message.kind in ("episode_start", "observation")))
            return act(message)
        return answers(message)

    return both


def policy(
    url: str,
    args: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 5.0,
    token: str | None = None,
) -> RemotePolicy:
    settings = PolicySettings(url=url, timeout_s=timeout_s, token=token)
    return vla_eval(**(args or {}), settings=settings)


def test_a_rollout_says_what_the_harness_says() -> None:
    heard: list[Message] = []
    with serving(talking(act, heard)) as url:
        ours = policy(url)
        for _ in range(2):
            ours.reset(INFO, 3)
            np.testing.assert_array_equal(ours.act(LOOK), [[*ACTION[:6].astype(np.float64), -1.0]])
            ours.act(LOOK)
        ours.close()
    trial = ["hello", "episode_start", "observation"]
    rollout = ["episode_end", "episode_start", "observation", "observation"]
    assert [message.kind for message in heard] == trial + rollout + rollout
    assert [message.seq for message in heard] == list(range(1, 12))
    hello, start, observation, end = heard[0], heard[4], heard[5], heard[7]
    assert hello.payload["protocol_version"] == 1
    assert start.payload == {
        "task": {
            "name": "pick_up_the_ketchup_and_place_it_in_the_basket",
            "suite": "libero_object",
            "episode_idx": 7,
        }
    }
    assert list(observation.payload) == [
        "images",
        "states",
        "controller_states",
        "task_description",
    ]
    images: Any = observation.payload["images"]
    assert list(images) == ["agentview", "wrist"]
    np.testing.assert_array_equal(images["agentview"], LOOK.images["agentview"][:, ::-1])
    assert end.payload["metrics"] == {}  # what came of it is not known on this side
    assert end.payload["steps"] == 2
    assert abs(heard[5].timestamp - time.time()) < 60


def test_one_action_is_a_chunk_of_one_and_asked_for_at_every_step() -> None:
    with serving(talking(act)) as url:
        ours = policy(url)
        assert (ours.spec.chunk, ours.spec.replan) == (1, 1)
        ours.close()


@pytest.mark.parametrize(
    "actions", [np.tile(ACTION, (4, 1)), np.tile(ACTION, (4, 1)).astype(np.float64).tolist()]
)
def test_a_list_of_actions_is_a_chunk_that_is_executed_to_the_last(actions: object) -> None:
    with serving(talking(lambda m: act(m, actions))) as url:
        ours = policy(url)
        assert (ours.spec.chunk, ours.spec.replan) == (4, 4)
        ours.reset(INFO, 0)
        assert ours.act(LOOK).shape == (4, 7)
        ours.close()


def test_the_trial_is_announced_as_a_suite_that_servers_know() -> None:
    """DB-CogACT's server looks its chunk length up by the suite."""
    told = {"trial_suite": "mine"}
    for args, suite in ((None, "libero_spatial"), (told, "mine")):
        heard: list[Message] = []
        with serving(talking(act, heard)) as url:
            policy(url, args).close()
        start = next(m for m in heard if m.kind == "episode_start")
        task: Any = start.payload["task"]
        assert task["suite"] == suite
        assert task["name"] == EPISODE.episode.task


def test_no_seed_is_sent_and_the_spec_says_so() -> None:
    with serving(talking(act)) as url:
        ours = policy(url)
        assert not ours.spec.seedable
        assert not ours.spec.seeded
        ours.close()
        with pytest.raises(UsageError, match="cannot be given a seed"):
            policy(url, {"seeded": "true"})


def refused(answers: Answers, says: str) -> str:
    """The words of the usage error before the first episode."""
    with serving(talking(answers)) as url, pytest.raises(UsageError, match=says) as caught:
        policy(url)
    return str(caught.value)


def test_a_server_that_wants_what_is_not_there_is_refused_with_both_sides() -> None:
    def absolute(message: Message) -> Iterable[bytes]:
        hello = {**HELLO, "observation_params": {"absolute_action": True}}
        yield said("hello", hello, message.seq)

    text = refused(absolute, "do not agree")
    assert "poses in the world" in text
    assert "changes of the pose" in text


def test_a_hello_with_an_error_has_the_servers_words() -> None:
    refused(lambda m: [error("no room left", m.seq)], "no room left")


def test_another_version_of_the_protocol_is_refused() -> None:
    refused(lambda m: [said("hello", {**HELLO, "protocol_version": 2}, m.seq)], "version 2")


def test_an_openpi_server_is_told_from_its_first_frame() -> None:
    def openpi(peer: socket.socket) -> None:
        shake_hands(peer)
        peer.sendall(frame(b"\x80"))
        peer.recv(1 << 16)

    with serving(openpi) as url, pytest.raises(UsageError, match="--vla-policy=openpi"):
        policy(url)


def test_a_web_server_is_told_from_its_status() -> None:
    def web(peer: socket.socket) -> None:
        peer.recv(1 << 16)
        peer.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope")

    with serving(web) as url, pytest.raises(UsageError, match="HTTP 404 Not Found"):
        policy(url)


def test_nobody_there_says_how_to_start_one() -> None:
    with pytest.raises(UsageError, match="vla-eval serve") as caught:
        policy(f"ws://127.0.0.1:{closed_port()}")
    assert "GET /health" in str(caught.value)


def test_a_trial_that_cannot_begin_names_the_suite_it_was_announced_as() -> None:
    def picky(message: Message) -> Iterable[bytes]:
        if message.kind == "episode_start":
            yield error("episode_start_failed: ValueError: unknown suite", message.seq)
        else:
            yield from act(message)

    text = refused(picky, "unknown suite")
    assert "'libero_spatial'" in text
    assert "trial_suite=" in text


@pytest.mark.parametrize(
    "args",
    [
        {"gripper": "backwards"},
        {"send_state": "maybe"},
        {"chunk": "0"},
        {"profile": "gr00t-libero"},
        {"overrule": "nothing that is compared"},
    ],
)
def test_arguments_that_cannot_be_read_are_refused(args: dict[str, str]) -> None:
    with serving(talking(act)) as url, pytest.raises(UsageError):
        policy(url, args)


def test_other_urls_than_websockets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"write ws://127\.0\.0\.1:8000"):
        policy("tcp://127.0.0.1:8000")


Fault = Callable[[Message], Iterable[bytes]]


def only_observations(fault: Fault) -> Fault:
    return lambda message: fault(message) if message.kind == "observation" else ()


def start_fails_late(message: Message) -> Iterable[bytes]:
    """Word of an episode that could not begin comes first, and then the observation's answer."""
    if message.kind == "episode_start":
        yield error("episode_start_failed: RuntimeError: no memory", message.seq)
    elif message.kind == "observation":
        yield from act(message)


def half(message: Message) -> Iterable[bytes]:
    """Some of an answer, and then the server is gone."""
    yield next(iter(act(message)))[:-5]
    raise ConnectionAbortedError


FAULTS: dict[str, tuple[Fault, str]] = {
    "an error by number": (
        only_observations(lambda m: [error("observation_failed: ValueError: bad", m.seq)]),
        "observation_failed: ValueError: bad",
    ),
    "an error without words": (
        only_observations(lambda m: [said("error", {"code": 3}, m.seq)]),
        "'code': 3",
    ),
    "a start that failed": (start_fails_late, "episode_start_failed: RuntimeError: no memory"),
    "closed without words": (
        only_observations(lambda _: [close_frame(1000)]),
        "code 1000.*says why in its own log",
    ),
    "closed with a reason": (
        only_observations(lambda _: [close_frame(1011, "out of memory")]),
        "1011: out of memory",
    ),
    "half a frame": (only_observations(half), "broke the connection off without a goodbye"),
    "nonsense": (only_observations(lambda _: [frame(b"\xc1")]), "not a msgpack message"),
    "text": (only_observations(lambda _: [frame(b"Traceback", TEXT)]), "Traceback"),
    "an answer to another question": (
        only_observations(lambda m: [said("action", {"actions": ACTION}, m.seq - 1)]),
        r"to number \d+, where 'action' to number \d+ was waited for",
    ),
    "a hello": (only_observations(lambda m: [said("hello", HELLO, m.seq)]), "a message 'hello'"),
    "no actions": (
        only_observations(lambda m: [said("action", {"state": ACTION}, m.seq)]),
        "it has 'state'",
    ),
    "three axes": (only_observations(lambda m: act(m, ACTION[None, None])), r"\[1, 1, 7\]"),
    "a number": (only_observations(lambda m: act(m, 3.0)), "3.0"),
    "ragged": (only_observations(lambda m: act(m, [[1.0], [1.0, 2.0]])), "neither one action"),
    "empty": (only_observations(lambda m: act(m, ACTION[:0])), r"float32\[0\]"),
    "too narrow": (only_observations(lambda m: act(m, ACTION[:6])), r"float32\[1, 6\]"),
    "not a number": (only_observations(lambda m: act(m, ACTION * np.nan)), "NaN"),
    "truth values": (only_observations(lambda m: act(m, ACTION > 0)), r"bool\[1, 7\]"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_goes_wrong_is_the_servers_error_and_the_next_rollout_is_well(name: str) -> None:
    fault, says = FAULTS[name]
    with serving(talking(after_trial(fault)), talking(act)) as url:
        ours = policy(url)
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match=says) as caught:
            ours.act(LOOK)
        assert isinstance(caught.value, InfrastructureError)
        assert caught.value.retry
        # The second attempt has another connection, whose answers are its own.
        ours.reset(INFO, 0)
        assert ours.act(LOOK).shape == (1, 7)
        ours.close()


def test_a_late_answer_is_never_executed() -> None:
    late = np.full(7, 0.9, np.float32)

    def slow(message: Message) -> Iterable[bytes]:
        if message.kind == "observation":
            time.sleep(0.6)
            yield from act(message, late)

    with serving(talking(after_trial(slow)), talking(act)) as url:
        ours = policy(url, timeout_s=0.3)
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match="nothing complete came"):
            ours.act(LOOK)
        time.sleep(0.4)
        ours.reset(INFO, 0)
        np.testing.assert_array_equal(ours.act(LOOK)[0, :6], ACTION[:6].astype(np.float64))
        ours.close()


def test_the_time_limit_holds_against_a_server_that_dribbles() -> None:
    def dribble(message: Message) -> Iterable[bytes]:
        if message.kind == "observation":
            for byte in next(iter(act(message))):
                time.sleep(0.05)
                yield bytes([byte])

    with serving(talking(after_trial(dribble))) as url:
        ours = policy(url, timeout_s=0.3)
        ours.reset(INFO, 0)
        began = time.monotonic()
        with pytest.raises(PolicyServerError, match="nothing complete came"):
            ours.act(LOOK)
        assert time.monotonic() - began < 1.5
        ours.close()


def test_the_first_answer_may_take_longer() -> None:
    def compiling(message: Message) -> Iterable[bytes]:
        if message.kind == "observation" and message.seq == 3:
            time.sleep(0.5)
        return act(message)

    assert FIRST > 5
    with serving(talking(compiling)) as url:
        ours = policy(url, timeout_s=0.1)
        ours.reset(INFO, 0)
        ours.act(LOOK)
        ours.close()


def test_a_server_that_became_another_one_is_not_asked() -> None:
    def other(message: Message) -> Iterable[bytes]:
        if message.kind == "hello":
            return [said("hello", {**HELLO, "model_server": "Other"}, message.seq)]
        return act(message)

    broken = after_trial(only_observations(lambda _: [close_frame(1001)]))
    with serving(talking(broken), talking(other)) as url:
        ours = policy(url)
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError):
            ours.act(LOOK)
        with pytest.raises(PolicyServerError, match="another server"):
            ours.reset(INFO, 0)
        ours.close()


def test_the_token_goes_into_the_handshake_and_into_no_message() -> None:
    secret = "s3cr3t-t0ken"
    requests: list[bytes] = []

    def nosy(peer: socket.socket) -> None:
        requests.append(shake_hands(peer))
        message = read(read_frame(peer))
        peer.sendall(error(f"{secret} is not welcome", message.seq))

    with serving(nosy) as url, pytest.raises(UsageError, match="is not welcome") as caught:
        policy(url, token=secret)
    assert f"Authorization: Bearer {secret}".encode() in requests[0]
    assert secret not in str(caught.value)


def test_a_connection_that_was_closed_says_so() -> None:
    wire = VlaEvalWire("ws://127.0.0.1:1")
    wire.close()
    wire.close()
    with pytest.raises(Exception, match="there is no connection"):
        wire.begin(INFO, 0, 1.0)
