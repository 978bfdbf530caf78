"""A policy of ours as a GR00T server: for our own client, for stock ones, and for bad ones."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import zmq

from pytest_vla_shift.policies.gr00t import gr00t
from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import Profile, find_profile
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.serving.gr00t import open_service
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.gr00t_codec import Arrays, Modality, decode, encode
from pytest_vla_shift.policies.wires.gr00t_layout import flat, nested, unbatched
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import Observation, PrivilegedState
from tests.fakes.gr00t_peers import array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.wires.gr00t import Api
    from pytest_vla_shift.protocol.observation import EpisodeInfo

PROFILE = find_profile("libero", "gr00t")
SENT = payload(PROFILE, probe_observation(PROFILE))


class Recording:
    """Answers its seed, its step and the gripper, and keeps what it was shown."""

    def __init__(self, action_dim: int = 7, **spec: object) -> None:
        self.spec = PolicySpec(
            name="recording",
            revision="1",
            cameras=("agentview", "robot0_eye_in_hand"),
            action_dim=action_dim,
            chunk=4,
            replan=2,
            seeded=True,
            **spec,  # type: ignore[arg-type]
        )
        self.begun: list[tuple[EpisodeInfo, int]] = []
        self.seen: list[Observation] = []

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self.begun.append((episode, seed))

    def act(self, observation: Observation) -> NDArray[np.float64]:
        self.seen.append(observation)
        actions = np.zeros((4, self.spec.action_dim))
        actions[:, 0] = self.begun[-1][1] / 1000
        actions[:, 1] = observation.step / 1000
        actions[:, 2] = 0.1 + np.arange(4) / 100
        actions[:, 6] = [1.0, -1.0, -1.0, 1.0]
        return actions

    def close(self) -> None:
        pass


class WithSessions(Recording):
    def session(self) -> WithSessions:
        return WithSessions()


@contextlib.contextmanager
def serving(
    policy: Policy,
    profile: Profile = PROFILE,
    *,
    token: str | None = None,
    api: Api = "n1.6",
    arrays: Arrays | None = None,
    port: int = 0,
) -> Iterator[str]:
    service = open_service(Host(policy, profile), port=port, token=token, api=api, arrays=arrays)
    thread = threading.Thread(target=service.serve)
    thread.start()
    try:
        yield service.url
    finally:
        service.close()
        thread.join(10)
        assert not thread.is_alive()


@contextlib.contextmanager
def remote(url: str, *, token: str | None = None, **args: str) -> Iterator[RemotePolicy]:
    policy = gr00t(settings=PolicySettings(url=url, timeout_s=5, token=token), **args)
    with contextlib.closing(policy):
        yield policy


class Raw:
    """A stock client's transport: a REQ socket, msgpack, nothing else."""

    def __init__(self, url: str, kind: int = zmq.REQ) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.connect(url)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close(0)

    def send(self, data: bytes) -> object:
        self.socket.send(data)
        return decode(self.socket.recv())

    def call(self, endpoint: str, data: object = None, **more: object) -> object:
        return self.send(encode({"endpoint": endpoint, "data": data, **more}))


TRUTH = PrivilegedState({"bowl": np.array([0.1, 0.2, 0.3])}, {}, {"knob": 0.5})


