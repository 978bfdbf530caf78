"""The fakes are what they say: solvable, deterministic, and really moved by shifts."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.protocol import Intervention, Parameters
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from tests.fakes import toy_policies, toy_simulator
from tests.fakes.toy_simulator import HORIZON, NAME, SETTLE_STEPS, Toy
from tests.shifts.libero_ctrl import LEVELS

SETTINGS = SimulatorSettings(NAME, env_seed=7, cameras=("front", "wrist"), height=32, width=32)


def rollout(
    policy: toy_policies.Expert,
    episode: Episode,
    interventions: tuple[Intervention, ...] = (),
    seed: int = 0,
) -> tuple[bool, int, list[bool]]:
    """Success, steps, and which predicates were ever true."""
    simulator = Toy(SETTINGS)
    prepared = simulator.prepare(episode)
    simulator.apply(interventions)
    settle = np.tile(simulator.info.settle_action, (SETTLE_STEPS, 1))
    assert simulator.step(settle, stop_on_success=False).object_speed == 0.0
    policy.reset(EpisodeInfo(episode, prepared.instruction, HORIZON), seed)
    steps, success = 0, False
    ever = np.zeros(len(prepared.predicates), dtype=bool)
    while steps < HORIZON and not success:
        seen = simulator.observe(policy.spec.cameras, privileged=policy.spec.privileged)
        result = simulator.step(np.asarray(policy.act(seen), dtype=np.float64))
        steps += result.steps
        success = result.success
        ever |= result.predicates.any(axis=0)
    return success, steps, ever.tolist()


@pytest.mark.parametrize("task", toy_simulator.TASKS)
@pytest.mark.parametrize("policy", [toy_policies.Expert, toy_policies.Seer])
def test_expert_and_seer_solve_every_clean_episode(
    task: str, policy: type[toy_policies.Expert]
) -> None:
    outcomes = [rollout(policy(), Episode("toy", task, index)) for index in range(20)]
    assert all(success for success, _, _ in outcomes)
    assert all(20 < steps < HORIZON for _, steps, _ in outcomes)
    assert all(ever == [True, True, True] for _, _, ever in outcomes)


def test_flaky_gives_up_by_its_seed_alone() -> None:
    episode = Episode("toy", "reach_left", 0)
    flaky = toy_policies.Flaky("0.5")
    first = [rollout(flaky, episode, seed=seed)[0] for seed in range(12)]
    assert first == [rollout(flaky, episode, seed=seed)[0] for seed in range(12)]
    assert 0 < sum(first) < 12


def shifted(name: str, parameters: dict[str, float], draw: dict[str, float]) -> Intervention:
    return Intervention(name, name, "L3", parameters, draw)


def test_a_base_moved_away_makes_the_task_fail() -> None:
    away = shifted("tests.fakes.toy_shifts:MoveBase", {"x_m": 0.2}, {})
    success, steps, ever = rollout(toy_policies.Expert(), Episode("toy", "reach_left", 0), (away,))
    assert (success, steps) == (False, HORIZON)
    assert ever == [False, False, False]
    assert rollout(toy_policies.Expert(), Episode("toy", "reach_right", 0), (away,))[0]


def test_darkness_blinds_the_seer_and_not_the_expert() -> None:
    dark = shifted("tests.fakes.toy_shifts:Dim", {"alpha": 0.2}, {})
    episode = Episode("toy", "reach_left", 3)
    assert not rollout(toy_policies.Seer(), episode, (dark,))[0]
    assert rollout(toy_policies.Expert(), episode, (dark,))[0]


def test_the_picture_is_scaled_by_brightness() -> None:
    bright, dim = Toy(SETTINGS), Toy(SETTINGS)
    for simulator in (bright, dim):
        simulator.prepare(Episode("toy", "reach_left", 0))
    receipts = dim.apply([shifted("tests.fakes.toy_shifts:Dim", {"alpha": 0.5}, {})])
    assert {receipt.field for receipt in receipts} == {
        "model.light[lamp.diffuse]",
        "model.light[lamp.ambient]",
        "model.light[headlight.diffuse]",
        "model.light[headlight.ambient]",
    }
    before = bright.observe(("front",)).images["front"]
    after = dim.observe(("front",)).images["front"]
    assert abs(float(after.mean()) / float(before.mean()) - 0.5) < 0.02


def test_the_real_axes_touch_the_toy() -> None:
    levels: dict[str, tuple[Parameters, dict[str, float] | None]] = {
        "camera_pose": (LEVELS["camera"]["L3"], None),
        "lighting": (LEVELS["lighting"]["L3"], None),
        "robot_pose": (LEVELS["robot_pose"]["L3"], None),
        "illumination": ({"alpha": 0.4}, {}),
        "camera_orientation": ({"theta_max_deg": 10.0}, None),
        "base": ({"sigma_xy_m": 0.1, "sigma_yaw_deg": 10.0}, None),
        "gaussian_blur": ({"sigma_px": 4.0}, {}),
    }
    episode = Episode("toy", "reach_right", 2)
    clean = Toy(SETTINGS)
    clean.prepare(episode)
    before = clean.observe(("front", "wrist")).images
    for name, (parameters, draw) in levels.items():
        if draw is None:
            draw = dict(load_shift(name).draw(np.random.default_rng(3)))
        simulator = Toy(SETTINGS)
        simulator.prepare(episode)
        assert simulator.apply([Intervention(name, name, "L3", parameters, draw)])
        after = simulator.observe(("front", "wrist")).images
        assert not np.array_equal(before["front"], after["front"]), name
        same_wrist = np.array_equal(before["wrist"], after["wrist"])
        assert same_wrist == name.startswith("camera"), name
