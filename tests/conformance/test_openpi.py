"""Ours and openpi's own: client against server, server against client, bytes against bytes.

openpi-client 0.1.2 and openpi-server 0.1.0; see requirements.txt. The client asks its connection in
a way that newer releases of websockets warn about.
"""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from openpi_client import image_tools, msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from openpi_server import WebsocketPolicyServer

from pytest_vla_shift.policies import mapping
from pytest_vla_shift.policies.baselines import Random
from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.pictures import to_profile
from pytest_vla_shift.policies.profile import ImageMap, find_profile
from pytest_vla_shift.policies.recognise import kind_at
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.openpi import open_service
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from tests.fakes.noting_policies import Recording
from tests.fakes.services import answering
from tests.policies.openpi_peers import INFO, libero_observation
from tests.policies.websocket_peers import closed_port

pytestmark = pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")


def test_versions() -> None:
    assert version("openpi-client") == "0.1.2"
    assert version("openpi-server") == "0.1.0"


class Model:
    """Behind the real server: answers what it saw, and raises when told to."""

    def __init__(self) -> None:
        self.seen: list[dict[str, object]] = []

    def infer(self, obs: dict[str, object]) -> dict[str, object]:
        self.seen.append(obs)
        if obs["prompt"] == "raise":
            raise ValueError("norm stats not found")
        state = obs["observation/state"]
        assert isinstance(state, np.ndarray)
        actions = np.tile(np.clip(state[:7], -1, 1), (10, 1)).astype(np.float32)
        return {"actions": actions, "state": state, "policy_timing": {"infer_ms": 1.0}}


@contextmanager
def real_server(model: Model, metadata: dict[str, object] | None = None) -> Iterator[str]:
    """The URL of openpi's own server."""
    port = closed_port()
    server = WebsocketPolicyServer(model, "127.0.0.1", port, metadata)
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.run())

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_healthy(f"http://127.0.0.1:{port}/healthz")
        yield f"ws://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def wait_healthy(url: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.read() == b"OK\n"
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"{url} does not answer")


def test_it_is_recognised_by_whoever_takes_it_for_another() -> None:
    with real_server(Model()) as url:
        assert kind_at(url) == "openpi"


class TestOurClientAndTheirServer:
    def test_a_rollout(self) -> None:
        model = Model()
        with real_server(model) as url:
            policy = openpi(settings=PolicySettings(url=url))
            assert policy.spec.chunk == 10
            assert not policy.spec.seedable
            policy.reset(INFO, 0)
            for step in range(3):
                observation = libero_observation(step)
                found = policy.act(observation)
                state = mapping.payload(policy.profile, observation)["observation/state"]
                assert isinstance(state, np.ndarray)
                wanted = np.clip(state[:7].astype(float), -1, 1).astype(np.float32)
                np.testing.assert_array_equal(found, np.tile(wanted, (10, 1)))
            policy.close()
        assert len(model.seen) == 4  # with the trial
        last = model.seen[-1]
        assert list(last) == [
            "observation/image",
            "observation/wrist_image",
            "observation/state",
            "prompt",
        ]

    def test_a_traceback_and_code_1011(self) -> None:
        with real_server(Model()) as url:
            policy = openpi(settings=PolicySettings(url=url))
            policy.reset(INFO, 0)
            observation = libero_observation()
            broken = type(observation)(observation.images, observation.proprio, "raise", 0)
            with pytest.raises(PolicyServerError, match="ValueError: norm stats not found"):
                policy.act(broken)
            policy.reset(INFO, 0)
            assert policy.act(observation).shape == (10, 7)
            policy.close()

    def test_metadata(self) -> None:
        with real_server(Model(), {"reset_pose": [0.0, 1.0]}) as url:
            policy = openpi(settings=PolicySettings(url=url))
            assert "metadata" in policy.spec.revision
            policy.close()

    def test_an_inference_that_blocks_the_servers_loop(self) -> None:
        """Nobody answers pings meanwhile; ours are off."""
        model = Model()
        with real_server(model) as url:
            policy = openpi(settings=PolicySettings(url=url, timeout_s=0.2))
            policy.reset(INFO, 0)
            infer = model.infer
            slow = threading.Event()

            def once(obs: dict[str, object]) -> dict[str, object]:
                if not slow.is_set():
                    slow.set()
                    time.sleep(0.5)
                    return {"actions": np.full((10, 7), 0.9)}
                return infer(obs)

            model.infer = once  # type: ignore[method-assign]
            with pytest.raises(PolicyServerError, match=r"within 0\.2 s"):
                policy.act(libero_observation())
            time.sleep(0.5)
            policy.reset(INFO, 0)
            assert not (policy.act(libero_observation()) == 0.9).any()
            policy.close()


@contextmanager
def our_server(token: str | None = None) -> Iterator[str]:
    """The URL of ours, with the policy ``random`` behind it."""
    host = Host(Random(), find_profile("libero", "openpi"))
    with answering(open_service(host, port=0, token=token)) as service:
        yield service.url


def stock_observation(prompt: str = INFO.instruction) -> dict[str, object]:
    return {
        "observation/image": np.zeros((224, 224, 3), np.uint8),
        "observation/wrist_image": np.zeros((224, 224, 3), np.uint8),
        "observation/state": np.zeros(8),
        "prompt": prompt,
    }