@pytest.mark.parametrize("arrays", ["npy", "msgpack-numpy"])
def test_our_client_gets_the_policys_own_numbers_through_our_server(arrays: Arrays) -> None:
    policy = Recording(privileged=True)
    observation = replace(probe_observation(PROFILE), step=30, privileged=TRUTH)
    with serving(policy, arrays=arrays) as url, remote(url) as client:
        assert client.spec.privileged
        assert client.spec.seeded
        assert (client.spec.chunk, client.spec.replan) == (4, 2)
        assert client.spec.cameras == policy.spec.cameras
        client.reset(EPISODE, 2**32 - 1)
        actions = client.act(observation)
    np.testing.assert_array_equal(actions, policy.act(observation))
    assert policy.begun == [(EPISODE, 2**32 - 1)]
    seen = policy.seen[0]
    assert seen.step == 30
    assert seen.privileged is not None
    np.testing.assert_array_equal(seen.privileged.positions["bowl"], [0.1, 0.2, 0.3])
    assert seen.privileged.joints == {"knob": 0.5}
    assert seen.proprio.keys() == observation.proprio.keys()
    for name, vector in observation.proprio.items():
        np.testing.assert_array_equal(seen.proprio[name], vector, strict=True)
    for camera, image in observation.images.items():
        np.testing.assert_array_equal(seen.images[camera], image, strict=True)
    assert seen.instruction == observation.instruction


def test_a_gripper_that_stays_as_it_is_comes_back_to_the_bit() -> None:
    class Still(Recording):
        def act(self, observation: Observation) -> NDArray[np.float64]:
            return np.zeros((4, 7))

    with serving(Still()) as url, remote(url) as client:
        client.reset(EPISODE, 1)
        # A zero with a sign is another number to the digest of a rollout's actions.
        assert client.act(probe_observation(PROFILE)).tobytes() == bytes(4 * 7 * 8)


@pytest.mark.parametrize("arrays", ["npy", "msgpack-numpy"])
def test_our_client_understands_our_n15_server(arrays: Arrays) -> None:
    policy = Recording()
    observation = probe_observation(PROFILE)
    with serving(policy, arrays=arrays, api="n1.5") as url, remote(url) as client:
        assert "N1.5" in client.spec.revision
        assert not client.spec.seedable
        assert client.spec.chunk == 4
        client.reset(EPISODE, 5)
        actions = client.act(observation)
    np.testing.assert_allclose(actions[:, 2], [0.1, 0.11, 0.12, 0.13], rtol=1e-6)
    np.testing.assert_array_equal(actions[:, 6], [1.0, -1.0, -1.0, 1.0])
    seen = policy.seen[-1]
    np.testing.assert_array_equal(seen.images["agentview"], observation.images["agentview"])
    np.testing.assert_allclose(seen.proprio["eef_pos"], observation.proprio["eef_pos"], rtol=1e-6)


def test_pictures_are_mirrored_on_the_wire_and_upright_for_the_policy() -> None:
    picture = np.zeros((256, 256, 3), np.uint8)
    picture[:10, :20] = (255, 0, 0)  # top left, as a viewer sees it
    observation = replace(
        probe_observation(PROFILE),
        images={"agentview": picture, "robot0_eye_in_hand": picture},
    )
    np.testing.assert_array_equal(
        array(flat(payload(PROFILE, observation)), "video.image")[0, 0, :10, -20:],
        np.broadcast_to(np.array([255, 0, 0], np.uint8), (10, 20, 3)),
    )
    policy = Recording()
    with serving(policy) as url, remote(url) as client:
        client.reset(EPISODE, 5)
        client.act(observation)
    np.testing.assert_array_equal(policy.seen[-1].images["agentview"], picture)
    np.testing.assert_array_equal(policy.seen[-1].images["robot0_eye_in_hand"], picture)


@pytest.mark.parametrize("layout", ["flat", "nested"])
@pytest.mark.parametrize("arrays", ["npy", "msgpack-numpy"])
def test_a_stock_client_is_answered_as_stock_servers_do(layout: str, arrays: Arrays) -> None:
    policy = Recording()
    sent = flat(SENT) if layout == "flat" else nested(SENT)
    with serving(policy, arrays=arrays) as url, Raw(url) as client:
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}
        assert client.call("reset", {"options": {"seed": 5}}) == {}
        answer = client.call("get_action", {"observation": sent, "options": None})
    assert isinstance(answer, list)
    actions, information = answer
    assert information == {}
    assert list(actions) == [
        key if layout == "flat" else key.removeprefix("action.") for key in PROFILE.action_widths
    ]
    for action in actions.values():
        assert action.shape == (1, 4, 1)
        assert action.dtype == np.float32
    gripper = actions["action.gripper" if layout == "flat" else "gripper"]
    np.testing.assert_array_equal(gripper[0, :, 0], [0.0, 1.0, 1.0, 0.0])  # 0 closes
    assert policy.begun[0][0].instruction == SENT[PROFILE.instruction]
    assert policy.begun[0][1] == 5


