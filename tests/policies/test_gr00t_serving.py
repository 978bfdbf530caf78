"""A policy of ours as a GR00T server, for our own client."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.serving.gr00t import open_service
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.wires.gr00t_codec import Arrays
from pytest_vla_shift.policies.wires.gr00t_layout import flat
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import Observation, PrivilegedState
from tests.fakes.gr00t_peers import array
from tests.fakes.gr00t_served import PROFILE, Raw, remote, serving
from tests.fakes.noting_policies import Recording, RecordingSessions

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    with serving(RecordingSessions()) as url, remote(url) as first, remote(url) as second:
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
