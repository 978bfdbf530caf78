"""A policy of ours behind openpi's wire: what reaches it, and what clients that err are told."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.openpi import open_service
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.policies.wires.protocol import WireError
from pytest_vla_shift.policies.wires.websocket import Websocket
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import (
    Goal,
    PrivilegedState,
)
from tests.fakes.noting_policies import RECORDING, Recording, RecordingSessions
from tests.fakes.services import answering
from tests.policies.openpi_peers import INFO, libero_observation
from tests.policies.websocket_peers import AMPLE_S, within

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy

PROFILE = find_profile("libero", "openpi")


@contextlib.contextmanager
def serving(policy: Policy, token: str | None = None) -> Iterator[str]:
    with answering(open_service(Host(policy, PROFILE), port=0, token=token)) as service:
        yield service.url


@contextlib.contextmanager
def remote(url: str, **args: str) -> Iterator[RemotePolicy]:
    policy = openpi(**args, settings=PolicySettings(url=url, timeout_s=10))
    with contextlib.closing(policy):
        yield policy


class Raw:
    """A client of frames."""

    def __init__(self, url: str) -> None:
        self._socket = Websocket(url, AMPLE_S)
        metadata = self._socket.receive(within(AMPLE_S))
        assert isinstance(metadata, bytes)
        self.metadata = read(metadata)

    def call(self, frame: bytes | str) -> object:
        self._socket.send(frame, within(AMPLE_S))
        answer = self._socket.receive(within(AMPLE_S))
        return answer if isinstance(answer, str) else read(answer)

    def ended(self) -> str:
        """How the server closed."""
        with pytest.raises(WireError) as caught:
            self._socket.receive(within(AMPLE_S))
        self._socket.close()
        return str(caught.value)

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def raw(url: str) -> Iterator[Raw]:
    with contextlib.closing(Raw(url)) as client:
        yield client


class TestOurClient:
    def test_it_is_told_what_is_behind_the_server(self) -> None:
        with serving(Recording()) as url, remote(url) as policy:
            spec = policy.spec
        assert (spec.chunk, spec.replan, spec.action_dim) == (4, 2, 7)
        assert spec.cameras == RECORDING.cameras
        assert spec.seeded
        assert spec.seedable
        assert "serves recording 3" in spec.revision

    def test_nothing_but_what_the_policy_looks_at_is_sent(self) -> None:
        recording = Recording(cameras=("robot0_eye_in_hand",))
        with serving(recording) as url, remote(url) as policy:
            assert policy.spec.cameras == ("robot0_eye_in_hand",)
            observation = libero_observation()
            name = "robot0_eye_in_hand"
            only = replace(observation, images={name: observation.images[name]})
            policy.reset(INFO, 0)
            policy.act(only)
        assert list(recording.seen[-1].images) == ["robot0_eye_in_hand"]

    def test_episode_goal_and_seed_arrive(self) -> None:
        recording = Recording()
        info = replace(INFO, goal=Goal((("in", "ketchup_1", "basket_1"), ("open", "drawer_1"))))
        with serving(recording) as url, remote(url) as policy:
            policy.reset(info, 41)
            found = policy.act(libero_observation())
            policy.act(libero_observation(2))
            policy.reset(info, 42)
            policy.act(libero_observation())
        assert found[0, 0] == 0.041
        assert recording.begun[1:] == [(info, 41), (info, 42)]  # behind the trial's

    def test_the_same_rollout_twice_begins_twice(self) -> None:
        """The sentence does not change; the wire has nothing else that would tell."""
        recording = Recording()
        with serving(recording) as url, remote(url) as policy:
            for _ in range(2):
                policy.reset(INFO, 7)
                policy.act(libero_observation())
        assert len(recording.begun) == 3

    def test_numbers_arrive_to_the_bit_and_pictures_upright(self) -> None:
        recording = Recording()
        observation = replace(
            libero_observation(3),
            privileged=PrivilegedState(
                positions={"ketchup_1": np.array([0.1, 0.2, 0.3])},
                quaternions={"ketchup_1": np.array([0.0, 0.0, 0.0, 1.0])},
                joints={"drawer_1_joint": -0.125},
            ),
        )
        with serving(recording) as url, remote(url) as policy:
            policy.reset(INFO, 0)
            policy.act(observation)
        seen = recording.seen[-1]
        assert seen.step == 3
        assert seen.instruction == INFO.instruction
        assert list(seen.proprio) == list(observation.proprio)
        for name, vector in observation.proprio.items():
            assert seen.proprio[name].tobytes() == vector.tobytes(), name
        assert seen.privileged is not None
        assert observation.privileged is not None
        assert seen.privileged.joints == observation.privileged.joints
        for part in ("positions", "quaternions"):
            theirs, ours = getattr(seen.privileged, part), getattr(observation.privileged, part)
            assert {k: v.tolist() for k, v in theirs.items()} == {
                k: v.tolist() for k, v in ours.items()
            }
        sent = payload(PROFILE, observation)["observation/image"]
        assert isinstance(sent, np.ndarray)
        np.testing.assert_array_equal(seen.images["agentview"], sent[:, ::-1])
        seen.images["agentview"][0] = 0  # and it may write to what it is given
        seen.proprio["eef_pos"][0] = 0.0

    def test_a_policy_that_raises_is_an_infrastructure_error_and_the_next_rollout_is_well(
        self,
    ) -> None:
        recording = RecordingSessions()
        with serving(recording) as url, remote(url) as policy:
            recording.error = KeyError("norm_stats")
            policy.reset(INFO, 0)
            with pytest.raises(PolicyServerError) as caught:
                policy.act(libero_observation())
            recording.error = None
            policy.reset(INFO, 0)
            assert policy.act(libero_observation()).shape == (4, 7)
        assert "KeyError: 'norm_stats'" in str(caught.value)
        assert "recording" in str(caught.value)

    def test_a_policy_that_keeps_state_is_free_again_for_the_next_connection(self) -> None:
        recording = Recording()
        with serving(recording) as url, remote(url) as policy:
            recording.error = KeyError("norm_stats")
            policy.reset(INFO, 0)
            with pytest.raises(PolicyServerError):
                policy.act(libero_observation())
            recording.error = None
            for _ in range(3):
                policy.close()
                policy.reset(INFO, 0)
                policy.act(libero_observation())

    def test_a_second_client_of_such_a_policy_is_told_so(self) -> None:
        with (
            serving(Recording()) as url,
            remote(url),
            pytest.raises(UsageError, match="serves one client at a time"),
        ):
            openpi(settings=PolicySettings(url=url, timeout_s=10))

    def test_whoever_gets_no_place_is_told_in_the_goodbye_and_not_in_place_of_the_metadata(
        self,
    ) -> None:
        with serving(Recording()) as url, remote(url):
            client = Websocket(url, AMPLE_S)
            with pytest.raises(WireError, match=r"code 1013: .*serves one client at a time"):
                client.receive(within(AMPLE_S))
            client.close()

    def test_nor_is_a_session_that_cannot_be_made_taken_for_the_metadata(self) -> None:
        class Exhausted(RecordingSessions):
            def session(self) -> RecordingSessions:
                raise MemoryError("\u00fc" * 200)

        with serving(Exhausted()) as url, remote(url):
            client = Websocket(url, AMPLE_S)
            with pytest.raises(WireError, match=r"code 1011: MemoryError: \u00fc+$"):
                client.receive(within(AMPLE_S))
            client.close()

    def test_clients_side_by_side_have_sessions(self) -> None:
        with serving(RecordingSessions()) as url, remote(url) as one, remote(url) as other:
            one.reset(INFO, 1)
            other.reset(INFO, 2)
            assert one.act(libero_observation())[0, 0] == 0.001
            assert other.act(libero_observation())[0, 0] == 0.002
            assert one.act(libero_observation())[0, 0] == 0.001


STOCK = payload(PROFILE, libero_observation())


class TestStockClient:
    def test_its_rollout_begins_with_the_first_observation(self) -> None:
        recording = Recording()
        with serving(recording) as url, raw(url) as client:
            for _ in range(3):
                client.call(pack(STOCK))
        ((info, seed),) = recording.begun
        assert info.instruction == INFO.instruction
        assert seed == 0
        assert [seen.step for seen in recording.seen] == [0, 2, 4]

    def test_an_answer_has_actions_and_the_servers_time(self) -> None:
        with serving(Recording()) as url, raw(url) as client:
            answer = client.call(pack(STOCK))
        assert isinstance(answer, dict)
        assert set(answer) == {"actions", "server_timing"}
        assert answer["actions"].shape == (4, 7)
        assert answer["actions"][:, 6].tolist() == [1.0, -1.0, -1.0, 1.0]  # nobody flips

    @pytest.mark.parametrize(
        "frame, words",
        [
            (b"\xc1", "not a msgpack message"),
            (b"", "not a msgpack message"),
            (b"\x90", "a list, where an observation was expected"),
            ("hello", "a text frame, where an observation was expected"),
            (pack({}), "'observation/image' is missing"),
            (pack({**STOCK, "observation/state": np.zeros(7)}), "expected [8]"),
            (pack({**STOCK, "prompt": 3}), "expected text"),
            (pack({**STOCK, "vla_shift": 3}), "expected a map"),
            (pack({**STOCK, "vla_shift": {"begin": {}}}), "'episode' must be list"),
        ],
    )
    def test_what_is_no_observation_is_text_and_the_end(
        self, frame: bytes | str, words: str
    ) -> None:
        recording = Recording()
        with serving(recording) as url:
            with raw(url) as client:
                answer = client.call(frame)
                assert isinstance(answer, str)
                assert words in answer
                assert "code 1011: Internal server error. Traceback" in client.ended()
            with raw(url) as client:
                assert isinstance(client.call(pack(STOCK)), dict)
        assert len(recording.seen) == 1


def test_health_needs_no_token_and_a_websocket_does() -> None:
    with serving(Recording(), token="s3cret") as url:
        plain = url.replace("ws:", "http:")
        with urllib.request.urlopen(f"{plain}/healthz", timeout=10) as answer:
            assert answer.status == 200
            assert answer.read() == b"OK\n"
        with pytest.raises(WireError, match="401"):
            Websocket(url, AMPLE_S)
        with pytest.raises(WireError, match="401"):
            Websocket(url, AMPLE_S, {"Authorization": "Api-Key s3cre"})
        Websocket(url, AMPLE_S, {"Authorization": "Api-Key s3cret"}).close()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(plain, timeout=10)
        assert caught.value.code in (400, 401, 426)
        caught.value.close()


def test_a_port_that_is_taken() -> None:
    with serving(Recording()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {port}"):
            open_service(Host(Recording(), PROFILE), port=port)


def test_closing_before_anybody_serves_frees_the_port() -> None:
    service = open_service(Host(Recording(), PROFILE), port=0)
    port = int(service.url.rpartition(":")[2])
    service.close()
    service.close()
    open_service(Host(Recording(), PROFILE), port=port).close()


def test_clients_are_told_when_the_server_stops() -> None:
    with serving(Recording()) as url:
        client = Raw(url)
    assert "code 1001: the server stops" in client.ended()


def test_a_server_that_listens_everywhere_names_an_address_that_can_be_asked() -> None:
    service = open_service(Host(Recording(), PROFILE), "0.0.0.0", 0)
    try:
        assert service.url.startswith("ws://127.0.0.1:")
    finally:
        service.close()
