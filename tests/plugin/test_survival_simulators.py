"""Simulators that stop, spin, grow or cannot start again, through whole runs."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.toy_faults import LEAK_BYTES
from tests.plugin.survival import NULL, check_whole
from tests.plugin.toy_project import SUITE, ToyProject


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    made = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=off"))
    made.environment["TOY_PIDS"] = str(tmp_path / "pids")
    return made


def prepared(project: ToyProject) -> Counter[str]:
    """How many rollouts each simulator process began."""
    return Counter(Path(project.environment["TOY_PIDS"]).read_text().split())


@pytest.mark.parametrize("fault", ["stop", "spin"])
def test_a_simulator_that_is_stopped_or_spins_costs_one_retry(
    project: ToyProject, calm: ToyProject, fault: str
) -> None:
    once = project.path / "once"
    once.mkdir()
    project.environment.update(TOY_FAULTS=f"reach_left/1={fault}", TOY_FAULTS_ONCE=str(once))
    began = time.monotonic()
    project.run("--vla-run=r", *NULL, "--vla-rollout-timeout=3", code=0)
    assert time.monotonic() - began < 60
    assert project.outcomes("r") == calm.outcomes("r")
    assert sorted(int(str(row["attempts"])) for row in project.rows("r")) == [1] * 11 + [2]
    assert check_whole(project, "r") == 12


def test_simulators_are_replaced_after_so_many_rollouts(
    project: ToyProject, calm: ToyProject
) -> None:
    project.run("--vla-run=r", *NULL, "--vla-recycle-rollouts=5", code=0)
    assert list(prepared(project).values()) == [5, 5, 2]
    assert project.outcomes("r") == calm.outcomes("r")


def test_simulators_that_grow_are_replaced_before_they_are_too_large(
    project: ToyProject, calm: ToyProject
) -> None:
    few = (*NULL, "--vla-task=reach_left", "--vla-episodes=0:2")
    project.environment["TOY_FAULTS"] = "reach_left/0=leak,reach_left/1=leak"
    project.run("--vla-run=whole", *few, code=0)
    assert list(prepared(project).values()) == [4], "8 GiB are not reached"
    Path(project.environment["TOY_PIDS"]).unlink()
    # A limit that is passed at the first rollout: every next one finds a fresh process.
    project.run("--vla-run=r", *few, f"--vla-recycle-memory={LEAK_BYTES / 2**30}", code=0)
    assert list(prepared(project).values()) == [1] * 4
    expected = {str(row["key"]): row for row in calm.outcomes("r")}
    for run in ("whole", "r"):
        rows = project.outcomes(run)
        assert len(rows) == 4
        assert rows == [expected[str(row["key"])] for row in rows]


MORTAL = """
import os
from pathlib import Path
from tests.fakes.toy_simulator import ToyFactory

class Mortal(ToyFactory):
    def __call__(self, settings):
        simulator = super().__call__(settings)
        if Path("no-more").exists():
            os._exit(3)
        if Path("only-one").exists():
            Path("no-more").touch()
        return simulator

factory = Mortal()
"""


def test_a_simulator_that_cannot_start_again_is_in_no_rate_and_the_next_run_completes(
    tmp_path: Path,
) -> None:
    suite = SUITE.replace("tests.fakes.toy_simulator:factory", "mortal:factory")
    project = ToyProject(tmp_path, suite=suite, options=("--vla-envs=1", "--vla-video=off"))
    (project.path / "mortal.py").write_text(MORTAL)
    project.run("--vla-run=calm", *NULL, code=0)
    (project.path / "only-one").touch()
    project.environment["TOY_FAULTS"] = "reach_left/1=kill"
    run = project.run("--vla-run=r", *NULL, code=1)
    assert "exited with code 3" in run.out
    assert "1 robust" in run.out.splitlines()[-1]
    assert "failed" not in run.out.splitlines()[-1]
    done = [row for row in project.rows("r") if row["status"] == "done"]
    assert len(done) == 2

    again = project.run("--vla-run=r", *NULL, code=4)
    assert "cannot start" in again.out
    assert "exited with code 3" in " ".join(again.out.split())

    for name in ("only-one", "no-more"):
        (project.path / name).unlink()
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert [row for row in project.outcomes("r") if row["status"] == "done"] == project.outcomes(
        "calm"
    )
