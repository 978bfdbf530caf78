"""A policy of ours behind vla-eval's wire: exact for our client, and itself for stock ones."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from pytest_vla_shift.policies.wires.vla_eval_terms import nested
from pytest_vla_shift.policies.wires.websocket import Websocket
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import (
    EpisodeInfo,
    Goal,
    Observation,
    PrivilegedState,
)
from tests.policies.observations import INFO
from tests.policies.shipped_profiles import observation_for
from tests.policies.vla_eval_peers import Looker, Oracle, served

LIBERO = read_profile("vla-eval-libero")
LOOK = observation_for(LIBERO)
TRUTH = Observation(
    LOOK.images,
    LOOK.proprio,
    LOOK.instruction,
    5,
    PrivilegedState(
        {"ketchup_1": np.array([0.1, 1 / 3, np.pi])},
        {"ketchup_1": np.array([0.0, 0.0, 0.0, 1.0])},
        {"knob": 0.25},
    ),
)
WHOLE = EpisodeInfo(INFO.episode, INFO.instruction, INFO.horizon, Goal((("in", "a", "b"),)))


def policy(url: str, token: str | None = None) -> RemotePolicy:
    return vla_eval(settings=PolicySettings(url=url, timeout_s=10.0, token=token))


class Stock:
    """A client that sends what vla-eval's does, and nothing else."""

    def __init__(self, url: str) -> None:
        self._socket = Websocket(url, 10.0)
        self._seq = 0

    def tell(self, kind: str, payload: dict[str, object]) -> None:
        self._seq += 1
        message = Message(kind, payload, self._seq, time.time())
        self._socket.send(pack(message), time.monotonic() + 10.0)

    def hear(self) -> Message:
        return read(self._socket.receive(time.monotonic() + 10.0))

    def ask(self, kind: str, payload: dict[str, object]) -> Any:
        """The payload of the answer, which has the question's number."""
        self.tell(kind, payload)
        answer = self.hear()
        assert answer.seq == self._seq
        return answer.payload

    def close(self) -> None:
        self._socket.close()


SENT = nested(payload(LIBERO, LOOK))


def test_a_privileged_policy_answers_bit_for_bit_as_in_process() -> None:
    oracle = Oracle()
    with served(oracle) as url:
        ours = policy(url)
        assert ours.spec.privileged
        assert ours.spec.cameras == ()  # nothing is rendered for it
        assert (ours.spec.chunk, ours.spec.replan) == (3, 2)
        assert ours.spec.seeded
        assert not ours.spec.language
        ours.reset(WHOLE, 123)
        found = ours.act(TRUTH)
        ours.close()
    assert oracle.begun == [(WHOLE, 123)]
    (seen,) = oracle.seen
    assert seen.step == 5
    assert seen.privileged is not None
    assert seen.privileged.joints == {"knob": 0.25}
    np.testing.assert_array_equal(found, Oracle().act(TRUTH))  # a gripper of 0 stays 0
    assert found.dtype == np.float64


def test_a_policy_that_looks_sees_the_simulators_pictures_upright() -> None:
    looker = Looker()
    with served(looker) as url:
        ours = policy(url)
        ours.reset(INFO, 0)
        found = ours.act(LOOK)
        ours.close()
    for camera in looker.spec.cameras:
        np.testing.assert_array_equal(looker.seen[-1].images[camera], LOOK.images[camera])
    for name, vector in LOOK.proprio.items():
        np.testing.assert_array_equal(looker.seen[-1].proprio[name], vector)
    assert looker.seen[-1].instruction == LOOK.instruction
    np.testing.assert_array_equal(found[:, 6], [-1.0, 0.5, 1.0, 0.0])


def test_a_stock_client_is_told_what_to_send() -> None:
    with served(Looker()) as url:
        client = Stock(url)
        hello = client.ask("hello", {"harness_version": "0.8.0", "protocol_version": 1})
        client.close()
    assert hello["protocol_version"] == 1
    assert hello["observation_params"] == {"send_wrist_image": True, "send_state": True}
    assert hello["action_spec"]["gripper"]["format"] == "binary_close_positive"
    assert hello["observation_spec"]["state"]["format"] == "eef_pos3_axisangle3_gripper2"


