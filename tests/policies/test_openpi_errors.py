"""What an openpi server can do wrong: each is the server's error, with its words, and no action."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.openpi_codec import pack
from pytest_vla_shift.protocol.errors import PolicyServerError
from tests.policies.openpi_peers import (
    INFO,
    Answer,
    Infer,
    asking,
    constant,
    double,
    libero_observation,
    zeros,
)
from tests.policies.websocket_peers import closed_port, frame, read_frame, serving, shake_hands

SHORT_S = 0.3
TRACEBACK = """Traceback (most recent call last):
  File "/srv/openpi/policy.py", line 71, in infer
    raise ValueError("norm stats not found")
ValueError: norm stats not found
"""


def after_trial(answer: Callable[[], Answer]) -> Infer:
    """Answers the trial plainly, the first question by ``answer``, and all others plainly."""
    return lambda n, sent: answer() if n == 1 else zeros()


def failure(policy: RemotePolicy) -> str:
    """What the infrastructure error says that the next decision ends with; and that a rollout
    after it goes well."""
    with pytest.raises(PolicyServerError) as caught:
        policy.act(libero_observation())
    assert caught.value.kind == "policy server"
    assert caught.value.retry
    policy.reset(INFO, 0)
    np.testing.assert_array_equal(policy.act(libero_observation()), np.zeros((10, 7)))
    return str(caught.value)


class TestErrors:
    """Whatever goes wrong is an infrastructure error with the server's words, in time, and the
    next rollout is well."""

    def test_a_policy_that_raises_is_quoted(self) -> None:
        with double(after_trial(lambda: TRACEBACK)) as server, asking(server.url) as policy:
            said = failure(policy)
            assert server.clients == 2
        assert "raised" in said
        assert "ValueError: norm stats not found" in said
        assert server.url in said
        assert "step 0" in said

    def test_of_a_long_traceback_the_end_is_quoted(self) -> None:
        long = "\n".join(f"  line {n}" for n in range(10_000)) + "\nKeyError: 'norm_stats'"
        with double(after_trial(lambda: long)) as server, asking(server.url) as policy:
            said = failure(policy)
        assert said.endswith("KeyError: 'norm_stats'")
        assert len(said) < 3000

    @pytest.mark.parametrize(
        "answer, words",
        [
            (b"\xc1", "not a msgpack message"),
            (pack(zeros())[:-4], "not a msgpack message"),
            (pack(zeros()) + b"\x00", "not a msgpack message"),
            (b"\x93\x01\x02\x03", "answer is a list"),
            ({}, "no array 'actions'"),
            ({"status": "error", "ok": False, "error": "CUDA out of memory"}, "CUDA out of memory"),
            ({"actions": [[0.0] * 7]}, "no array 'actions'"),
            ({"actions": np.zeros(7)}, "expected real numbers [T, 7]"),
            ({"actions": np.zeros((1, 10, 7))}, "expected real numbers [T, 7]"),
            ({"actions": np.zeros((0, 7))}, "expected real numbers [T, 7]"),
            ({"actions": np.zeros((10, 32))}, "expected real numbers [T, 7]"),
            ({"actions": np.full((10, 7), np.nan)}, "NaN"),
            ({"actions": np.array([["a"] * 7])}, "expected real numbers"),
            ("", "says nothing"),
        ],
        ids=lambda value: "" if isinstance(value, str) else None,
    )
    def test_an_answer_that_is_none(self, answer: Answer, words: str) -> None:
        with double(after_trial(lambda: answer)) as server, asking(server.url) as policy:
            assert words in failure(policy)

    def test_no_answer_in_time_and_a_late_one_is_never_executed(self) -> None:
        late = threading.Event()

        def infer(n: int, sent: Mapping[str, object]) -> Answer:
            if n == 1:
                late.wait(2.0)
                return constant(0.9)
            return zeros()

        with double(infer) as server, asking(server.url, SHORT_S) as policy:
            began = time.monotonic()
            with pytest.raises(PolicyServerError, match=r"within 0\.3"):
                policy.act(libero_observation())
            assert time.monotonic() - began < SHORT_S + 1.0
            late.set()  # now it comes: on a connection that nobody reads
            policy.reset(INFO, 0)
            for step in range(3):
                np.testing.assert_array_equal(
                    policy.act(libero_observation(step)), np.zeros((10, 7))
                )
            assert server.clients == 2

    def test_after_an_error_nothing_is_asked_before_the_next_rollout(self) -> None:
        with double(after_trial(lambda: TRACEBACK)) as server, asking(server.url) as policy:
            with pytest.raises(PolicyServerError):
                policy.act(libero_observation())
            with pytest.raises(PolicyServerError, match="no rollout has begun since"):
                policy.act(libero_observation(1))
            assert len(server.heard) == 2

    def test_an_answer_too_many_is_not_taken_for_the_next(self) -> None:
        def twice(peer: socket.socket) -> None:
            shake_hands(peer)
            peer.sendall(frame(pack({})))
            read_frame(peer)
            peer.sendall(frame(pack(zeros())))
            read_frame(peer)
            peer.sendall(frame(pack(zeros())) + frame(pack(constant(0.9))))
            peer.recv(65536)

        with serving(twice) as url, asking(url) as policy:
            np.testing.assert_array_equal(policy.act(libero_observation()), np.zeros((10, 7)))
            time.sleep(0.1)
            with pytest.raises(PolicyServerError, match="nothing had asked for"):
                policy.act(libero_observation(1))

    @pytest.mark.parametrize("how", ["half", "cut", "dribble", "silent"])
    def test_an_answer_that_does_not_end(self, how: str) -> None:
        whole = frame(pack(zeros()))

        def script(peer: socket.socket) -> None:
            shake_hands(peer)
            peer.sendall(frame(pack({})))
            read_frame(peer)
            peer.sendall(whole)
            read_frame(peer)
            if how in ("half", "cut"):
                peer.sendall(whole[: len(whole) // 2])
            if how == "dribble":
                for at in range(len(whole)):
                    peer.sendall(whole[at : at + 1])
                    time.sleep(0.02)
            if how != "cut":
                peer.recv(1)

        with serving(script) as url, asking(url, SHORT_S) as policy:
            began = time.monotonic()
            words = "without a goodbye" if how == "cut" else r"within 0\.3 s"
            with pytest.raises(PolicyServerError, match=words):
                policy.act(libero_observation())
            assert time.monotonic() - began < SHORT_S + 1.0

    def test_the_first_answer_may_take_longer(self) -> None:
        def infer(n: int, sent: Mapping[str, object]) -> Answer:
            time.sleep(2 * SHORT_S if n in (0, 2) else 0.0)
            return zeros()

        with double(infer) as server, asking(server.url, SHORT_S) as policy:
            policy.act(libero_observation())
            with pytest.raises(PolicyServerError, match=r"within 0\.3"):
                policy.act(libero_observation(1))

    def test_another_server_after_an_error_is_refused(self) -> None:
        with double(after_trial(lambda: TRACEBACK)) as server, asking(server.url) as policy:
            with pytest.raises(PolicyServerError):
                policy.act(libero_observation())
            server.metadata = {"checkpoint": "another"}
            with pytest.raises(PolicyServerError, match="another server"):
                policy.reset(INFO, 0)

    def test_the_token_is_in_no_error(self) -> None:
        settings = PolicySettings(url=None, token="s3cret")
        with double(after_trial(lambda: "PermissionError: key s3cret is over")) as server:
            policy = openpi(settings=dataclasses.replace(settings, url=server.url))
            policy.reset(INFO, 0)
            said = failure(policy)
            policy.close()
        assert "PermissionError: key *** is over" in said
        assert "s3cret" not in said


SERVER = """
import sys
from tests.policies.openpi_peers import Double
server = Double(port=int(sys.argv[1]))
print("ready", flush=True)
"""


def start_server(port: int) -> subprocess.Popen[str]:
    """A process of its own; returned when it listens."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_server_that_is_killed_and_started_again_costs_one_attempt() -> None:
    port = closed_port()
    process = start_server(port)
    try:
        with asking(f"ws://127.0.0.1:{port}") as policy:
            policy.act(libero_observation())
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            with pytest.raises(PolicyServerError, match="broke the connection off"):
                policy.act(libero_observation(1))
            with pytest.raises(PolicyServerError, match="refused"):
                policy.reset(INFO, 0)
            process.communicate()
            process = start_server(port)
            policy.reset(INFO, 0)
            assert policy.act(libero_observation()).shape == (10, 7)
    finally:
        process.kill()
        process.communicate()
