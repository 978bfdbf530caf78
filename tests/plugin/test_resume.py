"""The store survives a kill at any moment, and the next run does only the rest."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.plugin.toy_project import SUITE, ToyProject


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    project = ToyProject(tmp_path_factory.mktemp("whole"))
    project.run("--vla-run=whole", code=1)
    return project


@pytest.mark.parametrize("rollouts_before_the_kill", [0, 1, 7, 20])
@pytest.mark.parametrize("envs", ["0", "1"])
def test_a_killed_run_resumes_to_the_same_rows_and_aggregates(
    tmp_path: Path, uninterrupted: ToyProject, rollouts_before_the_kill: int, envs: str
) -> None:
    project = ToyProject(tmp_path, options=(f"--vla-envs={envs}", "--vla-video=off"))
    project.environment["TOY_STEP_SECONDS"] = "0.003"
    run = project.start("--vla-run=whole")
    store = project.directory("whole") / "rollouts"
    while True:
        assert run.poll() is None, run.communicate()
        started = sum(f.read_bytes().count(b'"started"') for f in store.glob("results-*.jsonl"))
        if started > rollouts_before_the_kill:
            break
        time.sleep(0.002)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()

    finished = {str(row["key"]) for row in project.rows("whole")}
    assert rollouts_before_the_kill <= len(finished) < 36
    project.environment.clear()
    project.run("--vla-run=whole", code=1)

    rows = project.outcomes("whole")
    assert len(rows) == 36, "a rollout that was recorded has run again"
    assert rows == uninterrupted.outcomes("whole")
    assert project.summary("whole") == uninterrupted.summary("whole")


def test_a_killed_xdist_controller_resumes_as_well(
    tmp_path: Path, uninterrupted: ToyProject
) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off", "-n2"))
    project.environment["TOY_STEP_SECONDS"] = "0.003"
    run = project.start("--vla-run=whole")
    store = project.directory("whole") / "rollouts"
    while sum(f.read_bytes().count(b'"rollout"') for f in store.glob("results-*.jsonl")) < 6:
        assert run.poll() is None, run.communicate()
        time.sleep(0.002)
    os.kill(run.pid, signal.SIGKILL)
    # Its workers may still be at work for a moment: at once, so that both runs meet.
    project.environment.clear()
    project.run("--vla-run=whole", code=1)
    run.communicate()

    rows = project.outcomes("whole")
    assert {str(row["key"]): row for row in rows} == {
        str(row["key"]): row for row in uninterrupted.outcomes("whole")
    }
    assert project.summary("whole") == uninterrupted.summary("whole")


def test_a_finished_run_executes_nothing_and_says_so(uninterrupted: ToyProject) -> None:
    before = uninterrupted.rows("whole")
    again = uninterrupted.run("--vla-run=whole", code=1)
    assert uninterrupted.rows("whole") == before
    assert "rollouts 36 of 36 (36 found)" in again.out


def test_a_damaged_line_is_named_and_its_rollout_runs_again(project: ToyProject) -> None:
    project.run("--vla-run=d", "--vla-axis=null", code=0)
    whole = project.outcomes("d")
    (file,) = (project.directory("d") / "rollouts").glob("results-*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    damaged = [number for number, line in enumerate(lines) if '"kind":"rollout"' in line]
    lines[damaged[0]] = '{"kind":"rollout","schema":1,"key":"x"}\n'
    lines[damaged[1]] = "\x00\x01 not json\n"
    # The last line was cut off in the middle.
    lines[damaged[-1]] = lines[damaged[-1]][:100]
    file.write_text("".join(lines[: damaged[-1] + 1]))

    run = project.run("--vla-run=d", "--vla-axis=null", code=0)
    words = " ".join(run.out.split())
    for number in (damaged[0] + 1, damaged[1] + 1):
        assert f"{file.name}, line {number} is not a record" in words
    assert f"{file.name}, line {damaged[-1] + 1} is not a record (cut off" in words
    assert "(9 found)" in run.out
    file.unlink()
    fresh = [row["key"] for row in project.outcomes("d")]
    assert len(fresh) == 3
    rows = {row["key"]: row for row in whole}
    assert project.outcomes("d") == [rows[key] for key in fresh]


def test_fresh_runs_everything_again_and_keeps_what_was_there(project: ToyProject) -> None:
    project.run("--vla-run=f", "--vla-axis=null", code=0)
    first = project.outcomes("f")
    run = project.run("--vla-run=f", "--vla-axis=null", "--vla-fresh", code=0)
    assert "found" not in run.out
    assert project.outcomes("f") == first
    (archived,) = (project.directory("f") / "rollouts" / "archive").glob("*/results-*.jsonl")
    kept = [json.loads(line) for line in archived.read_text().splitlines()]
    assert sum(row["kind"] == "rollout" for row in kept) == 12


def test_two_outcomes_of_one_key_are_refused(project: ToyProject) -> None:
    project.run("--vla-run=c", "--vla-axis=null", code=0)
    (file,) = (project.directory("c") / "rollouts").glob("results-*.jsonl")
    row = project.rows("c")[0]
    row["steps"] = int(str(row["steps"])) + 1
    file.with_name("results-other-1.jsonl").write_text(json.dumps(row) + "\n")
    run = project.run("--vla-run=c", "--vla-axis=null", code=4)
    assert "second, different outcome" in run.out
    assert str(row["key"]) in run.out
    project.run("--vla-run=c", "--vla-axis=null", "--vla-fresh", code=0)


def test_a_changed_protocol_or_policy_argument_never_reuses_a_record(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    options = ("--vla-run=k", "--vla-axis=null", "--vla-task=reach_left", "--vla-episodes=0")
    project.run(*options, code=0)
    assert len(project.rows("k")) == 2
    for number, (before, after) in enumerate(
        [
            ("env_seed = 0", "env_seed = 1"),
            ("policy_seed = 0", "policy_seed = 1"),
            ("settle_steps = 10", "settle_steps = 11"),
            ("horizon = 60", "horizon = 61"),
            ("height = 16", "height = 18"),
        ],
        start=2,
    ):
        (project.path / "suite.toml").write_text(SUITE.replace(before, after))
        project.run(*options, code=0)
        assert len(project.rows("k")) == 2 * number, after