def test_a_stock_client_may_write_arrays_either_way_and_is_answered_in_its_own() -> None:
    request = {"data": {"observation": flat(SENT)}}  # without an endpoint
    with serving(Recording()) as url, Raw(url) as client:
        markers: dict[Arrays, bytes] = {"npy": b"as_npy", "msgpack-numpy": b"\xc4\x02nd\xc3"}
        for arrays, marker in markers.items():
            client.socket.send(encode(request, arrays))
            reply = client.socket.recv()
            assert marker in reply
            answer = decode(reply)
            assert isinstance(answer, list)
            assert array(answer[0], "action.x").shape == (1, 4, 1)


@pytest.mark.parametrize("batched", [False, True])
def test_a_stock_n15_client_is_answered_as_n15_does(batched: bool) -> None:
    sent = flat(SENT) if batched else unbatched(SENT)
    with serving(Recording(), api="n1.5") as url, Raw(url) as client:
        assert client.call("reset", {"options": None}) == {"error": "Unknown endpoint: reset"}
        config = client.call("get_modality_config")
        answer = client.call("get_action", sent)
    assert isinstance(config, dict)
    assert config["action"] == Modality(tuple(PROFILE.action_widths), (0, 1, 2, 3))
    assert config["video"].keys == ("video.image", "video.wrist_image")
    assert "vla_shift" not in config
    assert array(answer, "action.x").shape == ((1, 4, 1) if batched else (4,))


def test_the_configuration_is_the_profiles() -> None:
    with serving(Recording()) as url, Raw(url) as client:
        config = client.call("get_modality_config")
    assert isinstance(config, dict)
    assert config["video"] == Modality(("image", "wrist_image"), (0,))
    assert config["state"] == Modality(("x", "y", "z", "roll", "pitch", "yaw", "gripper"), (0,))
    assert config["action"] == Modality(
        ("x", "y", "z", "roll", "pitch", "yaw", "gripper"), (0, 1, 2, 3)
    )
    assert config["language"] == Modality((PROFILE.instruction,), (0,))


def changed(key: str, value: object) -> dict[str, object]:
    return {"observation": {**flat(SENT), key: value}, "options": None}


BAD: list[tuple[bytes, str]] = [
    (b"\xc1", "msgpack"),
    (b"", "msgpack"),
    (encode([]), "a request is a map"),
    (encode({"endpoint": "nope"}), "Unknown endpoint: nope"),
    (encode({"endpoint": "kill"}), "Unknown endpoint: kill"),
    (encode({"endpoint": 5}), "Unknown endpoint: 5"),
    (encode({"endpoint": "get_action"}), "'video.image' must be in observation"),
    (encode({"endpoint": "get_action", "data": [1]}), "'data' is a map"),
    (encode({"endpoint": "reset", "data": {"options": 5}}), "'options' is a map"),
    (encode({"endpoint": "reset", "data": {"options": {"seed": "x"}}}), "a seed is"),
    (
        encode({"endpoint": "reset", "data": {"options": {"vla_shift": {"episode": 5}}}}),
        "'episode' must be list",
    ),
    *(
        (encode({"endpoint": "get_action", "data": data}), words)
        for data, words in [
            (changed("video.image", np.zeros((1, 1, 8, 8, 3), np.float32)), "expected uint8"),
            (changed("video.image", np.zeros((1, 8, 8, 3), np.uint8)), "5 dimensions"),
            (changed("video.image", np.zeros((5, 1, 8, 8, 3), np.uint8)), "one observation"),
            (changed("video.image", "text"), "is a str"),
            (changed("state.x", np.zeros((1, 1, 1))), "float64[1, 1, 1]; expected float32"),
            (changed("state.x", np.zeros((1, 1, 2), np.float32)), "expected [1]"),
            (changed("state.x", np.zeros((1, 2, 1), np.float32)), "of one moment"),
            (changed(PROFILE.instruction, ["a", "b"]), "one sentence"),
            (changed(PROFILE.instruction, 5), "one sentence"),
        ]
    ),
]


