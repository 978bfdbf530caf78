"""OpenVLA and OpenVLA-OFT: what their servers are sent, and what becomes of their answers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import json_numpy
import numpy as np
import pytest

from pytest_vla_shift.policies.openvla import OneSuitePolicy
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from tests.fakes.openvla_deploy import Deploy, eight_actions, one_action

PROFILES = Path(str(resources.files("pytest_vla_shift") / "policies" / "profiles"))
OBJECT = EpisodeInfo(Episode("libero_object", "pick_up_the_milk", 3), "pick up the milk", 280)
GOAL = EpisodeInfo(Episode("libero_goal", "turn_on_the_stove", 1), "turn on the stove", 300)


def ask(
    name: str, url: str, args: Mapping[str, str] | None = None, limit_s: float = 5.0
) -> RemotePolicy:
    policy = resolve(name, args or {}, settings=PolicySettings(url=url, timeout_s=limit_s))
    assert isinstance(policy, RemotePolicy)
    return policy


@pytest.fixture
def openvla() -> Iterator[Deploy]:
    with Deploy(one_action, keys=("libero_object",)) as server:
        yield server


@pytest.fixture
def oft() -> Iterator[Deploy]:
    with Deploy(eight_actions) as server:
        yield server


def seen(wire_profile: str) -> Observation:
    """A probe whose pictures have a left and a right, an up and a down."""
    probe = probe_observation(find_profile(wire_profile, "openvla"))
    rng = np.random.default_rng(0)
    images = {
        camera: rng.integers(0, 256, (256, 256, 3), dtype=np.uint8) for camera in probe.images
    }
    return Observation(images, probe.proprio, "pick up the milk", 0)


def test_openvla_is_sent_one_picture_the_sentence_and_the_suites_key(openvla: Deploy) -> None:
    policy = ask("openvla", openvla.url)
    policy.reset(OBJECT, seed=1)
    shown = seen("libero")
    policy.act(shown)
    sent = openvla.payloads[-1]
    assert list(sent) == ["image", "instruction", "unnorm_key"]
    assert sent["instruction"] == "pick up the milk"
    assert sent["unnorm_key"] == "libero_object"
    image = sent["image"]
    assert isinstance(image, np.ndarray)
    assert image.dtype == np.uint8
    policy.close()


def test_oft_is_sent_two_pictures_and_the_state_as_its_own_evaluation_makes_them(
    oft: Deploy,
) -> None:
    policy = ask("openvla-oft", oft.url)
    policy.reset(OBJECT, seed=1)
    shown = seen("oft-libero")
    policy.act(shown)
    sent = oft.payloads[-1]
    assert list(sent) == ["full_image", "wrist_image", "state", "instruction"]
    # Upright pictures are what LIBERO draws, upside down, turned over; the evaluation of the model
    # turns LIBERO's own by 180 degrees.
    for key, camera in (("full_image", "agentview"), ("wrist_image", "robot0_eye_in_hand")):
        drawn = shown.images[camera][::-1]
        np.testing.assert_array_equal(sent[key], drawn[::-1, ::-1])
    state = sent["state"]
    assert isinstance(state, np.ndarray)
    assert state.dtype == np.float64
    np.testing.assert_allclose(state[:3], shown.proprio["eef_pos"])
    np.testing.assert_allclose(state[3:6], [np.pi, 0, 0])
    np.testing.assert_allclose(state[6:], shown.proprio["gripper_qpos"])
    policy.close()


def test_ofts_rotation_vector_goes_the_long_way_round(oft: Deploy) -> None:
    policy = ask("openvla-oft", oft.url)
    policy.reset(OBJECT, seed=1)
    shown = seen("oft-libero")
    turned = Observation(
        shown.images,
        {**shown.proprio, "eef_quat": np.array([0.6, 0.0, 0.0, -0.8])},
        shown.instruction,
        0,
    )
    policy.act(turned)
    state = oft.payloads[-1]["state"]
    assert isinstance(state, np.ndarray)
    assert np.linalg.norm(state[3:6]) == pytest.approx(2 * np.arccos(-0.8))
    policy.close()


def test_one_action_is_a_chunk_of_one_and_the_gripper_is_turned_over(openvla: Deploy) -> None:
    policy = ask("openvla", openvla.url)
    policy.reset(OBJECT, seed=1)
    found = policy.act(seen("libero"))
    # 0.996 opens in the model's terms; -1 opens in robosuite's.
    np.testing.assert_allclose(found, [[0.1, -0.2, 0.3, 0.0, 0.0, 0.5, -1.0]])
    assert (policy.spec.chunk, policy.spec.replan) == (1, 1)
    policy.close()


def test_a_list_of_actions_is_a_chunk_that_is_executed_to_its_end(oft: Deploy) -> None:
    policy = ask("openvla-oft", oft.url)
    policy.reset(OBJECT, seed=1)
    found = policy.act(seen("oft-libero"))
    np.testing.assert_allclose(found[:, 0], np.arange(8) * 0.1)
    np.testing.assert_allclose(found[:, 6], [-1] * 4 + [1] * 4)
    assert (policy.spec.chunk, policy.spec.replan) == (8, 8)
    policy.close()


def test_a_stock_server_can_be_given_no_seed_and_is_sent_nothing_of_ours(oft: Deploy) -> None:
    policy = ask("openvla-oft", oft.url)
    assert not policy.spec.seedable
    assert not policy.spec.seeded
    policy.reset(OBJECT, seed=1)
    policy.act(seen("oft-libero"))
    assert all("vla_shift" not in payload for payload in oft.payloads)
    with pytest.raises(UsageError, match="cannot be given a seed"):
        ask("openvla-oft", oft.url, {"seeded": "true"})
    policy.close()


@pytest.mark.parametrize("name", ["openvla", "openvla-oft"])
def test_the_payload_may_be_encoded_twice(name: str, openvla: Deploy, oft: Deploy) -> None:
    server = {"openvla": openvla, "openvla-oft": oft}[name]
    plain, twice = ask(name, server.url), ask(name, server.url, {"encoded": "true"})
    shown = seen("libero" if name == "openvla" else "oft-libero")
    found = []
    for policy in (plain, twice):
        policy.reset(OBJECT, seed=1)
        found.append(policy.act(shown))
        policy.close()
    np.testing.assert_array_equal(found[0], found[1])
    assert list(json_numpy.loads(server.raw[-1])) == ["encoded"]


def test_the_key_follows_the_suite_of_the_episode() -> None:
    with Deploy(one_action, keys=("libero_object_x", "libero_goal_x", "other")) as server:
        policy = ask("openvla", server.url, {"unnorm_key": "{task_suite}_x"})
        for info in (GOAL, OBJECT):
            policy.reset(info, seed=1)
            policy.act(seen("libero"))
        assert [p["unnorm_key"] for p in server.payloads[-2:]] == [
            "libero_goal_x",
            "libero_object_x",
        ]
        policy.close()


def test_no_key_is_sent_where_none_is_wanted(openvla: Deploy) -> None:
    policy = ask("openvla", openvla.url, {"unnorm_key": ""})
    policy.reset(GOAL, seed=1)
    policy.act(seen("libero"))
    assert "unnorm_key" not in openvla.payloads[-1]
    policy.close()


def test_a_checkpoint_without_any_suites_statistics_is_refused_with_the_keys_that_were_tried() -> (
    None
):
    with (
        Deploy(one_action, keys=("bridge_orig", "fractal")) as server,
        pytest.raises(UsageError, match=r'"error".*libero_spatial, .*unnorm_key=NAME'),
    ):
        ask("openvla", server.url)


def test_an_episode_whose_statistics_are_missing_is_the_servers_error(openvla: Deploy) -> None:
    policy = ask("openvla", openvla.url)
    policy.reset(GOAL, seed=1)
    with pytest.raises(PolicyServerError, match=r"'libero_goal'.*Keys tried: libero_goal"):
        policy.act(seen("libero"))
    policy.close()


def test_the_key_is_part_of_what_is_compared(openvla: Deploy) -> None:
    by_suite = ask("openvla", openvla.url)
    named = ask("openvla", openvla.url, {"unnorm_key": "libero_object"})
    assert by_suite.spec.revision != named.spec.revision
    by_suite.close()
    named.close()


def test_a_stock_oft_server_is_asked_about_one_suite_alone(oft: Deploy) -> None:
    policy = ask("openvla-oft", oft.url)
    assert policy.unsupported("libero_goal", "turn_on_the_stove") is None
    assert policy.unsupported("libero_goal", "put_the_bowl_on_the_plate") is None
    refusal = policy.unsupported("libero_object", "pick_up_the_milk")
    assert refusal is not None
    assert "asks for libero_goal and libero_object" in refusal
    policy.close()


def test_whoever_asks_past_that_gets_an_error_and_no_action(oft: Deploy) -> None:
    """As a session does, or a server that passes this policy on."""
    policy = ask("openvla-oft", oft.url)
    session = policy.session()
    policy.reset(GOAL, seed=1)
    for asked in (policy, session):
        with pytest.raises(PolicyServerError, match="libero_goal and libero_object"):
            asked.reset(OBJECT, seed=1)
        asked.close()
    assert len(oft.payloads) == 2  # the trials', one a connection


@pytest.mark.parametrize(
    "key,refused",
    [
        ("libero_goal", ["libero_object"]),
        ("libero_goal_no_noops", ["libero_object"]),
        ("any", []),
    ],
)
def test_a_server_started_with_a_key_is_asked_about_its_suite(
    oft: Deploy, key: str, refused: list[str]
) -> None:
    policy = ask("openvla-oft", oft.url, {"unnorm_key": key})
    assert isinstance(policy, OneSuitePolicy)
    suites = ("libero_object", "libero_goal")
    assert [suite for suite in suites if policy.unsupported(suite, "task")] == refused
    assert "unnorm_key" not in oft.payloads[-1]
    policy.close()


@pytest.mark.parametrize("key", ["", " ", "_no_noops"])
def test_a_server_is_started_with_some_key(oft: Deploy, key: str) -> None:
    with pytest.raises(UsageError, match=r"unnorm_key.*libero_object_no_noops.*'any'"):
        ask("openvla-oft", oft.url, {"unnorm_key": key})


def test_each_call_of_a_stock_server_gets_a_connection_of_its_own(oft: Deploy) -> None:
    # One that is kept would have been closed by the server, five seconds idle, when a slow
    # rollout comes back to it.
    policy = ask("openvla-oft", oft.url)
    before = oft.connections
    policy.reset(OBJECT, seed=1)
    for _ in range(3):
        policy.act(seen("oft-libero"))
    assert oft.connections == before + 3
    policy.close()


def test_the_url_may_have_the_path(oft: Deploy) -> None:
    ask("openvla-oft", f"{oft.url}/act").close()
    with pytest.raises(UsageError, match="HTTP 404"):
        ask("openvla-oft", f"{oft.url}/other")


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:1", "http://", "http://a:x", "http://a?b=c"])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--vla-policy-url"):
        ask("openvla", url)


def test_a_token_in_the_url_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError, match="--vla-policy-token") as refused:
        ask("openvla", "http://user:geheim@127.0.0.1:1")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("args", [{"encoded": "yes"}, {"chunk": "0"}, {"seeded": "1"}])
def test_arguments_that_cannot_be_read_are_named(args: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"--vla-policy-arg={next(iter(args))}"):
        ask("openvla", "http://127.0.0.1:1", args)


def test_the_bytes_are_those_of_json_numpy(oft: Deploy) -> None:
    policy = ask("openvla-oft", oft.url)
    policy.reset(OBJECT, seed=1)
    policy.act(seen("oft-libero"))
    assert oft.raw[-1].decode() == json_numpy.dumps(oft.payloads[-1])
    policy.close()


def test_a_profile_that_reads_names_which_answers_do_not_have_is_refused(tmp_path: Path) -> None:
    text = (PROFILES / "openvla-libero.toml").read_text("utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('key = "actions"', 'key = "action"'), "utf-8")
    with pytest.raises(UsageError, match=r"mine.toml: .* read 'action': .*key = 'actions'"):
        ask("openvla", "http://127.0.0.1:1", {"profile": str(mine)})


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_https_is_spoken_with_servers_that_can_be_trusted_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words = [*command.split(), "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    with Deploy(one_action, certificate=(certificate, key)) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with pytest.raises(UsageError, match="CERTIFICATE_VERIFY_FAILED"):
            ask("openvla", url, {"unnorm_key": ""})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        policy = ask("openvla", url, {"unnorm_key": ""})
        policy.reset(OBJECT, seed=1)
        assert policy.act(seen("libero"))[0, 6] == -1.0
        policy.close()
