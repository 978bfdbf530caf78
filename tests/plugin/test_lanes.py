"""``--vla-envs=N``: several rollouts at once, and nothing that anybody could tell it by."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.plugin.toy_project import ToyProject

LANES = "tests.fakes.lane_policies"
DRAWS = f"{LANES}:DrawsEverywhere"

MEDDLER = """
import random, threading, time
import numpy as np

MAIN = threading.get_ident()

def pytest_vla_rollout_finished(record):
    assert threading.get_ident() == MAIN
    random.random(); np.random.random()

def pytest_runtest_setup(item):
    random.seed(0); np.random.seed(0)
"""

MODULE = """
import random
import numpy as np

def test_shift(pair):
    random.random(); np.random.random()
    pair.assert_not_degraded()
"""


def project(path: Path, *options: str, **more: str) -> ToyProject:
    return ToyProject(path, options=("--vla-video=off", *options), environment=more)


@pytest.fixture(scope="module")
def one_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """Two runs without lanes: one in the pytest process, one with a simulator process."""
    made = project(tmp_path_factory.mktemp("one"))
    made.run("--vla-run=inside", "--vla-envs=0", policy=DRAWS, code=1)
    made.run("--vla-run=alone", "--vla-envs=1", policy=DRAWS, code=1)
    assert made.outcomes("inside") == made.outcomes("alone")
    return made


@pytest.mark.parametrize(
    "options",
    [
        ("--vla-envs=2",),
        ("--vla-envs=5",),
        ("--vla-envs=2", "-n2"),
        ("--vla-envs=3", "-n2", "--dist=worksteal"),
    ],
    ids=" ".join,
)
def test_the_rows_are_the_same_whatever_runs_beside(
    one_at_a_time: ToyProject, tmp_path: Path, options: tuple[str, ...]
) -> None:
    # A policy with memory that draws from every global generator, and tests that draw as well.
    made = project(tmp_path, *options)
    (tmp_path / "conftest.py").write_text(MEDDLER)
    (tmp_path / "test_toy.py").write_text(MODULE)
    run = made.run("--vla-run=lanes", policy=DRAWS, code=1)
    assert made.outcomes("lanes") == one_at_a_time.outcomes("alone")
    assert made.summary("lanes") == one_at_a_time.summary("alone")
    assert "integrity" in run.out
    rows = made.rows("lanes")
    assert len({(r["where"]["worker"], r["where"]["lane"]) for r in rows}) > 1  # type: ignore[index]


@pytest.mark.parametrize("options", [("--vla-envs=1",), ("--vla-envs=3",)], ids=" ".join)
def test_the_rows_are_the_same_in_any_order(
    one_at_a_time: ToyProject, tmp_path: Path, options: tuple[str, ...]
) -> None:
    made = project(tmp_path, *options)
    (tmp_path / "conftest.py").write_text(
        "import random\n"
        "def pytest_collection_modifyitems(items):\n"
        "    random.Random(7).shuffle(items)\n"
    )
    made.run("--vla-run=lanes", policy=DRAWS, code=1)
    assert made.outcomes("lanes") == one_at_a_time.outcomes("alone")


def test_nodes_are_told_in_their_order_and_live(one_at_a_time: ToyProject, tmp_path: Path) -> None:
    made = project(tmp_path, "--vla-envs=3")
    lanes = made.run("-v", "--vla-run=lanes", policy=DRAWS, code=1)
    alone = one_at_a_time.run("-v", "--vla-run=alone", "--vla-envs=1", policy=DRAWS, code=1)

    def told(out: str) -> list[str]:
        lines = [line for line in out.splitlines() if "::" in line]
        return [line.split("%")[0].rsplit("[", 1)[0].strip() for line in lines]

    assert told(lanes.out)[:30] == told(alone.out)[:30]


def test_batches_and_single_rollouts_give_the_same_rows(tmp_path: Path) -> None:
    made = project(tmp_path)
    log = tmp_path / "calls"
    batcher = f"{LANES}:Batcher"
    made.run("--vla-run=alone", "--vla-envs=0", policy=batcher)
    made.run("--vla-run=lanes", "--vla-envs=4", policy=batcher)
    assert made.outcomes("alone") == made.outcomes("lanes")
    made.run("--vla-run=seen", "--vla-envs=4", f"--vla-policy-arg=log={log}", policy=batcher)
    assert max(int(line) for line in log.read_text().split()) > 1


def test_a_policy_with_memory_and_no_sessions_is_refused_for_two_lanes(tmp_path: Path) -> None:
    made = project(tmp_path)
    run = made.run("--vla-envs=2", code=4)
    assert "session()" in run.out
    assert "-n N" in run.out
    assert "Traceback" not in run.out
    assert not list(made.path.glob("reports/*/rollouts/results-*.jsonl"))


def test_the_policy_lives_in_one_thread_and_is_closed_there(tmp_path: Path) -> None:
    for envs in ("1", "3"):
        closed = tmp_path / f"closed-{envs}"
        made = project(tmp_path, f"--vla-envs={envs}", ONE_THREAD_CLOSED=str(closed))
        made.run(f"--vla-run=r{envs}", policy=f"{LANES}:OneThread", code=1)
        assert closed.exists()
        assert {row["status"] for row in made.rows(f"r{envs}")} == {"done"}


def test_a_crash_in_one_lane_costs_one_attempt_of_one_rollout(
    one_at_a_time: ToyProject, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    once.mkdir()
    made = project(
        tmp_path / "p",
        "--vla-envs=3",
        TOY_FAULTS="reach_left/1=segv,reach_right/2=kill",
        TOY_FAULTS_ONCE=str(once),
    )
    made.run("--vla-run=lanes", policy=DRAWS, code=1)
    assert made.outcomes("lanes") == one_at_a_time.outcomes("alone")
    assert sorted(str(row["attempts"]) for row in made.rows("lanes"))[-3:] == ["1", "2", "2"]


def test_dash_x_stops_at_the_first_failure_and_a_second_run_does_only_the_rest(
    one_at_a_time: ToyProject, tmp_path: Path
) -> None:
    made = project(tmp_path, "--vla-envs=2", TOY_STEP_SECONDS="0.005")
    first = made.run("-x", "--vla-run=lanes", policy=DRAWS)
    assert first.code in (1, 2)
    assert "stopping after 1 failures" in first.out
    before = made.rows("lanes")
    assert 0 < len(before) < len(one_at_a_time.rows("alone"))
    made.environment.clear()
    made.run("--vla-run=lanes", policy=DRAWS, code=1)
    rows = made.rows("lanes")
    assert len({row["key"] for row in rows}) == len(rows)  # nothing ran twice
    assert made.outcomes("lanes") == one_at_a_time.outcomes("alone")


def test_ctrl_c_ends_soon_leaves_no_process_and_is_taken_up_again(
    one_at_a_time: ToyProject, tmp_path: Path
) -> None:
    made = project(tmp_path, "--vla-envs=3", TOY_STEP_SECONDS="0.02")
    with made.start("--vla-run=lanes", policy=DRAWS) as process:
        until = time.monotonic() + 60
        while not made.rows("lanes") and time.monotonic() < until:
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 15.0
    assert process.returncode == 2, out
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert "Traceback" not in out
    made.environment.clear()
    made.run("--vla-run=lanes", policy=DRAWS, code=1)
    assert made.outcomes("lanes") == one_at_a_time.outcomes("alone")
    assert all(row["error"] is None for row in made.rows("lanes"))


@pytest.mark.parametrize("envs", ["1", "2"])
def test_a_policy_that_is_late_costs_its_rollout_and_is_used_again(
    tmp_path: Path, envs: str
) -> None:
    log = tmp_path / "late"
    made = project(tmp_path / "p", f"--vla-envs={envs}", "--vla-policy-timeout=1")
    run = made.run(
        "--vla-axis=null",
        "--vla-run=late",
        "--vla-policy-arg=seconds=1.5",
        f"--vla-policy-arg=log={log}",
        policy=f"{LANES}:Hangs",
        code=1,
    )
    rows = made.rows("late")
    errors = [row for row in rows if row["status"] == "error"]
    assert [row["error"][0] for row in errors] == ["policy timeout"]  # type: ignore[index]
    assert [(row["task"], row["episode"]) for row in errors] == [("reach_left", 1)]
    # Six clean rollouts and six null arms, without the null arm that had nothing to pair with.
    assert len(rows) == 11
    assert log.read_text() == "late\n"
    assert "did not return within 1 s" in run.out


@pytest.mark.parametrize("envs,more", [("1", ()), ("2", ()), ("1", ("-n1",))])
def test_a_policy_that_never_returns_stops_the_run_without_counting_failures(
    tmp_path: Path, envs: str, more: tuple[str, ...]
) -> None:
    made = project(tmp_path, f"--vla-envs={envs}", "--vla-policy-timeout=1")
    began = time.monotonic()
    run = made.run("--vla-run=stuck", "--vla-policy-arg=episode=0", *more, policy=f"{LANES}:Hangs")
    assert time.monotonic() - began < 60
    assert run.code not in (0, 4)
    assert "the policy hangs" in run.out
    kinds = {row["error"][0] for row in made.rows("stuck") if row["error"]}  # type: ignore[index]
    assert kinds <= {"policy timeout", "policy stuck"}
    assert len(made.rows("stuck")) < 36