class TestTheirClientAndOurServer:
    def test_a_rollout(self) -> None:
        with our_server() as url:
            wait_healthy(url.replace("ws:", "http:") + "/healthz")
            client = WebsocketClientPolicy(url)
            assert set(client.get_server_metadata()) == {"vla_shift"}
            answers = [client.infer(stock_observation()) for _ in range(3)]
            assert all(answer["actions"].shape == (8, 7) for answer in answers)
            assert answers[0]["server_timing"]["infer_ms"] > 0.0
            client._ws.close()

    def test_a_rollout_begins_with_another_prompt(self) -> None:
        """Nothing on this wire says so; ``random`` begins anew with the same seed."""
        with our_server() as url:
            client = WebsocketClientPolicy(url)
            first, second, third = (
                client.infer(stock_observation(prompt))["actions"]
                for prompt in ("open the drawer", "open the drawer", "close the drawer")
            )
            assert not np.array_equal(first, second)
            np.testing.assert_array_equal(first, third)
            client._ws.close()

    def test_an_error_is_text_and_the_end(self) -> None:
        with our_server() as url:
            client = WebsocketClientPolicy(url)
            with pytest.raises(RuntimeError) as caught:
                client.infer({"prompt": "no state"})
            assert "Error in inference server" in str(caught.value)
            assert "'observation/state' is missing" in str(caught.value)
            assert "/" not in str(caught.value).replace("observation/", "")
            with pytest.raises(Exception, match="1011"):
                client.infer(stock_observation())

    def test_a_client_too_many_can_read_why(self) -> None:
        host = Host(Recording(), find_profile("libero", "openpi"))
        with answering(open_service(host, port=0)) as service:
            first = WebsocketClientPolicy(service.url)
            with pytest.raises(Exception, match=r"1013 .*serves one client at a time"):
                WebsocketClientPolicy(service.url)
            assert first.infer(stock_observation())["actions"].shape == (4, 7)
            first._ws.close()

    def test_a_key(self) -> None:
        with our_server(token="s3cret") as url:
            with pytest.raises(Exception, match="401"):
                WebsocketClientPolicy(url)
            with pytest.raises(Exception, match="401"):
                WebsocketClientPolicy(url, api_key="wrong")
            client = WebsocketClientPolicy(url, api_key="s3cret")
            assert client.infer(stock_observation())["actions"].shape == (8, 7)
            client._ws.close()
            policy = openpi(settings=PolicySettings(url=url, token="s3cret"))
            policy.close()
            with pytest.raises(UsageError, match="401"):
                openpi(settings=PolicySettings(url=url))


class TestBytes:
    def test_an_observation_of_libero(self) -> None:
        """As examples/libero/main.py makes it of what LIBERO's renderer gives, upside down."""
        observation = libero_observation()
        raw = {camera: image[::-1] for camera, image in observation.images.items()}

        def picture(camera: str) -> NDArray[np.uint8]:
            turned = np.ascontiguousarray(raw[camera][::-1, ::-1])
            found: NDArray[np.uint8] = image_tools.convert_to_uint8(
                image_tools.resize_with_pad(turned, 224, 224)
            )
            return found

        transform_utils = pytest.importorskip("robosuite.utils.transform_utils")
        theirs: Mapping[str, object] = {
            "observation/image": picture("agentview"),
            "observation/wrist_image": picture("robot0_eye_in_hand"),
            "observation/state": np.concatenate(
                (
                    observation.proprio["eef_pos"],
                    transform_utils.quat2axisangle(observation.proprio["eef_quat"].copy()),
                    observation.proprio["gripper_qpos"],
                )
            ),
            "prompt": observation.instruction,
        }
        ours = mapping.payload(find_profile("libero", "openpi"), observation)
        frame = pack(ours)
        assert frame == msgpack_numpy.Packer().pack(theirs)
        # Two pictures, eight numbers, the sentence, and little else.
        assert 0 < len(frame) - 2 * 224 * 224 * 3 - 64 - len(observation.instruction) < 300

    @settings(deadline=None, max_examples=100)
    @given(
        st.recursive(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-(2**63), 2**64 - 1),
                st.floats(allow_nan=False),
                st.text(max_size=40),
                st.binary(max_size=40),
                st.sampled_from(
                    [
                        np.zeros((2, 3), np.float32),
                        np.arange(12).reshape(3, 4)[::-1, ::-1],
                        np.array(5, np.uint8),
                        np.float32(0.1),
                        np.float64(0.1),
                        np.int16(-3),
                        np.bool_(True),
                        np.array(["pick", "place"]),
                    ]
                ),
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
            ),
            max_leaves=12,
        )
    )
    def test_any_message(self, message: object) -> None:
        frame = pack(message)
        assert frame == msgpack_numpy.packb(message)
        assert repr(read(frame)) == repr(msgpack_numpy.unpackb(frame))


SIZES = [
    (224, 224),
    (256, 256),
    (128, 128),
    (512, 512),
    (480, 640),
    (640, 480),
    (360, 640),
    (223, 225),
    (100, 333),
    (1, 50),
    (720, 90),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("wanted", [(224, 224), (180, 320)], ids=["square", "wide"])
def test_pictures_are_resized_bit_for_bit(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    image = ImageMap("observation/image", "agentview", "upright", wanted, "pad")
    theirs = image_tools.convert_to_uint8(image_tools.resize_with_pad(picture, *wanted))
    np.testing.assert_array_equal(to_profile(image, picture), theirs)
