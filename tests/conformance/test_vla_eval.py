"""Against vla-eval 0.8.0 itself: its server for our client, its client for our server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from vla_eval.api import serve_background
from vla_eval.benchmarks.libero.benchmark import LIBEROBenchmark
from vla_eval.connection import Connection
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.protocol.messages import Message as OfficialMessage
from vla_eval.protocol.messages import MessageType, pack_message, unpack_message
from vla_eval.protocol.numpy_codec import set_image_format
from vla_eval.specs import (
    GRIPPER_CLOSE_POS,
    IMAGE_RGB,
    LANGUAGE,
    POSITION_DELTA,
    ROTATION_AA,
    STATE_EEF_POS_AA_GRIP,
)

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.recognise import kind_at
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from pytest_vla_shift.policies.wires.vla_eval_terms import nested
from pytest_vla_shift.protocol.errors import PolicyServerError
from tests.policies.observations import INFO
from tests.policies.shipped_profiles import observation_for
from tests.policies.vla_eval_peers import Looker, served

LIBERO = read_profile("vla-eval-libero")
LOOK = observation_for(LIBERO)
SENT = nested(payload(LIBERO, LOOK))
CHUNK = np.arange(28, dtype=np.float32).reshape(4, 7) / 28.0


class Server(PredictModelServer):  # type: ignore[misc]
    """What a user of vla-eval writes, with a model that counts."""

    def __init__(self, chunk_size: int | None) -> None:
        super().__init__(chunk_size=chunk_size)
        self.observations: list[dict[str, Any]] = []
        self.episodes: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.fails = ""

    def predict(self, obs: Any, ctx: Any) -> dict[str, Any]:
        if self.fails == "predict":
            raise ValueError("bad obs")
        self.observations.append(obs)
        return {"actions": CHUNK}

    async def on_episode_start(self, config: Any, ctx: Any) -> None:
        if self.fails == "start":
            raise RuntimeError("no memory")
        self.episodes.append(config)
        await super().on_episode_start(config, ctx)

    async def on_episode_end(self, result: Any, ctx: Any) -> None:
        self.ends.append(result)
        await super().on_episode_end(result, ctx)

    def get_observation_params(self) -> dict[str, Any]:
        return {"send_wrist_image": True, "send_state": True, "quat_no_antipodal": True}

    def get_action_spec(self) -> dict[str, Any]:
        return {"position": POSITION_DELTA, "rotation": ROTATION_AA, "gripper": GRIPPER_CLOSE_POS}

    def get_observation_spec(self) -> dict[str, Any]:
        return {
            "image": IMAGE_RGB,
            "wrist": IMAGE_RGB,
            "state": STATE_EEF_POS_AA_GRIP,
            "language": LANGUAGE,
        }


@contextmanager
def connected(server: Server, timeout_s: float = 10.0) -> Iterator[RemotePolicy]:
    with serve_background(server) as handle:
        policy = vla_eval(settings=PolicySettings(url=handle.url, timeout_s=timeout_s))
        try:
            yield policy
        finally:
            policy.close()


def test_the_package_is_the_one_that_was_meant() -> None:
    assert version("vla-eval") == "0.8.0"


def test_it_is_recognised_by_whoever_takes_it_for_another() -> None:
    with serve_background(Server(1)) as handle:
        assert kind_at(handle.url.replace("ws://", "tcp://")) == "vla-eval"


def test_a_server_without_a_chunk_buffer_is_asked_once_a_chunk() -> None:
    server = Server(None)
    with connected(server) as policy:
        assert (policy.spec.chunk, policy.spec.replan) == (4, 4)
        assert all(row.fits for row in policy._first.greeting.rows)
        policy.reset(INFO, 0)
        found = policy.act(LOOK)
    expected = CHUNK.astype(np.float64)
    expected[:, 6] = 1.0
    np.testing.assert_array_equal(found, expected)


def test_a_server_with_a_chunk_buffer_is_asked_at_every_step() -> None:
    server = Server(4)
    with connected(server) as policy:
        assert (policy.spec.chunk, policy.spec.replan) == (1, 1)
        policy.reset(INFO, 0)  # what is left of the trial's chunk is gone
        found = [policy.act(LOOK)[0] for _ in range(6)]
        policy.reset(INFO, 0)
        again = policy.act(LOOK)[0]
    for step in range(6):
        np.testing.assert_array_equal(found[step][:6], CHUNK[step % 4, :6].astype(np.float64))
    np.testing.assert_array_equal(again, found[0])
    assert len(server.observations) == 1 + 2 + 1  # the trial, six steps, one step


def test_what_the_server_sees_is_what_its_own_benchmark_sends() -> None:
    """Keys, their order, types and numbers: of LIBEROBenchmark's own code, on the same world."""
    server = Server(None)
    with connected(server) as policy:
        policy.reset(INFO, 0)
        policy.act(LOOK)
    seen = server.observations[-1]
    proprio = LOOK.proprio
    quat = proprio["controller_quat"]

    class Controller:
        ee_pos = proprio["controller_pos"]
        ee_ori_mat = _matrix(quat)

    class Robot:
        controller = Controller()

    class World:
        robots = (Robot(),)

    benchmark = LIBEROBenchmark(send_wrist_image=True, send_state=True, quat_no_antipodal=True)
    benchmark._env = World()
    official = benchmark.make_obs(
        {
            # The renderer's pictures are upside down.
            "agentview_image": LOOK.images["agentview"][::-1],
            "robot0_eye_in_hand_image": LOOK.images["robot0_eye_in_hand"][::-1],
            "robot0_eef_pos": proprio["eef_pos"],
            "robot0_eef_quat": proprio["eef_quat"],
            "robot0_gripper_qpos": proprio["gripper_qpos"],
        },
        {"name": LOOK.instruction},
    )
    assert set(seen) == set(official)
    assert list(seen["images"]) == list(official["images"])
    for name in official["images"]:
        np.testing.assert_array_equal(seen["images"][name], official["images"][name])
    assert seen["task_description"] == official["task_description"]
    assert seen["states"].dtype == official["states"].dtype
    np.testing.assert_array_equal(seen["states"], official["states"])
    assert seen["controller_states"].dtype == official["controller_states"].dtype
    np.testing.assert_allclose(
        seen["controller_states"], official["controller_states"], rtol=0, atol=1e-6
    )


