"""LeRobot checkpoints in process, against a stand-in of the library: what is asked and answered.

What the real library does is in tests/conformance/test_lerobot.py, where it can be imported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.lerobot_policy import LeRobotSessions
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.quantities import axis_angle
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from tests.fakes.lerobot_checkpoints import FIRST, IMAGE2, MOVES, write_checkpoint
from tests.policies.lerobot_peer import answer, make, observation, refusal, seen, values

pytestmark = pytest.mark.usefixtures("lerobot_library")


def test_a_chunk_is_asked_for_and_comes_out_in_the_simulators_numbers(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    chunk = answer(policy, 0.5)
    # The state is divided by its deviation, the actions multiplied with theirs and moved by 0.5.
    expected = 0.5 + MOVES * (0.5 / FIRST + np.arange(8) / 100.0)
    np.testing.assert_allclose(chunk, np.tile(expected[:, None], (1, 7)), rtol=1e-6)


def test_its_spec_is_the_checkpoints(folder: Path) -> None:
    spec = make(write_checkpoint(folder)).spec
    assert (spec.chunk, spec.replan, spec.action_dim) == (8, 4, 7)
    assert spec.cameras == ("agentview", "robot0_eye_in_hand")
    assert spec.stateless
    assert spec.seeded
    assert not spec.language  # ACT reads none
    assert "lerobot 0.6.1" in spec.revision
    assert "torch 2.9.0+fake; cpu; act" in spec.revision
    assert set(spec.located) == {"profile", "device", "online"}


def test_label_and_digest_of_the_checkpoint_are_in_the_spec(folder: Path) -> None:
    settings = PolicySettings(checkpoint=read_checkpoint(str(write_checkpoint(folder))))
    spec = resolve("lerobot", {}, settings=settings).spec
    assert spec.name == "lerobot"
    assert spec.checkpoint.startswith("checkpoint@sha256:")


def test_pictures_come_as_lerobot_eval_has_them(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    plain = probe_observation(policy.profile)
    picture = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    policy.act(replace(plain, images={**plain.images, "robot0_eye_in_hand": picture}))
    found = values(seen(policy)[IMAGE2])
    assert found.shape == (1, 3, 16, 16)
    # raw[::-1, ::-1] of a renderer whose raw picture is upside down.
    np.testing.assert_array_equal(found[0], picture[:, ::-1].transpose(2, 0, 1) / np.float32(255))


def test_the_state_is_position_rotation_and_gripper_in_float32(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    quat = np.array([0.6, 0.0, 0.0, -0.8])  # antipodal: beyond pi, and left there
    plain = observation(policy)
    policy.act(replace(plain, proprio={**plain.proprio, "eef_quat": quat}))
    found = values(seen(policy)["observation.state"])[0] * FIRST
    expected = np.concatenate([[0.5, 0.0, 1.0], axis_angle(quat), [0.02, -0.02]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.linalg.norm(found[3:6]) > np.pi


def test_the_sentence_is_the_task(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    answer(policy)
    assert seen(policy)["task"] == EPISODE.instruction


def test_history_is_kept_and_fed_at_every_step(folder: Path) -> None:
    policy = make(write_checkpoint(folder, "diffusion", n_obs_steps=2, n_action_steps=1))
    assert (policy.spec.chunk, policy.spec.replan, policy.spec.stateless) == (1, 1, False)
    policy.reset(EPISODE, 0)
    found = [answer(policy, first)[0, 0] for first in (0.0, 0.25, 0.5)]
    # The newest of the states once, and the one before ten times, each divided by 0.25.
    np.testing.assert_allclose(found, [0.5 + MOVES * n for n in (0.0, 1.0, 2.0 + 10.0)])


def test_nothing_of_an_episode_is_left_in_the_next(folder: Path) -> None:
    policy = make(write_checkpoint(folder, "diffusion", n_obs_steps=2, n_action_steps=3))
    policy.reset(EPISODE, 0)
    before = [answer(policy, first)[0, 0] for first in (0.0, 0.25)]
    policy.reset(EPISODE, 0)
    assert [answer(policy, first)[0, 0] for first in (0.0, 0.25)] == before


def test_the_trial_leaves_no_state_behind(folder: Path) -> None:
    policy = make(write_checkpoint(folder, "diffusion", n_obs_steps=2, n_action_steps=3))
    unreset = answer(policy, 0.25)
    policy.reset(EPISODE, 0)
    np.testing.assert_array_equal(answer(policy, 0.25), unreset)


def test_sessions_share_weights_and_nothing_else(folder: Path) -> None:
    policy = cast(
        "LeRobotSessions",
        make(write_checkpoint(folder, "diffusion", n_obs_steps=2, n_action_steps=1)),
    )
    other = policy.session()
    assert other.spec == policy.spec
    assert next(iter(other._loaded.model.parameters())) is next(
        iter(policy._loaded.model.parameters())
    )
    policy.reset(EPISODE, 0)
    other.reset(EPISODE, 0)
    answer(policy, 0.25)
    answer(other, 1.5)
    assert answer(policy, 0.0)[0, 0] == pytest.approx(0.5 + MOVES * 10.0)


def test_one_whose_code_is_compiled_offers_no_sessions(folder: Path) -> None:
    policy = make(write_checkpoint(folder, "diffusion", n_obs_steps=2, compile_model=True))
    assert not hasattr(policy, "session")


@pytest.mark.parametrize(
    "kind,config",
    [
        ("act", {}),
        ("act", {"temporal_ensemble_coeff": 0.01}),
        ("diffusion", {"n_obs_steps": 2}),
        ("smolvla", {}),
    ],
)
def test_check_policy_has_nothing_to_say_of_any_kind(
    folder: Path, kind: str, config: dict[str, object]
) -> None:
    noisy = write_checkpoint(folder, kind, weights={"noise": 0.1, "looks": 1.0}, **config)  # type: ignore[arg-type]
    policy = make(noisy)
    assert check_policy(policy, probe_observation(policy.profile), EPISODE) == []


def test_actions_that_are_averaged_over_chunks_need_every_step(folder: Path) -> None:
    policy = make(write_checkpoint(folder, temporal_ensemble_coeff=0.01))
    policy.reset(EPISODE, 0)
    found = [answer(policy, first)[0, 0] for first in (0.0, 0.0)]
    np.testing.assert_allclose(found, [0.5, 0.5 + MOVES * 0.005])  # mean of 0.00 and 0.01


def test_one_step_after_another_is_the_chunk(folder: Path) -> None:
    write_checkpoint(folder)
    chunk = answer(make(folder))
    steps = make(folder, mode="step")
    assert (steps.spec.chunk, steps.spec.stateless) == (1, False)
    steps.reset(EPISODE, 0)
    found = np.concatenate([answer(steps) for _ in range(4)])
    np.testing.assert_array_equal(found, chunk[:4])


def test_chunks_of_what_needs_every_step_are_refused(folder: Path) -> None:
    write_checkpoint(folder, "diffusion", n_obs_steps=2)
    assert "keeps a history or a queue of its own" in refusal(folder, mode="chunk")
    assert "none of auto, chunk, step" in refusal(folder, mode="often")
