"""A LeRobot policy that keeps history, through a whole run: the same actions alone and in lanes."""

from __future__ import annotations

from pathlib import Path

from pytest_vla_shift.policies.profile import find_profile
from tests.fakes.lerobot_checkpoints import SITE, write_checkpoint
from tests.fakes.toy_simulator import NAME
from tests.plugin.toy_project import REPOSITORY, ToyProject

FEW = ("--vla-episodes=0:2", "--vla-task=reach_left", "--vla-axis=null")


def toy_profile() -> str:
    """The shipped profile, with the toy's names."""
    shipped = REPOSITORY / "pytest_vla_shift" / "policies" / "profiles" / "lerobot-libero.toml"
    assert find_profile("libero", "lerobot").simulators == ("libero",)
    text = shipped.read_text("utf-8").replace('["libero"]', f'["{NAME}"]')
    return text.replace('"agentview"', '"front"').replace('"robot0_eye_in_hand"', '"wrist"')


def test_the_rows_are_the_same_alone_and_in_lanes(tmp_path: Path) -> None:
    noisy = {"noise": 0.5, "looks": 1.0}
    write_checkpoint(
        tmp_path / "weights", "diffusion", weights=noisy, n_obs_steps=2, n_action_steps=3
    )
    (tmp_path / "toy.toml").write_text(toy_profile())
    path = f"{REPOSITORY}:{SITE}"
    project = ToyProject(tmp_path, options=("--vla-video=off",), environment={"PYTHONPATH": path})
    how = ("--vla-checkpoint=weights", "--vla-policy-arg=profile=toy.toml")
    for lanes in ("0", "2"):
        run = ("--vla-run=" + lanes, "--vla-envs=" + lanes)
        found = project.run(*FEW, *how, *run, policy="lerobot")
        assert "error" not in found.out.lower(), found.out
    rows = project.outcomes("0")
    assert len(rows) == 2 * 2  # clean and null
    assert len({str(row["actions_digest"]) for row in rows}) > 1
    assert all(row["decisions"] == row["steps"] for row in rows)
    assert project.outcomes("2") == rows


def test_a_suite_that_does_not_fit_is_refused_before_the_first_episode(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "weights")
    path = f"{REPOSITORY}:{SITE}"
    project = ToyProject(tmp_path, environment={"PYTHONPATH": path})
    found = project.run(*FEW, "--vla-checkpoint=weights", policy="lerobot", code=4)
    assert "! simulator" in found.out