def test_episodes_begin_and_end_as_the_server_expects() -> None:
    server = Server(None)
    with connected(server) as policy:
        for _ in range(2):
            policy.reset(INFO, 0)
            policy.act(LOOK)
    tasks = [episode["task"]["suite"] for episode in server.episodes]
    assert tasks == ["libero_spatial", "libero_object", "libero_object"]
    assert [end["steps"] for end in server.ends[:2]] == [1, 1]
    assert server.ends[2:] == [{}]  # of the last one the server takes care when the client goes


def test_what_the_model_raises_comes_with_its_words_and_the_next_rollout_is_well() -> None:
    server = Server(None)
    with connected(server) as policy:
        policy.reset(INFO, 0)
        server.fails = "predict"
        with pytest.raises(PolicyServerError, match="observation_failed: ValueError: bad obs"):
            policy.act(LOOK)
        server.fails = ""
        policy.reset(INFO, 0)
        assert policy.act(LOOK).shape == (4, 7)


def test_an_episode_that_cannot_begin_is_not_taken_for_an_answer() -> None:
    server = Server(None)
    with connected(server) as policy:
        server.fails = "start"
        policy.reset(INFO, 0)
        with pytest.raises(PolicyServerError, match="episode_start_failed: RuntimeError: no mem"):
            policy.act(LOOK)


def test_a_server_that_closes_without_a_word_is_explained() -> None:
    with connected(Server(None)) as policy:
        policy.reset(INFO, 0)
        socket: Any = policy._first.wire
        socket._socket.send(b"\xc1", time.monotonic() + 10.0)
        with pytest.raises(PolicyServerError, match=r"code 1000.*its own log"):
            policy.act(LOOK)


