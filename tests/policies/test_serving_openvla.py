"""A policy of ours behind ``/act``: for the models' own clients, and for ours."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import json_numpy
import numpy as np
import pytest

from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.openvla import MOST_BYTES, OpenVlaService, open_service
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from tests.fakes.noting_policies import Noting
from tests.fakes.openvla_deploy import Deploy, eight_actions
from tests.fakes.services import answering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy

INFO = EpisodeInfo(Episode("libero_object", "pick_up_the_milk", 3), "pick up the milk", 280)


class Counting(Noting):
    """Keeps state: its answer has the number of the call in its rollout, and what it was told."""

    def __init__(self, chunk: int = 1) -> None:
        super().__init__()
        self.spec = PolicySpec(
            "counting",
            "1",
            cameras=("agentview",),
            chunk=chunk,
            replan=chunk,
            seeded=True,
        )
        self._calls = 0

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._calls = 0

    def act(self, observation: Observation) -> NDArray[np.floating]:
        if observation.instruction == "break":
            raise RuntimeError("out of\nluck")
        self.seen.append(observation)
        self._calls += 1
        action = [0.1 * self._calls, 0, 0, 0, 0, 0, -1.0]
        return np.array([action] * self.spec.chunk)


class WithSessions(Counting):
    """The same, with as many states as are asked for."""

    def session(self) -> WithSessions:
        return WithSessions(self.spec.chunk)


@contextmanager
def served(
    policy: Policy,
    profile: str = "libero",
    token: str | None = None,
    seed: int = 0,
    port: int = 0,
) -> Iterator[OpenVlaService]:
    host = Host(policy, find_profile(profile, "openvla"), seed=seed)
    with answering(open_service(host, port=port, token=token)) as service:
        yield service


def post(
    service: OpenVlaService, body: str | bytes, headers: dict[str, str] | None = None
) -> tuple[int, object]:
    """As a client that knows nothing but json-numpy, on a connection of its own."""
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=5)
    data = body if isinstance(body, bytes) else body.encode()
    connection.request("POST", "/act", data, headers or {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json_numpy.loads(text)


def stock(sentence: str = "pick up the milk") -> dict[str, object]:
    """What OpenVLA's clients send."""
    return {
        "image": np.zeros((224, 224, 3), np.uint8),
        "instruction": sentence,
        "unnorm_key": "libero_object",
    }


def stock_oft(sentence: str = "pick up the milk") -> dict[str, object]:
    """What OpenVLA-OFT's clients send."""
    return {
        "full_image": np.zeros((256, 256, 3), np.uint8),
        "wrist_image": np.zeros((256, 256, 3), np.uint8),
        "state": np.arange(8.0),
        "instruction": sentence,
    }


def client(
    service: OpenVlaService, name: str = "openvla", token: str | None = None
) -> RemotePolicy:
    settings = PolicySettings(url=service.url, timeout_s=5.0, token=token)
    policy = resolve(name, {}, settings=settings)
    assert isinstance(policy, RemotePolicy)
    return policy


def test_a_stock_client_gets_one_action_in_the_models_own_terms() -> None:
    with served(Counting()) as service:
        status, found = post(service, json_numpy.dumps(stock()))
    assert status == 200
    assert isinstance(found, np.ndarray)
    # -1 opens in robosuite's terms, 1 in the model's.
    np.testing.assert_allclose(found, [0.1, 0, 0, 0, 0, 0, 1.0])


def test_a_stock_oft_client_gets_a_list_of_actions() -> None:
    with served(Counting(chunk=8), "oft-libero") as service:
        status, found = post(service, json_numpy.dumps(stock_oft()))
    assert status == 200
    assert isinstance(found, list)
    assert [action.shape for action in found] == [(7,)] * 8


def test_a_payload_that_was_encoded_twice_is_answered_so() -> None:
    with served(Counting()) as service:
        body = json.dumps({"encoded": json_numpy.dumps(stock())})
        _, found = post(service, body)
    assert isinstance(found, str)
    np.testing.assert_allclose(json_numpy.loads(found), [0.1, 0, 0, 0, 0, 0, 1.0])


def test_another_sentence_begins_another_rollout_for_a_stock_client() -> None:
    policy = Counting()
    with served(policy, seed=42) as service:
        firsts = []
        for sentence in ("a", "a", "b"):
            _, found = post(service, json_numpy.dumps(stock(sentence)))
            assert isinstance(found, np.ndarray)
            firsts.append(found[0])
    np.testing.assert_allclose(firsts, [0.1, 0.2, 0.1])
    assert [(info.instruction, seed) for info, seed in policy.begun] == [("a", 42), ("b", 42)]


def test_what_goes_wrong_is_error_for_a_stock_client_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(Counting()) as service, caplog.at_level(logging.WARNING):
        assert post(service, json_numpy.dumps(stock("break"))) == (200, "error")
        _, found = post(service, json_numpy.dumps(stock()))
        assert isinstance(found, np.ndarray)
    (record,) = caplog.records
    assert "out of luck" in record.getMessage()
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '"text"',
        "{}",
        '{"encoded": 3}',
        '{"image": 1, "instruction": "a"}',
        '{"image": {"__numpy__": "gASV", "dtype": "|O", "shape": [1]}, "instruction": "a"}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_observation_is_error(body: str | bytes) -> None:
    with served(Counting()) as service:
        assert post(service, body) == (200, "error")


def test_a_request_that_is_too_long_is_refused_before_it_is_read() -> None:
    with served(Counting()) as service:
        status, _ = post(service, b"x", {"Content-Length": str(MOST_BYTES + 1)})
        assert status == 413
        status, _ = post(service, b"", {"Content-Length": "9" * 5000})
        assert status == 413