def test_no_request_ends_the_server_and_each_is_told_what_is_wrong() -> None:
    with serving(Recording()) as url, Raw(url) as client:
        for request, words in BAD:
            answer = client.send(request)
            assert isinstance(answer, dict)
            assert list(answer) == ["error"]
            assert words in answer["error"]
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}


def test_a_policy_that_raises_is_the_clients_error_and_goes_on() -> None:
    class Failing(Recording):
        def act(self, observation: Observation) -> NDArray[np.float64]:
            if len(self.seen) == 1:
                self.seen.append(observation)
                raise RuntimeError("CUDA out of memory")
            return super().act(observation)

    with serving(Failing()) as url, remote(url) as client:
        client.reset(EPISODE, 1)
        with pytest.raises(PolicyServerError, match="CUDA out of memory"):
            client.act(probe_observation(PROFILE))
        with pytest.raises(PolicyServerError, match="no rollout has begun since"):
            client.act(probe_observation(PROFILE))
        client.reset(EPISODE, 1)
        assert client.act(probe_observation(PROFILE)).shape == (4, 7)


def test_a_frame_too_many_is_an_error_and_nothing_more() -> None:
    with serving(Recording()) as url, Raw(url, zmq.DEALER) as client:
        for frames in (
            [b"", b"\x80", b"\x80"],
            [b"", encode({"endpoint": "ping"}), b""],
            [b""],
        ):
            client.socket.send_multipart(frames)
        client.socket.send_multipart([b"way", b"back", b"", encode({"endpoint": "ping"})])
        while (reply := client.socket.recv_multipart())[:3] != [b"way", b"back", b""]:
            assert "error" in decode(reply[-1])  # type: ignore[operator]
        assert decode(reply[3]) == {"status": "ok", "message": "Server is running"}


def test_a_client_without_an_envelope_is_answered_without_one() -> None:
    with serving(Recording()) as url, Raw(url, zmq.DEALER) as client:
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}


def test_only_the_token_opens_and_it_is_never_told() -> None:
    with serving(Recording(), token="open sesame") as url:
        with Raw(url) as client:
            for token in ({}, {"api_token": "wrong"}, {"api_token": None}, {"api_token": [1]}):
                answer = client.call("ping", **token)
                assert answer == {"error": "Unauthorized: Invalid API token"}
        with (
            pytest.raises(UsageError, match="Unauthorized") as caught,
            remote(url, token="a wrong one"),
        ):
            pass
        assert "a wrong one" not in str(caught.value)
        with remote(url, token="open sesame") as policy:
            assert "sesame" not in repr(policy.spec)
            assert "sesame" not in policy.spec.revision


def test_a_token_that_a_server_repeats_is_struck_out() -> None:
    from tests.fakes.gr00t_peers import running, stock

    error = {"error": "no model for token s3cr3t-token"}
    with (
        running(stock(PROFILE, ping=error)) as stub,
        pytest.raises(UsageError, match=r"no model for token \*\*\*") as caught,
        remote(stub.url, token="s3cr3t-token"),
    ):
        pass
    assert "s3cr3t" not in str(caught.value)


def test_two_clients_of_a_policy_with_sessions_do_not_meet() -> None:
    with serving(WithSessions()) as url, remote(url) as first, remote(url) as second:
        first.reset(EPISODE, 1)
        second.reset(EPISODE, 2)
        seeds = [client.act(probe_observation(PROFILE))[0, 0] for client in (first, second)]
    np.testing.assert_array_equal(seeds, [0.001, 0.002])