def test_a_stock_client_gets_one_action_for_each_observation() -> None:
    looker = Looker()
    with served(looker) as url:
        client = Stock(url)
        client.tell("episode_start", {"task": {"name": "pick up the ketchup", "suite": "x"}})
        found = [client.ask("observation", SENT)["actions"] for _ in range(4)]
        assert [(a.dtype, a.shape) for a in found] == [(np.dtype("float32"), (7,))] * 4
        # Three of a chunk, as replan says, and then the next chunk's first.
        np.testing.assert_allclose(
            [a[:2] * 100 for a in found], [[1, 0], [1, 1], [1, 2], [2, 0]], atol=1e-5
        )
        client.tell("episode_end", {"metrics": {"success": True}, "steps": 4, "elapsed_sec": 1.0})
        client.tell("episode_start", {"task": {"name": "pick up the ketchup", "suite": "x"}})
        again = client.ask("observation", SENT)["actions"]
        np.testing.assert_allclose(again[:2] * 100, [3, 0], atol=1e-5)  # nothing of the old chunk
        client.close()
    assert [info.instruction for info, _ in looker.begun] == [LOOK.instruction] * 2
    assert looker.seen[0].privileged is None
    np.testing.assert_allclose(looker.seen[0].proprio["eef_pos"], LOOK.proprio["eef_pos"])
    np.testing.assert_array_equal(looker.seen[0].images["agentview"], LOOK.images["agentview"])


def test_an_observation_without_an_episode_begins_one() -> None:
    looker = Looker()
    with served(looker) as url:
        client = Stock(url)
        client.ask("observation", SENT)
        client.close()
    assert len(looker.begun) == 1


@pytest.mark.parametrize(
    "sent, says",
    [
        ({}, "images/agentview"),
        ({**SENT, "images": {"agentview": LOOK.images["agentview"]}}, "images/wrist"),
        ({**SENT, "states": np.zeros(7)}, "float64[7]; expected [8]"),
        ({**SENT, "vla_shift": {"step": "one"}}, "ExtensionError"),
    ],
)
def test_an_error_has_the_number_of_its_question_and_the_connection_lives(
    sent: dict[str, object], says: str
) -> None:
    with served(Looker()) as url:
        client = Stock(url)
        words = client.ask("observation", sent)["error"]
        assert words.startswith("observation_failed: ")
        assert says in words
        assert "actions" in client.ask("observation", SENT)
        client.close()


def test_what_the_policy_raises_is_the_servers_error_for_our_client() -> None:
    looker = Looker()
    with served(looker) as url:
        ours = policy(url)
        looker.fails = "act"
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match=r"observation_failed.*bad observation"):
            ours.act(LOOK)
        looker.fails = "reset"
        ours.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match=r"episode_start_failed.*no memory"):
            ours.act(LOOK)
        looker.fails = ""
        ours.reset(INFO, 0)
        assert ours.act(LOOK).shape == (4, 7)
        ours.close()


def test_what_is_no_message_is_answered_in_words_and_the_end() -> None:
    with served(Looker()) as url:
        socket = Websocket(url, 10.0)
        until = time.monotonic() + 10.0
        socket.send(b"\xc1", until)
        words: Any = read(socket.receive(until)).payload
        assert "not a msgpack message" in words["error"]
        with pytest.raises(Exception, match="code 1000"):
            socket.receive(until)
        socket.close()


def test_a_policy_without_sessions_serves_one_client_at_a_time() -> None:
    with served(Looker()) as url:
        first = policy(url)
        with pytest.raises(UsageError, match="serves one client at a time"):
            policy(url)
        first.close()
        policy(url).close()  # its place is given back, though its goodbye may be on its way still


def test_health_and_configuration_are_pages() -> None:
    with served(Oracle()) as url:
        address = url.replace("ws://", "http://")

        def page(path: str) -> Any:
            with urllib.request.urlopen(address + path, timeout=10.0) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                return json.loads(answer.read())

        assert page("/health") == {"status": "ok"}
        assert page("/config") == {"applied": {}, "config": {"max_batch_size": 1}}
        changed = page("/config?max_batch_size=8")
        assert changed["config"] == {"max_batch_size": 1}
        assert changed["applied"] == {}
        assert "max_batch_size" in changed["errors"][0]


def test_a_server_with_a_token_lets_nobody_else_in() -> None:
    with served(Oracle(), token="open-sesame") as url:
        policy(url, token="open-sesame").close()
        for wrong in (None, "sesame"):
            with pytest.raises(UsageError, match="401"):
                policy(url, token=wrong)