def test_a_request_without_a_length_is_refused() -> None:
    with served(Counting()) as service:
        status, _ = post(service, b"", {"Transfer-Encoding": "chunked", "Content-Length": "-1"})
    assert status == 411


def test_a_policy_with_chunks_is_not_served_one_action_at_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(Counting(chunk=4)) as service:
        assert post(service, json_numpy.dumps(stock())) == (200, "error")
    assert "serve it as openvla-oft" in caplog.text


def test_a_client_of_ours_gets_the_whole_chunk_of_such_a_policy() -> None:
    with served(Counting(chunk=4)) as service:
        policy = client(service)
        policy.reset(INFO, seed=1)
        assert policy.act(probe_observation(policy.profile)).shape == (4, 7)
        assert (policy.spec.chunk, policy.spec.replan) == (4, 4)
        policy.close()


def test_episode_seed_step_and_everything_measured_reach_the_policy() -> None:
    inside = Counting()
    with served(inside) as service:
        policy = client(service)
        assert policy.spec.seedable
        assert policy.spec.seeded
        policy.reset(INFO, seed=1234)
        shown = probe_observation(policy.profile)
        policy.act(shown)
        policy.act(Observation(shown.images, shown.proprio, shown.instruction, 5))
        policy.close()
    assert inside.begun[-1] == (INFO, 1234)
    assert [observation.step for observation in inside.seen[-2:]] == [0, 5]
    for name, vector in shown.proprio.items():
        np.testing.assert_array_equal(inside.seen[-1].proprio[name], vector)


def test_the_servers_words_reach_a_client_of_ours() -> None:
    with served(Counting()) as service:
        policy = client(service)
        policy.reset(INFO, seed=1)
        shown = probe_observation(policy.profile)
        with pytest.raises(PolicyServerError, match="RuntimeError: out of"):
            policy.act(Observation(shown.images, shown.proprio, "break", 0))
        policy.reset(INFO, seed=1)
        assert policy.act(shown)[0, 0] == pytest.approx(0.1)
        policy.close()


def test_clients_side_by_side_have_states_of_their_own() -> None:
    with served(WithSessions()) as service:
        one = client(service)
        other = one.session()
        shown = probe_observation(one.profile)
        one.reset(INFO, seed=1)
        other.reset(INFO, seed=2)
        found = [one.act(shown), one.act(shown), other.act(shown), one.act(shown)]
        np.testing.assert_allclose([chunk[0, 0] for chunk in found], [0.1, 0.2, 0.1, 0.3])
        other.close()
        one.close()


def test_a_policy_without_sessions_serves_one_client_at_a_time() -> None:
    with served(Counting()) as service:
        one = client(service)
        with pytest.raises(UsageError, match="one client at a time"):
            client(service)
        one.close()
        client(service).close()


def test_another_profile_than_the_servers_is_refused_with_both_sides() -> None:
    with (
        served(Counting()) as service,
        pytest.raises(UsageError, match=r"do not agree(.|\n)*openvla-libero(.|\n)*openvla-oft"),
    ):
        client(service, "openvla-oft")


def test_a_token_is_asked_for() -> None:
    with served(Counting(), token="geheim-42") as service:
        assert post(service, json_numpy.dumps(stock()))[0] == 401
        with pytest.raises(UsageError, match="HTTP 401") as refused:
            client(service, token="another")
        assert "another" not in str(refused.value).replace("or another one", "")
        policy = client(service, token="geheim-42")
        policy.reset(INFO, seed=1)
        policy.act(probe_observation(policy.profile))
        policy.close()


def test_a_server_that_is_closed_frees_its_port_and_hangs_up() -> None:
    with served(WithSessions()) as service:
        policy = client(service)
        port = int(service.url.rpartition(":")[2])
    policy.reset(INFO, seed=1)
    with pytest.raises(PolicyServerError):
        policy.act(probe_observation(policy.profile))
    with socket.create_server(("127.0.0.1", port)):
        pass
    service.close()


def test_a_port_that_is_taken_is_a_usage_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host = Host(Counting(), find_profile("libero", "openvla"))
        with pytest.raises(UsageError, match="cannot listen"):
            open_service(host, port=taken.getsockname()[1])


def test_another_server_at_the_same_place_is_noticed() -> None:
    """The results of two policies are never mixed under one key."""
    with served(WithSessions()) as service:
        policy = client(service)
        port = int(service.url.rpartition(":")[2])
    with served(WithSessions(chunk=2), port=port):
        policy.reset(INFO, seed=1)
        with pytest.raises(PolicyServerError):
            policy.act(probe_observation(policy.profile))
        with pytest.raises(PolicyServerError, match="another server than at the start"):
            policy.reset(INFO, seed=1)
        policy.close()


def test_the_policy_of_one_server_is_passed_on_over_another_wire() -> None:
    gr00t = pytest.importorskip("pytest_vla_shift.policies.serving.gr00t")
    with Deploy(eight_actions) as stock_server:
        behind = resolve("openvla-oft", {}, settings=PolicySettings(url=stock_server.url))
        host = Host(behind, find_profile("libero", "gr00t"))
        with answering(gr00t.open_service(host, port=0)) as service:
            front = resolve("gr00t", {}, settings=PolicySettings(url=service.url, timeout_s=10))
            found = []
            for policy in (behind, front):
                policy.reset(INFO, seed=1)
                shown = probe_observation(find_profile("oft-libero", "openvla"))
                found.append(policy.act(shown))
            np.testing.assert_allclose(found[1], found[0], atol=1e-6)  # float32 on the way
            sent = stock_server.payloads[-1]["full_image"]
            np.testing.assert_array_equal(sent, shown.images["agentview"][:, ::-1])
            front.close()
        behind.close()