def test_sessions_are_connections_of_their_own() -> None:
    server = Server(4)
    with connected(server) as policy:
        other = policy.session()
        policy.reset(INFO, 0)
        other.reset(INFO, 0)
        first = [policy.act(LOOK)[0], other.act(LOOK)[0]]
        np.testing.assert_array_equal(first[0], first[1])  # each has a chunk buffer of its own
        other.close()


def test_bytes_are_those_of_the_official_encoder() -> None:
    """Pictures as well, once its own encoder is told to leave them raw."""
    official = OfficialMessage(MessageType.OBSERVATION, SENT, seq=3, timestamp=1.5)
    ours = pack(Message("observation", SENT, 3, 1.5))
    set_image_format("raw")
    try:
        assert ours == pack_message(official)
    finally:
        set_image_format("png")
    found = unpack_message(ours).payload
    np.testing.assert_array_equal(found["states"], LOOK_STATES)


LOOK_STATES: Any = SENT["states"]


@pytest.mark.parametrize("form", ["raw", "png", "jpeg"])
def test_pictures_of_the_official_encoder_are_read(form: str) -> None:
    smooth = np.tile(np.arange(64, dtype=np.uint8)[None, :, None], (48, 1, 3))
    official = OfficialMessage(MessageType.OBSERVATION, {"x": smooth}, seq=1, timestamp=0.0)
    set_image_format(form)
    try:
        found: Any = read(pack_message(official)).payload["x"]
    finally:
        set_image_format("png")
    assert found.shape == smooth.shape
    assert np.abs(found.astype(int) - smooth).max() <= (3 if form == "jpeg" else 0)


def run(url: str, talk: Callable[[Any], Any]) -> Any:
    """What ``talk`` gives for a real connection to ``url``."""

    async def whole() -> Any:
        connection = Connection(url, timeout=10.0, max_retries=1)
        await connection.connect(benchmark="a benchmark")
        try:
            return await talk(connection)
        finally:
            await connection.close()

    return asyncio.run(whole())


def test_the_real_client_runs_an_episode_on_our_server() -> None:
    looker = Looker()

    async def episode(connection: Any) -> Any:
        info = connection.server_info
        await connection.start_episode({"task": {"name": LOOK.instruction, "suite": "x"}})
        actions = [(await connection.act(SENT))["actions"] for _ in range(4)]
        await connection.end_episode({"metrics": {"success": True}, "steps": 4})
        return info, actions

    with served(looker) as url:
        info, actions = run(url, episode)
    assert info["observation_params"] == {"send_wrist_image": True, "send_state": True}
    np.testing.assert_allclose(
        [action[:2] * 100 for action in actions], [[1, 0], [1, 1], [1, 2], [2, 0]], atol=1e-5
    )
    assert len(looker.begun) == 1
    # It sends pictures as PNG; they arrive as they were.
    np.testing.assert_array_equal(looker.seen[0].images["agentview"], LOOK.images["agentview"])


def test_the_real_client_is_told_what_went_wrong_and_can_go_on() -> None:
    looker = Looker()

    async def talk(connection: Any) -> Any:
        looker.fails = "act"
        with pytest.raises(RuntimeError, match=r"observation_failed: .*bad observation"):
            await connection.act(SENT)
        looker.fails = ""
        return await connection.act(SENT)

    with served(looker) as url:
        assert "actions" in run(url, talk)


def test_the_harness_takes_our_specs_for_its_own() -> None:
    """What it would warn of at the start of an evaluation: nothing."""
    from vla_eval.specs import DimSpec, check_specs

    async def info(connection: Any) -> Any:
        return connection.server_info

    with served(Looker()) as url:
        said = run(url, info)
    benchmark = LIBEROBenchmark(send_wrist_image=True, send_state=True)
    ours = [
        {key: DimSpec.from_dict(raw) for key, raw in said[name].items()}
        for name in ("action_spec", "observation_spec")
    ]
    assert not check_specs(
        ours[0], benchmark.get_action_spec(), ours[1], benchmark.get_observation_spec()
    )


def _matrix(quat: Any) -> Any:
    from vla_eval.rotation import quat_to_matrix

    return quat_to_matrix(quat)
