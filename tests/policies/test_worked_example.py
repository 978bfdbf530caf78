"""The policy of docs/policies-in-process.md does what the page says: alone, in lanes, on a wire."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.agreement import SimulatorSide
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from tests.fakes.toy_simulator import NAME, SUITE
from tests.plugin.toy_project import ToyProject

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "policies-in-process.md"

NAMED = "my_policy:HistoryPolicy"
INFO = EpisodeInfo(Episode("libero_goal", "put_the_bowl_on_the_plate", 0), "put it there", 300)

LOGGED = """
import json
from my_policy import HistoryPolicy

class Logged(HistoryPolicy):
    def reset(self, episode, seed):
        super().reset(episode, seed)
        self._about = [episode.episode.index, seed, episode.instruction]

    def act(self, observation):
        action = super().act(observation)
        with open("log.jsonl", "a") as log:
            row = [*self._about, observation.step, *map(float, action[0])]
            print(json.dumps(row), file=log)
        return action
"""


def block(language: str, start: str) -> str:
    """The code of the page that begins so."""
    found = re.findall(
        rf"^```{language}\n({re.escape(start)}.*?)^```$", PAGE.read_text(), re.S | re.M
    )
    assert len(found) == 1, start
    return str(found[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_policy.py").write_text(block("python", '"""my_policy.py'))
    (tmp_path / "my_profile.toml").write_text(block("toml", "# my_profile.toml"))
    weights = np.random.default_rng(5).normal(size=(8 * 7, 4 * 8 + 3)) / 3.0
    np.savez(tmp_path / "weights.npz", weights=weights)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_policy", "test_mine", "logged"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def make(folder: Path) -> Policy:
    checkpoint = read_checkpoint(str(folder / "weights.npz"))
    return resolve(NAMED, {}, settings=PolicySettings(checkpoint=checkpoint))


def test_it_keeps_the_contract_as_the_page_shows(folder: Path) -> None:
    scope: dict[str, object] = {}
    exec(compile(block("python", "from my_policy import"), "the check", "exec"), scope)
    scope["test_my_policy_keeps_the_contract"]()  # type: ignore[operator]


def test_its_key_has_source_profile_and_checkpoint(folder: Path) -> None:
    spec = make(folder).spec
    assert spec.name == NAMED
    assert re.fullmatch(r"profile [0-9a-f]+ sha256:[0-9a-f]{64}", spec.revision)
    assert spec.checkpoint.startswith("weights.npz@sha256:")


def test_it_looks_back_executes_half_and_forgets_at_reset(folder: Path) -> None:
    policy = make(folder)
    plain = probe_observation(find_profile("libero", "gr00t"))

    def rollout(seed: int) -> np.ndarray:
        policy.reset(INFO, seed)
        return np.concatenate([policy.act(plain) for _ in range(9)])

    first = rollout(3)
    np.testing.assert_array_equal(rollout(3), first)
    assert not np.array_equal(rollout(4), first)
    # What it saw stays the same, so that a prediction differs from the one before in noise alone.
    assert 0.0 < np.abs(first[:4] - first[4:8]).max() < 0.1
    assert set(np.unique(first[:, 6])) <= {-1.0, 1.0}  # the profile's gripper, in robosuite's sign


def test_its_contract_is_told_before_the_first_episode(folder: Path) -> None:
    side = SimulatorSide("libero", ("agentview",), 256, 256, 7, -1.0, 1.0)
    wrong = [row.item for row in make(folder).contract(side) if not row.fits]  # type: ignore[attr-defined]
    assert len(wrong) == 1
    assert "wrist" in wrong[0]
    assert "trained on" in str(make(folder).unsupported("libero_90", "x"))


def test_lanes_give_every_rollout_the_same_actions(folder: Path) -> None:
    toy = {"agentview": "front", "robot0_eye_in_hand": "wrist", '"libero"': f'"{NAME}"'}
    profile = (folder / "my_profile.toml").read_text()
    for old, new in toy.items():
        assert old in profile
        profile = profile.replace(old, new)
    (folder / "my_profile.toml").write_text(profile)
    source = (folder / "my_policy.py").read_text()
    (folder / "my_policy.py").write_text(source.replace('"libero_object"', f'"{SUITE}"'))
    (folder / "logged.py").write_text(LOGGED)
    logs = []
    for lanes in ("--vla-envs=0", "--vla-envs=2"):
        project = ToyProject(folder, options=("--vla-video=off", lanes))
        few = ("--vla-episodes=0:2", "--vla-task=reach_left", "--vla-axis=null")
        found = project.run(
            *few, f"--vla-run={lanes[-1]}", "--vla-checkpoint=weights.npz", policy="logged:Logged"
        )
        assert "error" not in found.out.lower(), found.out
        log = folder / "log.jsonl"
        logs.append(sorted(log.read_text().splitlines()))
        log.unlink()
    assert len(logs[0]) == 2 * 2 * 60
    assert logs[0] == logs[1]


def test_behind_a_wire_it_answers_as_it_does_here(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest_vla_shift.cli", "serve", "--wire", "gr00t"]
    command += ["--port", "0", "--policy", NAMED, "--checkpoint", "weights.npz"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        found = re.search(r" at (tcp://\S+): ", process.stdout.readline())
        assert found
        try:
            settings = PolicySettings(url=found[1], timeout_s=20.0)
            remote, here = resolve("gr00t", {}, settings=settings), make(folder)
            assert (remote.spec.chunk, remote.spec.replan, remote.spec.seeded) == (1, 1, True)
            plain = probe_observation(find_profile("libero", "gr00t"))
            for seed in (3, 4):
                remote.reset(INFO, seed)
                here.reset(INFO, seed)
                for _ in range(6):
                    np.testing.assert_allclose(remote.act(plain), here.act(plain), atol=1e-6)
            remote.close()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
