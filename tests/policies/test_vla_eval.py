"""The vla-eval wire: what it says, and what it refuses before the first episode."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from pytest_vla_shift.policies.probe import EPISODE
from pytest_vla_shift.policies.wires.vla_eval import VlaEvalWire
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, read
from pytest_vla_shift.protocol.errors import UsageError
from tests.policies.observations import INFO
from tests.policies.vla_eval_talks import (
    ACTION,
    HELLO,
    LOOK,
    Answers,
    act,
    error,
    policy,
    said,
    talking,
)
from tests.policies.websocket_peers import closed_port, frame, read_frame, serving, shake_hands


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


def test_what_the_server_asks_for_in_vain_is_said_once() -> None:
    def seeded(message: Message) -> Iterable[bytes]:
        if message.kind == "hello":
            hello = {**HELLO, "observation_params": {"env_seed": 0}}
            return [said("hello", hello, message.seq)]
        return act(message)

    def twice(url: str) -> None:
        ours = policy(url)
        other = ours.session()
        other.reset(INFO, 0)
        other.act(LOOK)
        other.close()
        ours.close()

    with serving(talking(seeded)) as url, pytest.warns(UserWarning, match="env_seed 0") as caught:
        twice(url)
    assert len(caught) == 1


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
