"""An infrastructure error is retried where that helps, counted apart, and never a failure."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.plugin.inprocess import Inside
from tests.plugin.toy_project import SUITE, ToyProject

NULL = ("--vla-axis=null", "--vla-task=reach_left")


def with_tasks(*tasks: str) -> str:
    listed = ", ".join(f'"{task}"' for task in tasks)
    return SUITE.replace('["reach_left", "reach_right"]', f"[{listed}]")


@pytest.mark.parametrize("fault", ["segv", "kill", "exit", "hang"])
def test_a_lost_worker_costs_one_retry_and_no_outcome(
    tmp_path: Path, calm: ToyProject, fault: str
) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off"))
    once = tmp_path / "once"
    once.mkdir()
    project.environment.update(TOY_FAULTS=f"reach_left/1={fault}", TOY_FAULTS_ONCE=str(once))
    timeout = "--vla-rollout-timeout=3" if fault == "hang" else "--vla-rollout-timeout=60"
    project.run("--vla-run=struck", *NULL, timeout, code=0)
    alike = [row for row in calm.outcomes("r") if row["task"] == "reach_left"]
    assert project.outcomes("struck") == alike
    attempts = sorted(int(str(row["attempts"])) for row in project.rows("struck"))
    assert attempts == [1, 1, 1, 1, 1, 2]


def test_a_worker_lost_twice_is_an_error_that_leaves_every_rate(tmp_path: Path) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off"))
    project.environment["TOY_FAULTS"] = "reach_left/1=segv"
    run = project.run("--vla-run=lost", *NULL, code=1)
    assert "infrastructure error in the clean arm, worker lost (after 2 attempts)" in run.out
    assert "SIGSEGV" in run.out
    assert "2 robust" in run.out.splitlines()[-1]
    assert "1 error" in run.out.splitlines()[-1]
    assert "failed" not in run.out.splitlines()[-1]
    (row,) = [row for row in project.rows("lost") if row["status"] == "error"]
    assert row["success"] is None
    assert row["attempts"] == 2
    suite = project.only_suite("lost")
    assert suite["errors"] == 1
    (null,) = suite["conditions"]
    assert (null["pairs"], null["errors"], null["sr_clean"]) == (2, 1, 1.0)


def test_a_clean_arm_in_error_is_tried_once_and_again_by_the_next_run(
    pytester: pytest.Pytester,
) -> None:
    project = Inside(pytester.path, pytester=pytester)
    project.environment["TOY_FAULTS"] = "reach_left/1=simerror"
    run = project.run("--vla-run=e", "--vla-task=reach_left", code=1)
    assert "5 errors" in run.out.splitlines()[-1]
    errors = [row for row in project.rows("e") if row["status"] == "error"]
    assert [row["condition"] for row in errors] == ["clean"]
    project.environment.clear()
    calm = project.run("--vla-run=e", "--vla-task=reach_left", code=1)
    assert "error" not in calm.out.splitlines()[-1]
    assert "(12 found)" in calm.out
    assert len({row["key"] for row in project.rows("e") if row["status"] == "done"}) == 18


@pytest.mark.parametrize(
    "fault, kind, words",
    [
        ("jitter", "not a pair", "the arms differ in model.target_pos"),
        ("unsettled", "invalid scene", "an object still moves"),
        ("solved", "invalid scene", "already holds after settling"),
        ("missing", "missing asset", ""),
        ("simerror", "simulator", ""),
    ],
)
def test_a_wrong_world_is_an_error_that_says_what_is_wrong(
    pytester: pytest.Pytester, fault: str, kind: str, words: str
) -> None:
    suite = with_tasks("reach_left", f"reach_right_{fault}")
    if fault == "solved":
        # Settling opens the gripper, which would drop what the toy already holds.
        suite = suite.replace("settle_steps = 10", "settle_steps = 0")
    project = Inside(pytester.path, suite=suite, pytester=pytester)
    run = project.run("--vla-run=w", "--vla-axis=null", code=1)
    assert "3 robust" in run.out.splitlines()[-1]
    assert "3 errors" in run.out.splitlines()[-1]
    assert f"arm, {kind}: " in run.out
    assert words in run.out
    assert "not a failure of the policy" in run.out


@pytest.mark.parametrize(
    "policy, words",
    [
        ("NotANumber", "returned nan"),
        ("Infinite", "returned -inf"),
        ("WrongWidth", "width"),
        ("EmptyChunk", "empty chunk"),
        ("TooLong", "more than the chunk"),
        ("Raises", "raised at step"),
        ("RaisesInReset", "raised in reset"),
    ],
)
def test_a_policy_that_misbehaves_stops_the_run_after_three_errors_and_counts_no_failure(
    inside: Inside, policy: str, words: str
) -> None:
    run = inside.run("--vla-run=p", policy=f"tests.fakes.toy_policies:{policy}", code=2)
    assert words in " ".join(run.out.split())
    assert "infrastructure error in the clean arm, policy: " in run.out
    assert "the first 3 rollouts all ended in an infrastructure error" in run.out
    assert "degraded" not in run.out.splitlines()[-1]
    assert "failed" not in run.out.splitlines()[-1]
    assert {row["status"] for row in inside.rows("p")} == {"error"}
    assert len(inside.rows("p")) == 3


def test_errors_after_a_first_success_do_not_stop_the_run(inside: Inside) -> None:
    inside.environment["TOY_FAULTS"] = ",".join(f"reach_right/{k}=simerror" for k in range(3))
    run = inside.run("--vla-run=s", "--vla-axis=null", code=1)
    assert "3 robust" in run.out.splitlines()[-1]
    assert "3 errors" in run.out.splitlines()[-1]


def test_a_policy_that_draws_from_global_generators_gives_the_same_rows_in_any_order(
    project: ToyProject,
) -> None:
    policy = "tests.fakes.toy_policies:GlobalRandom"
    project.run("--vla-run=all", policy=policy)
    project.run("--vla-run=part", "-k", "right and L3", policy=policy)
    project.run("--vla-run=two", "-n2", policy=policy)
    everything = {row["key"]: row for row in project.outcomes("all")}
    assert len(everything) == 36
    assert project.outcomes("two") == project.outcomes("all")
    part = project.outcomes("part")
    assert len(part) == 6
    assert all(everything[row["key"]] == row for row in part)


def test_a_hang_on_a_fresh_worker_costs_the_rollouts_time_and_not_the_starts(
    tmp_path: Path,
) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off"))
    project.environment["TOY_FAULTS"] = "reach_left/0=hang"
    began = time.monotonic()
    options = (*NULL, "--vla-episodes=0", "--vla-rollout-timeout=3")
    run = project.run("--vla-run=h", *options, code=1)
    assert "within the 3 s that a rollout has" in run.out
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_policy_that_raises_in_close_takes_no_report_away(
    project: ToyProject, processes: str
) -> None:
    (project.path / "mine.py").write_text(
        "from tests.fakes.toy_policies import Expert\n"
        "class Mine(Expert):\n"
        "    def close(self):\n"
        "        raise OSError('socket is gone')\n"
    )
    run = project.run(
        "--vla-run=c", "--vla-axis=null", f"-n{processes}", policy="mine:Mine", code=0
    )
    assert "6 robust" in run.out.splitlines()[-1]
    assert "Traceback" not in run.out
    assert project.only_suite("c")["reported"] == 6


def test_a_hook_that_raises_takes_no_report_away_and_fails_the_run(project: ToyProject) -> None:
    (project.path / "conftest.py").write_text(
        "def pytest_vla_aggregate(config, report):\n    raise LookupError('no such table')\n"
    )
    run = project.run("--vla-run=h", "--vla-axis=null", code=1)
    assert "pytest_vla_aggregate" in run.out
    assert "LookupError: no such table" in run.out
    assert "6 robust" in run.out.splitlines()[-1]
    assert project.only_suite("h")["reported"] == 6


def test_a_policy_that_exits_or_raises_says_where(project: ToyProject) -> None:
    (project.path / "mine.py").write_text(
        "import sys\n"
        "from tests.fakes.toy_policies import Expert\n"
        "class Exits(Expert):\n"
        "    def act(self, observation):\n"
        "        sys.exit(3)\n"
    )
    run = project.run("--vla-run=x", "--vla-axis=null", policy="mine:Exits", code=2)
    assert "SystemExit: 3 (mine.py:5, in act)" in " ".join(run.out.split())
    assert {row["status"] for row in project.rows("x")} == {"error"}
