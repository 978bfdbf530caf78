"""Whatever a REST server does wrong is the server's error, in time, with its words."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.openvla import read_actions
from pytest_vla_shift.policies.wires.protocol import WireError
from pytest_vla_shift.policies.wires.timed_http import Reply
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from tests.fakes.http_peers import (
    ACTION,
    Answer,
    Peer,
    after_trial,
    dribbling,
    endless,
    reply,
    saying,
    silent,
)
from tests.fakes.memory import memory_below

INFO = EpisodeInfo(Episode("libero_object", "pick_up_the_milk", 3), "pick up the milk", 280)
LIMIT_S = 0.3
LATE_S = 1.0


def policy_at(url: str, limit_s: float = 5.0, token: str | None = None) -> RemotePolicy:
    reached = PolicySettings(url=url, timeout_s=limit_s, token=token)
    policy = resolve("openvla", {"unnorm_key": "libero_object"}, settings=reached)
    assert isinstance(policy, RemotePolicy)
    return policy


def act(policy: RemotePolicy) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return policy.act(probe_observation(policy.profile))


def failure(answer: Answer, limit_s: float = 5.0) -> str:
    """What is said when the second answer is ``answer``; the first one was in order."""
    with Peer(after_trial(answer)) as peer:
        policy = policy_at(peer.url, limit_s)
        policy.reset(INFO, seed=1)
        with pytest.raises(PolicyServerError) as raised:
            act(policy)
        policy.close()
    assert peer.url in str(raised.value)
    assert raised.value.retry
    return str(raised.value)


def array(dtype: str, shape: list[int], data: bytes) -> bytes:
    encoded = base64.b64encode(data).decode()
    return json.dumps({"__numpy__": encoded, "dtype": dtype, "shape": shape}).encode()


DEEP = b"[" * 50_000

ANSWERS = {
    "the literal error": (reply(b'"error"'), '"error" with HTTP 200.*in its own log'),
    "words of a validation": (
        reply(b'{"detail":"Input should be a dictionary"}', b"422 Unprocessable Entity"),
        "HTTP 422 Unprocessable Entity: .*Input should be a dictionary",
    ),
    "an exception of the server": (
        reply(b"Internal Server Error", b"500 Internal Server Error"),
        "HTTP 500 Internal Server Error",
    ),
    "a proxy's page": (reply(b"<html>Bad gateway</html>", b"502 Bad Gateway"), "Bad gateway"),
    "no JSON": (reply(b"<html>hello</html>"), "not JSON.*hello"),
    "another text": (reply(b'"busy"'), "not JSON"),
    "nothing": (reply(b""), "not JSON"),
    "null": (reply(b"null"), "neither an action nor a list"),
    "a map": (reply(b'{"action": [1, 2]}'), "neither an action nor a list.*'action'"),
    "an empty list": (reply(b"[]"), "neither an action nor a list"),
    "a list of texts": (reply(b'["0.1"]'), "neither an action nor a list"),
    "booleans": (reply(b"[true, false]"), "neither an action nor a list"),
    "rows of different widths": (reply(b"[[1, 2], [1]]"), "neither an action nor a list"),
    "a list too deep by one": (reply(b"[[[1, 2]]]"), "neither an action nor a list"),
    "a number beyond all floats": (reply(b"[1" + b"0" * 400 + b"]"), "neither an action nor"),
    "a number beyond all integers": (reply(b"[1" + b"0" * 5000 + b"]"), "not JSON"),
    "another width": (reply(b"[1, 2, 3]"), "expected real numbers"),
    "NaN": (reply(b"[NaN, 0, 0, 0, 0, 0, 0]"), "NaN or an infinity"),
    "a nest of lists": (reply(DEEP), "not JSON"),
    "a million lists": (reply(b"[" + b"[]," * 1_000_000 + b"[]]"), "more than .* items"),
    "a million numbers": (reply(b"[" + b"0," * 1_000_000 + b"0]"), "more than .* items"),
    "an array that would be unpickled": (reply(array("|O", [1], b"gASV")), "dtype '|O'"),
    "an array of records": (reply(array("|V8", [1], b"12345678")), "dtype"),
    "an array larger than its bytes": (reply(array("<f8", [10**9, 10**9], b"1" * 8)), "8 bytes"),
    "an array of negative length": (reply(array("<f8", [-1, 7], b"1" * 56)), "its shape"),
    "an array whose bytes are none": (
        reply(b'{"__numpy__": "!!", "dtype": "<f8", "shape": [7]}'),
        "base64",
    ),
    "no HTTP": (b"\x93NUMPY\r\n\r\n", "no answer in HTTP"),
    "endless header lines": (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200, "no answer in HTTP"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_answer_is_the_servers_error(name: str) -> None:
    answer, words = ANSWERS[name]
    message = failure(saying(answer, then_close=True))
    assert re.search(words, message), message


@pytest.mark.parametrize("at", [0, 10, len(reply(ACTION)) - 1])
def test_half_an_answer_is_none(at: int) -> None:
    message = failure(saying(reply(ACTION)[:at], then_close=True))
    assert "broke off" in message or "no answer in HTTP" in message


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["__numpy__", "dtype", "shape", "error", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(ANYTHING.map(json.dumps).map(str.encode) | st.binary(max_size=60))
@example(json.dumps(json.dumps("\ud800[1]")).encode())
@example(b'"\\ud800"')
@settings(max_examples=100, deadline=None)
def test_whatever_is_answered_is_actions_or_an_error(body: bytes) -> None:
    with contextlib.suppress(WireError):
        found = read_actions(Reply(200, "OK", "", body), {})
        assert found.ndim == 2
        assert found.dtype == np.float64


def test_a_refused_connection_says_how_to_start_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UsageError, match=r"no server answers at .*refused.*vla-scripts/deploy.py"):
        policy_at(f"http://127.0.0.1:{port}")


def test_a_host_that_is_none_is_no_server() -> None:
    with pytest.raises(UsageError, match="no server answers"):
        policy_at(f"http://{'x' * 70}.invalid:1")


@pytest.mark.parametrize(
    "answer",
    [
        silent,
        dribbling(reply(ACTION), every_s=LIMIT_S / 3),
        dribbling(b"HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n" + b" " * 35, LIMIT_S / 3),
        dribbling(b"HTTP/1.1 100 Continue\r\n\r\n" * 50, LIMIT_S / 3),
    ],
    ids=["silence", "a byte now and then", "spaces now and then", "patience asked for"],
)
def test_a_time_limit_is_for_the_whole_exchange(answer: Answer) -> None:
    began = time.monotonic()
    message = failure(answer, LIMIT_S)
    # The answers that dribble would take twenty times the limit.
    assert LIMIT_S <= time.monotonic() - began < 12 * LIMIT_S
    assert f"no whole answer within {LIMIT_S:g} s" in message


def test_an_answer_that_does_not_stop_takes_no_memory() -> None:
    with memory_below(32 << 20):
        message = failure(endless)
    assert "more than" in message


def test_a_length_that_is_announced_takes_no_memory() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"
    with memory_below(32 << 20):
        message = failure(saying(head + ACTION, then_close=True))
    assert "broke off" in message


def test_an_answer_that_comes_late_is_never_executed() -> None:
    """The second answer is late; what the third call, a trial, and the fourth get is their own."""

    def say(connection: socket.socket, number: int) -> None:
        if number == 2:
            time.sleep(1.5 * LATE_S)
        action = [number / 10, 0, 0, 0, 0, 0, 1]
        connection.sendall(reply(json.dumps(action).encode()))

    with Peer(say) as peer:
        policy = policy_at(peer.url, LATE_S)
        policy.reset(INFO, seed=1)
        with pytest.raises(PolicyServerError, match="no whole answer"):
            act(policy)
        time.sleep(LATE_S)
        policy.reset(INFO, seed=1)
        assert act(policy)[0, 0] == pytest.approx(0.4)
        policy.close()


def test_after_an_error_nothing_is_asked_until_the_next_rollout() -> None:
    with Peer(after_trial(saying(reply(b'"error"')))) as peer:
        policy = policy_at(peer.url)
        policy.reset(INFO, seed=1)
        with pytest.raises(PolicyServerError, match="error"):
            act(policy)
        with pytest.raises(PolicyServerError, match="connection was lost"):
            act(policy)
        policy.close()


def test_a_server_that_hangs_up_after_each_answer_costs_nothing() -> None:
    with Peer(saying(reply(ACTION), then_close=True)) as peer:
        policy = policy_at(peer.url)
        policy.reset(INFO, seed=1)
        for _ in range(3):
            assert act(policy)[0, 6] == -1.0
        policy.close()


def test_a_trial_without_an_answer_is_refused_before_the_first_episode() -> None:
    with (
        Peer(saying(reply(b'"error"'))) as peer,
        pytest.raises(UsageError, match=r'cannot answer a trial .*"error"'),
    ):
        policy_at(peer.url)


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden", b"503 Busy"])
def test_a_server_that_lets_nobody_in_is_not_taken_for_a_stock_one(status: bytes) -> None:
    about = reply(b"who are you?", status)
    with (
        Peer(saying(reply(ACTION)), about) as peer,
        pytest.raises(UsageError, match=f"HTTP {status.decode()}: who are you"),
    ):
        policy_at(peer.url)


def test_the_token_is_sent_and_never_shown() -> None:
    said: list[bytes] = []

    def echo(connection: socket.socket, number: int) -> None:
        words = b"no such token: geheim-42"
        said.append(words)
        connection.sendall(reply(words, b"401 Unauthorized"))

    with Peer(after_trial(echo)) as peer:
        policy = policy_at(peer.url, token="geheim-42")
        policy.reset(INFO, seed=1)
        with pytest.raises(PolicyServerError, match=r"no such token: \*\*\*") as raised:
            act(policy)
        policy.close()
    assert said
    assert "geheim-42" not in str(raised.value)


def test_a_token_that_no_header_can_have_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError, match="characters") as refused:
        policy_at("http://127.0.0.1:1", token="geheim\r\nX-Evil: 1")
    assert "geheim" not in str(refused.value)


def test_a_page_of_ours_in_another_version_is_refused() -> None:
    about = reply(b'{"vla_shift": {"version": 99}}')
    with (
        Peer(saying(reply(ACTION)), about) as peer,
        pytest.raises(UsageError, match="another version"),
    ):
        policy_at(peer.url)
