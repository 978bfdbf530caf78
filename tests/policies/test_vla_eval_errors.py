"""Whatever a vla-eval server does wrong is an error with its words; the next rollout is well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from pytest_vla_shift.policies.settings import FIRST
from pytest_vla_shift.policies.wires.vla_eval_codec import Message
from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyServerError
from tests.policies.observations import INFO
from tests.policies.vla_eval_talks import (
    ACTION,
    HELLO,
    LOOK,
    act,
    after_trial,
    error,
    policy,
    said,
    talking,
)
from tests.policies.websocket_peers import TEXT, close_frame, frame, serving

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
            time.sleep(1.2)
            yield from act(message, late)

    with serving(talking(after_trial(slow)), talking(act)) as url:
        ours = policy(url, timeout_s=0.8)
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match="nothing complete came"):
            ours.act(LOOK)
        time.sleep(0.6)
        ours.reset(INFO, 0)
        np.testing.assert_array_equal(ours.act(LOOK)[0, :6], ACTION[:6].astype(np.float64))
        ours.close()


def test_the_time_limit_holds_against_a_server_that_dribbles() -> None:
    def dribble(message: Message) -> Iterable[bytes]:
        if message.kind == "observation":
            for byte in next(iter(act(message))):
                time.sleep(0.1)
                yield bytes([byte])

    with serving(talking(after_trial(dribble))) as url:
        ours = policy(url, timeout_s=0.6)
        ours.reset(INFO, 0)
        began = time.monotonic()
        with pytest.raises(PolicyServerError, match="nothing complete came"):
            ours.act(LOOK)
        assert time.monotonic() - began < 2.5
        ours.close()


def test_the_first_answer_may_take_longer() -> None:
    def compiling(message: Message) -> Iterable[bytes]:
        if message.kind == "observation" and message.seq == 3:
            time.sleep(1.3)
        return act(message)

    assert FIRST >= 2
    with serving(talking(compiling)) as url:
        ours = policy(url, timeout_s=1.0)
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
