"""The policies openpi, pi0, pi0-fast and pi05, asked at servers that behave."""

from __future__ import annotations

import socket
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.profile import parse_profile, read_profile
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from tests.policies.openpi_peers import (
    INFO,
    Answer,
    Double,
    Infer,
    asking,
    double,
    libero_observation,
    zeros,
)
from tests.policies.websocket_peers import closed_port, serving, shake_hands

SHORT_S = 0.3
TRACEBACK = """Traceback (most recent call last):
  File "/srv/openpi/policy.py", line 71, in infer
    raise ValueError("norm stats not found")
ValueError: norm stats not found
"""


class TestObservation:
    def test_it_is_what_openpis_example_for_libero_sends(self) -> None:
        observation = libero_observation()
        with double() as server, asking(server.url) as policy:
            policy.act(observation)
            sent = server.heard[-1]
        assert list(sent) == [
            "observation/image",
            "observation/wrist_image",
            "observation/state",
            "prompt",
        ]
        for key in ("observation/image", "observation/wrist_image"):
            picture = sent[key]
            assert isinstance(picture, np.ndarray)
            assert picture.dtype == np.uint8
            assert picture.shape == (224, 224, 3)
        state = sent["observation/state"]
        assert isinstance(state, np.ndarray)
        assert state.dtype == np.float64
        assert state.shape == (8,)
        assert state[:3].tolist() == observation.proprio["eef_pos"].tolist()
        assert state[6:].tolist() == observation.proprio["gripper_qpos"].tolist()
        assert sent["prompt"] == INFO.instruction

    def test_a_stock_server_is_sent_nothing_of_ours(self) -> None:
        with double() as server, asking(server.url) as policy:
            policy.act(libero_observation())
            policy.reset(INFO, 1)
            policy.act(libero_observation(1))
        assert len(server.heard) == 3  # the trial's, and two
        assert all(set(sent) == set(server.heard[0]) for sent in server.heard)
        assert "vla_shift" not in server.heard[0]

    def test_neither_observation_nor_answer_is_written_to(self) -> None:
        observation = libero_observation()
        for image in observation.images.values():
            image.flags.writeable = False
        for vector in observation.proprio.values():
            vector.flags.writeable = False
        with double() as server, asking(server.url) as policy:
            found = policy.act(observation)
        found[0, 0] = 1.0  # and what comes back is ours to write to


class TestAnswer:
    def test_actions_are_executed_as_they_are(self) -> None:
        raw = np.linspace(-1, 1, 70, dtype=np.float32).reshape(10, 7)
        with double(lambda n, sent: {"actions": raw}) as server, asking(server.url) as policy:
            np.testing.assert_array_equal(policy.act(libero_observation()), raw.astype(float))

    def test_what_else_a_stock_server_tells_is_ignored(self) -> None:
        extra: dict[str, object] = {
            "state": np.zeros(8),
            "policy_timing": {"infer_ms": 12.5},
            "server_timing": {"infer_ms": np.float64(13.0), "prev_total_ms": 20},
            "subtask": np.array("reach"),
        }
        with double(lambda n, sent: {**zeros(), **extra}) as server, asking(server.url) as policy:
            assert policy.act(libero_observation()).shape == (10, 7)

    @pytest.mark.parametrize("length", [1, 5, 50])
    def test_the_trial_tells_the_chunk(self, length: int) -> None:
        with double(lambda n, sent: zeros(length)) as server, asking(server.url) as policy:
            assert policy.spec.chunk == length
            assert policy.spec.replan == min(5, length)

    def test_answers_that_become_shorter_need_a_word(self) -> None:
        infer: Infer = lambda n, sent: zeros(10 - n)  # noqa: E731
        with (
            double(infer) as server,
            asking(server.url) as policy,
            pytest.raises(PolicyServerError, match="9 actions, and 10 at the trial"),
        ):
            policy.act(libero_observation())
        with double(infer) as server, asking(server.url, chunk="10") as policy:
            assert len(policy.act(libero_observation())) == 9
            assert policy.spec.chunk == 10

    def test_a_chunk_that_was_told_is_kept(self) -> None:
        with double() as server, asking(server.url, chunk="16") as policy:
            assert policy.spec.chunk == 16


class TestSpec:
    def test_a_stock_server_has_no_place_for_a_seed(self) -> None:
        with double() as server, asking(server.url) as policy:
            assert not policy.spec.seedable
            assert not policy.spec.seeded
            assert policy.spec.language
            assert not policy.spec.privileged
            assert policy.spec.cameras == ("agentview", "robot0_eye_in_hand")
            assert policy.spec.action_dim == 7

    def test_saying_that_it_is_seeded_does_not_make_it_so(self) -> None:
        with double() as server, pytest.raises(UsageError, match="cannot be given a seed"):
            openpi(seeded="true", settings=PolicySettings(url=server.url))

    @pytest.mark.parametrize("name", ["openpi", "pi0", "pi0-fast", "pi05"])
    def test_every_name_is_known_and_in_the_spec(self, name: str) -> None:
        with double() as server:
            policy = resolve(name, {}, settings=PolicySettings(url=server.url))
            assert policy.spec.name == name
            policy.close()

    def test_metadata_tell_servers_apart_unless_they_are_ignored(self) -> None:
        revisions = []
        said: list[tuple[dict[str, object], str]] = [
            ({}, "key"),
            ({"reset_pose": np.zeros(6)}, "key"),
            ({"reset_pose": np.ones(6)}, "key"),
            ({"started": 1.0}, "ignore"),
            ({"started": 2.0}, "ignore"),
        ]
        for told, how in said:
            with double(metadata=told) as server, asking(server.url, metadata=how) as policy:
                revisions.append(policy.spec.revision)
        assert len(set(revisions[:3])) == 3
        assert revisions[0] == revisions[3] == revisions[4]

    def test_where_it_listens_is_not_in_it(self) -> None:
        with double() as server, asking(server.url) as policy:
            port = server.url.rpartition(":")[2]
            assert port not in repr(policy.spec)