def test_a_policy_that_keeps_state_has_one_client_until_it_leaves() -> None:
    with serving(Recording()) as url:
        with remote(url), pytest.raises(UsageError, match="one client at a time"), remote(url):
            pass
        for _ in range(5):
            with remote(url) as client:  # the place of the one before is free at once
                client.reset(EPISODE, 3)
                assert client.act(probe_observation(PROFILE))[0, 0] == 0.003


def test_a_ping_takes_nobodys_place() -> None:
    with serving(Recording()) as url, Raw(url) as asking:
        asking.call("ping")
        asking.call("get_modality_config")
        with remote(url) as client:
            asking.call("ping")
            client.reset(EPISODE, 3)
            assert client.act(probe_observation(PROFILE)).shape == (4, 7)


def test_a_stock_client_that_tells_no_beginning_begins_with_each_sentence() -> None:
    policy = Recording()
    other = {**flat(SENT), PROFILE.instruction: ["open the drawer"]}
    with serving(policy) as url, Raw(url) as client:
        for observation in (flat(SENT), flat(SENT), other):
            client.call("get_action", {"observation": observation})
    assert [info.instruction for info, _ in policy.begun] == [
        SENT[PROFILE.instruction],
        "open the drawer",
    ]


def test_a_reset_without_a_seed_begins_with_the_servers() -> None:
    policy = Recording()
    service = open_service(Host(policy, PROFILE, seed=77), port=0)
    thread = threading.Thread(target=service.serve)
    thread.start()
    try:
        with Raw(service.url) as client:
            for options in (None, {}, {"seed": 3}):
                client.call("reset", {"options": options})
                client.call("get_action", {"observation": flat(SENT)})
    finally:
        service.close()
        thread.join()
    assert [seed for _, seed in policy.begun] == [77, 77, 3]


@pytest.mark.parametrize(
    "served, asked", [("robocasa", "robocasa365"), ("robocasa365", "robocasa")]
)
def test_either_family_of_robocasas_keys_serves_both(served: str, asked: str) -> None:
    theirs, ours = find_profile(served, "gr00t"), find_profile(asked, "gr00t")

    class Mobile(Recording):
        def act(self, observation: Observation) -> NDArray[np.float64]:
            self.seen.append(observation)
            marked = np.arange(12) / 20
            marked[[6, 11]] = (1.0, -1.0)
            return np.stack([marked, -marked])

    policy = Mobile(action_dim=12)
    policy.spec = replace(policy.spec, cameras=theirs.cameras)
    observation = probe_observation(ours)
    with serving(policy, theirs) as url, remote(url, profile=asked) as client:
        assert [image.key for image in client.profile.images] == [i.key for i in theirs.images]
        assert client.profile.instruction == theirs.instruction
        client.reset(EPISODE, 1)
        actions = client.act(observation)
    marked = np.arange(12) / 20
    marked[[6, 11]] = (1.0, -1.0)
    np.testing.assert_array_equal(actions, [marked, -marked])
    for camera, image in observation.images.items():
        np.testing.assert_array_equal(policy.seen[-1].images[camera], image)
    for name in ("eef_pos_relative", "eef_quat_relative", "gripper_qpos", "base_pos", "base_quat"):
        np.testing.assert_allclose(policy.seen[-1].proprio[name], observation.proprio[name])


def test_the_port_is_free_once_it_is_closed_and_taken_before() -> None:
    with serving(Recording()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(UsageError, match=f"port {port}: .*in use"):
            open_service(Host(Recording(), PROFILE), port=port)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_a_service_that_never_served_closes_as_well() -> None:
    service = open_service(Host(Recording(), PROFILE), port=0)
    port = int(service.url.rpartition(":")[2])
    service.close()
    service.close()
    service.serve()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=2)
