"""``tiny``: what it sees and says, on a small network that is made up for the purpose."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from pytest_vla_shift.policies import tiny_inputs
from pytest_vla_shift.policies.agreement import SimulatorSide
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from pytest_vla_shift.policies.tiny import Tiny, drawn, most_likely
from pytest_vla_shift.policies.tiny_network import Answer
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import PolicyError, UsageError
from pytest_vla_shift.protocol.observation import Observation
from tests.policies.observations import INFO
from tests.policies.tiny_models import Recipe

ROOT = Path(__file__).resolve().parents[2]


def seen(seed: int = 0, side: int = 256) -> Observation:
    """All that ``tiny`` may look at, and nothing else."""
    rng = np.random.default_rng(seed)
    return Observation(
        images={
            camera: rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
            for camera in tiny_inputs.CAMERAS
        },
        proprio={
            "eef_pos": np.array([-0.1, 0.05, 1.0]),
            "eef_quat": np.array([1.0, 0.0, 0.0, 0.0]),
            "gripper_qpos": np.array([0.03, -0.03]),
        },
        instruction=INFO.instruction,
        step=0,
    )


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Recipe().write(tmp_path_factory.mktemp("weights")))


def rollout(policy: Tiny, seed: int = 0, decisions: int = 4) -> np.ndarray:
    policy.reset(INFO, seed)
    return np.concatenate([policy.act(seen(number)) for number in range(decisions)])


@pytest.mark.parametrize("temperature", ["0", "0.5"])
def test_keeps_the_contract_with_nothing_privileged(weights: str, temperature: str) -> None:
    policy = Tiny(temperature, weights)
    assert seen().privileged is None
    assert check_policy(policy, seen(), INFO) == []
    spec = policy.spec
    assert not spec.privileged
    assert spec.language
    assert spec.cameras == ("agentview", "robot0_eye_in_hand")
    assert (spec.chunk, spec.replan, spec.action_dim) == (8, 8, 7)
    assert spec.seeded is (temperature != "0")


def test_the_goal_the_task_and_the_index_decide_nothing(weights: str) -> None:
    policy = Tiny(weights=weights)
    usual = rollout(policy)
    other = replace(INFO, episode=replace(INFO.episode, task="another", index=3), horizon=5)
    policy.reset(other, 0)
    np.testing.assert_array_equal(policy.act(seen(0)), usual[:8])


def test_actions_are_in_range_and_the_gripper_has_three_commands(weights: str) -> None:
    for temperature in (0.0, 0.5, 1e300):
        actions = rollout(Tiny(temperature, weights), decisions=20)
        assert actions.shape == (160, 7)
        assert np.abs(actions).max() <= 1.0
        assert set(actions[:, 6]) == {-1.0, 0.0, 1.0}
        inside = (np.abs(actions[:, :6]) < 1.0).any()
        assert inside == (temperature < 1e300)


@pytest.mark.parametrize("camera", tiny_inputs.CAMERAS)
def test_a_missing_camera_is_an_error_and_not_a_black_picture(weights: str, camera: str) -> None:
    policy = Tiny(weights=weights)
    policy.reset(INFO, 0)
    images = {name: image for name, image in seen().images.items() if name != camera}
    with pytest.raises(PolicyError, match=f"looks through {camera}"):
        policy.act(replace(seen(), images=images))


@pytest.mark.parametrize("vector", ["eef_pos", "eef_quat", "gripper_qpos"])
def test_a_missing_vector_is_an_error(weights: str, vector: str) -> None:
    policy = Tiny(weights=weights)
    policy.reset(INFO, 0)
    proprio = {name: value for name, value in seen().proprio.items() if name != vector}
    with pytest.raises(PolicyError, match=vector):
        policy.act(replace(seen(), proprio=proprio))


def test_a_vector_that_is_not_a_number_is_an_error(weights: str) -> None:
    policy = Tiny(weights=weights)
    policy.reset(INFO, 0)
    proprio = {**seen().proprio, "eef_pos": np.array([0.0, np.nan, 0.0])}
    with pytest.raises(PolicyError, match="not finite"):
        policy.act(replace(seen(), proprio=proprio))


def test_a_sentence_that_is_too_long_is_an_error(weights: str) -> None:
    policy = Tiny(weights=weights)
    policy.reset(INFO, 0)
    with pytest.raises(PolicyError, match="up to 40 words"):
        policy.act(replace(seen(), instruction="pick it up and " * 20))


def test_act_before_reset_is_an_error(weights: str) -> None:
    with pytest.raises(PolicyError, match="act before reset"):
        Tiny(weights=weights).act(seen())


def test_without_a_temperature_the_seed_decides_nothing(weights: str) -> None:
    policy = Tiny(weights=weights)
    np.testing.assert_array_equal(rollout(policy, seed=1), rollout(policy, seed=2))


def test_the_seed_and_the_number_of_the_decision_decide_what_is_drawn(weights: str) -> None:
    policy = Tiny("0.5", weights)
    one = rollout(policy, seed=1)
    np.random.random()  # somebody else's draw
    np.testing.assert_array_equal(rollout(policy, seed=1), one)
    assert not np.array_equal(rollout(policy, seed=2), one)
    policy.reset(INFO, 1)
    assert not np.array_equal(policy.act(seen(0)), policy.act(seen(0)))
    np.testing.assert_array_equal(rollout(Tiny("0.5", weights), seed=1), one)


def test_what_is_drawn_has_the_networks_mean_deviation_and_odds() -> None:
    rng = np.random.default_rng(4)
    answer = Answer(
        mean=rng.uniform(-0.3, 0.3, (8, 6)),
        scale=rng.uniform(0.05, 0.2, (8, 6)),
        gripper=rng.normal(size=(8, 3)),
    )
    temperature, count = 0.5, 4000
    actions = np.stack([drawn(answer, temperature, rng) for _ in range(count)])
    motion, deviation = actions[..., :6], temperature * answer.scale
    error = deviation / np.sqrt(count)
    assert (np.abs(motion.mean(axis=0) - answer.mean) < 5 * error).all()
    np.testing.assert_allclose(motion.std(axis=0), deviation, rtol=0.08)
    odds = np.exp(answer.gripper / temperature)
    odds /= odds.sum(axis=-1, keepdims=True)
    found = np.stack([(actions[..., 6] == value).mean(axis=0) for value in (-1, 0, 1)], axis=-1)
    np.testing.assert_allclose(found, odds, atol=5 * 0.5 / np.sqrt(count))
    correlated = np.corrcoef(motion.reshape(count, -1).T) - np.eye(48)
    assert np.abs(correlated).max() < 6 / np.sqrt(count)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-12])
def test_a_small_temperature_draws_what_is_most_likely(temperature: float) -> None:
    rng = np.random.default_rng(4)
    answer = Answer(
        rng.uniform(-0.3, 0.3, (8, 6)), rng.uniform(0.05, 0.2, (8, 6)), rng.normal(size=(8, 3))
    )
    found = drawn(answer, temperature, rng)
    np.testing.assert_allclose(found, most_likely(answer), atol=1e-11)


def test_the_gripper_is_told_in_the_order_open_stay_close() -> None:
    still = np.zeros((8, 6))
    for place, command in enumerate((-1.0, 0.0, 1.0)):
        logits = np.zeros((8, 3))
        logits[:, place] = 20.0
        answer = Answer(still, still + 1.0, logits)
        assert set(most_likely(answer)[:, 6]) == {command}
        assert set(drawn(answer, 1.0, np.random.default_rng(0))[:, 6]) == {command}


@pytest.mark.parametrize("given", ["hot", "-0.1", "nan", "inf", "", "1e999"])
def test_a_temperature_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match=r"temperature: .* is not a finite number of 0 or more"):
        Tiny(given)


def test_sessions_share_the_network_and_nothing_else(weights: str) -> None:
    policy = Tiny("0.5", weights)
    alone = rollout(policy, seed=1)
    one, other = policy.session(), policy.session()
    assert one.spec == policy.spec
    with pytest.raises(PolicyError, match="act before reset"):
        one.act(seen())
    one.reset(INFO, 1)
    mixed = []
    for number in range(4):
        other.reset(INFO, 7)
        other.act(seen(50 + number))
        mixed.append(one.act(seen(number)))
    np.testing.assert_array_equal(np.concatenate(mixed), alone)


def test_a_rollout_in_another_thread_changes_no_bit(weights: str) -> None:
    policy = Tiny(weights=weights)
    alone = rollout(policy, decisions=8)
    found: dict[int, np.ndarray] = {}

    def run(lane: int) -> None:
        found[lane] = rollout(policy.session(), seed=lane, decisions=8)

    threads = [threading.Thread(target=run, args=(lane,)) for lane in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2]
    for actions in found.values():
        np.testing.assert_array_equal(actions, alone)


def test_another_process_gives_the_same_bits_and_needs_no_torch(weights: str) -> None:
    code = (
        "import hashlib, sys\n"
        "from tests.policies.test_tiny import Tiny, rollout\n"
        f"found = rollout(Tiny('0.5', {weights!r}), seed=3)\n"
        "print(hashlib.sha256(found.tobytes()).hexdigest())\n"
        "print(*sorted({n.split('.')[0] for n in sys.modules} & {'torch', 'onnx', 'mujoco'}))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    digest, loaded = ended.stdout.split("\n")[:2]
    assert digest == hashlib.sha256(rollout(Tiny("0.5", weights), seed=3).tobytes()).hexdigest()
    assert loaded == ""


@pytest.mark.parametrize("module", ["onnxruntime", "PIL"])
def test_without_its_packages_the_extra_is_named(
    weights: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"package {module}: .*pytest-vla-shift\[tiny\]"):
        Tiny(weights=weights)


def test_by_name_with_weights_whose_place_is_in_no_key(weights: str, tmp_path: Path) -> None:
    copied = shutil.copy(weights, tmp_path / "renamed.onnx")
    one, copy, other = (
        resolve("tiny", {"weights": str(path), "temperature": "0.5"}).spec
        for path in (weights, copied, Recipe(seed=1).write(tmp_path))
    )
    assert one == copy
    assert one.name == "tiny"
    assert "weights" in one.located
    assert str(tmp_path) not in one.revision
    assert other.revision != one.revision
    assert "onnxruntime 1." in one.revision


def test_a_checkpoint_is_loaded_and_not_only_a_label(weights: str, tmp_path: Path) -> None:
    other = Recipe(seed=1).write(tmp_path)
    settings = PolicySettings(checkpoint=read_checkpoint(str(other)))
    policy = resolve("tiny", {}, settings=settings)
    assert policy.spec.revision == Tiny(weights=str(other)).spec.revision
    assert policy.spec.checkpoint.startswith("other.onnx@sha256:")
    with pytest.raises(UsageError, match="weights are given twice"):
        resolve("tiny", {"weights": weights}, settings=settings)


def test_a_url_is_refused() -> None:
    with pytest.raises(UsageError, match="takes no url"):
        resolve("tiny", {}, settings=PolicySettings(url="tcp://127.0.0.1:1"))


def test_only_tasks_that_it_was_trained_on_are_asked_of_it(weights: str) -> None:
    policy = Tiny(weights=weights)
    for name in catalog.task_suites():
        suite = catalog.find(name)
        assert suite is not None
        reasons = {policy.unsupported(name, task) for task in suite.tasks}
        if name in ("libero_object", "libero_spatial", "libero_goal"):
            assert reasons == {None}
        else:
            assert all(reason and f"none of {name!r}" in reason for reason in reasons)


LIBERO = SimulatorSide(
    simulator="libero",
    cameras=("agentview", "robot0_eye_in_hand"),
    height=256,
    width=256,
    action_dim=7,
    action_low=-1.0,
    action_high=1.0,
    position=(0, 3),
    rotation=(3, 6),
    proprio=("eef_pos", "eef_quat", "gripper_qpos", "joint_pos"),
)


def test_fits_libero_and_a_simulator_that_says_little(weights: str) -> None:
    policy = Tiny(weights=weights)
    unsaid = replace(LIBERO, position=(0, 0), rotation=(0, 0), proprio=(), height=128, width=128)
    for side in (LIBERO, unsaid):
        assert all(row.fits for row in policy.contract(side))


@pytest.mark.parametrize(
    "change,items",
    [
        ({"cameras": ("agentview",)}, ["image robot0_eye_in_hand"]),
        ({"height": 240, "width": 320}, ["image agentview", "image robot0_eye_in_hand"]),
        ({"height": 64, "width": 64}, ["image agentview", "image robot0_eye_in_hand"]),
        ({"proprio": ("eef_pos", "gripper_qpos")}, ["proprioception"]),
        ({"action_dim": 12}, ["action"]),
        ({"action_low": 0.0}, ["action"]),
        ({"position": (3, 6), "rotation": (0, 3)}, ["action"]),
    ],
)
def test_a_suite_that_it_cannot_act_in_is_refused_before_the_first_episode(
    weights: str, change: dict[str, object], items: list[str]
) -> None:
    rows = Tiny(weights=weights).contract(replace(LIBERO, **change))  # type: ignore[arg-type]
    assert [row.item for row in rows if not row.fits] == items