class TestBeforeTheFirstEpisode:
    def refused(self, url: str | None, token: str | None = None, **args: str) -> str:
        with pytest.raises(UsageError) as caught:
            openpi(**args, settings=PolicySettings(url=url, token=token, timeout_s=SHORT_S / 10))
        return str(caught.value)

    def test_nobody_listens(self) -> None:
        said = self.refused(f"ws://127.0.0.1:{closed_port()}")
        assert "no server answers" in said
        assert "refused" in said
        assert "serve_policy.py" in said

    def test_the_port_of_openpi_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []

        def connect(self: socket.socket, address: object) -> None:
            asked.append(address)
            raise ConnectionRefusedError("refused")

        monkeypatch.setattr(socket.socket, "connect", connect)
        assert "ws://127.0.0.1:8000" in self.refused(None)
        assert asked == [("127.0.0.1", 8000)]

    @pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://127.0.0.1:8000"])
    def test_an_address_that_is_no_websockets(self, url: str) -> None:
        assert "write ws://127.0.0.1:8000" in self.refused(url)

    def test_a_server_that_speaks_something_else(self) -> None:
        with serving(lambda peer: peer.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")) as url:
            assert "not one of its kind" in self.refused(url)

    @pytest.mark.parametrize(
        "first, words",
        [
            (TRACEBACK, "norm stats not found"),
            (b"\xc1", "not a msgpack message"),
            (b"\x90", "metadata is a list"),
            ({"vla_shift": {"version": 99}}, "another version"),
        ],
        ids=["text", "garbage", "list", "version"],
    )
    def test_metadata_that_are_none(self, first: Answer, words: str) -> None:
        with double(metadata=first) as server:
            assert words in self.refused(server.url)

    def test_no_metadata_come(self) -> None:
        def silent(peer: socket.socket) -> None:
            shake_hands(peer)
            peer.recv(1)

        with serving(silent) as url:
            assert "nothing complete came" in self.refused(url)

    def test_a_trial_that_fails_shows_the_servers_words(self) -> None:
        with double(lambda n, sent: TRACEBACK) as server:
            said = self.refused(server.url)
        assert "trial" in said
        assert "ValueError: norm stats not found" in said

    def test_a_trial_with_other_actions(self) -> None:
        with double(lambda n, sent: {"actions": np.zeros((10, 14))}) as server:
            said = self.refused(server.url)
        assert "'actions' is float64[10, 14]; expected real numbers [T, 7]" in said

    def test_a_chunk_that_is_too_small(self) -> None:
        with double() as server:
            assert "more than the 4" in self.refused(server.url, chunk="4")

    def test_arguments_that_are_none(self) -> None:
        assert "whole number" in self.refused("ws://127.0.0.1:1", chunk="ten")
        assert "neither key nor ignore" in self.refused("ws://127.0.0.1:1", metadata="no")
        assert "unknown profile 'robocasa'" in self.refused("ws://127.0.0.1:1", profile="robocasa")

    @pytest.mark.parametrize("module", ["msgpack", "websockets.sync.client"])
    def test_a_package_that_is_missing(self, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        said = self.refused("ws://127.0.0.1:1")
        assert "pip install 'pytest-vla-shift[openpi]'" in said
        assert module.partition(".")[0] in said

    def test_a_token_that_is_not_taken(self) -> None:
        def refuse(peer: socket.socket) -> None:
            request = peer.recv(4096)
            given = b"s3cret" if b"Authorization: Api-Key s3cret\r\n" in request else b"nothing"
            body = b"unknown key " + given
            peer.sendall(
                b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )

        with serving(refuse) as url:
            said = self.refused(url, token="s3cret")
        assert "HTTP 401 Unauthorized: unknown key ***" in said
        assert "s3cret" not in said


def test_sessions_have_connections_of_their_own() -> None:
    with double() as server, asking(server.url) as policy:
        other = policy.session()
        assert other.spec == policy.spec
        other.reset(INFO, 0)
        other.act(libero_observation())
        policy.act(libero_observation())
        assert server.clients == 2
        other.close()
        policy.act(libero_observation())


def test_the_profile_is_complete() -> None:
    profile = read_profile("openpi-libero")
    assert profile.wire == "openpi"
    assert (profile.chunk, profile.replan) == (10, 5)
    assert [image.orientation for image in profile.images] == ["mirrored", "mirrored"]
    assert [image.camera for image in profile.images] == ["agentview", "robot0_eye_in_hand"]


def test_the_example_for_robocasa_can_be_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "policies.md").read_text("utf-8")
    example = page.split("```toml\n# my-robocasa.toml\n")[1].split("```")[0]
    profile = parse_profile(tomllib.loads(example), "my-robocasa", "policies.md")
    assert profile.wire == "openpi"
    assert profile.states[0].width == 9
    assert profile.action_widths == {"actions": 12}


def test_a_double_that_is_closed_frees_its_port() -> None:
    server = Double()
    server.close()
    server.close()
    with pytest.raises(UsageError, match="refused"):
        openpi(settings=PolicySettings(url=server.url))
