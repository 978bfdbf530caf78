"""Errors one after the other, after a good start: the run stops, says why, and resumes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla_shift.error_streak import ErrorStreak
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.store import Store
from tests.plugin.survival import NULL
from tests.plugin.toy_project import SUITE, ToyProject

CONFTEST = """
import os
from tests.fakes.lane_policies import Sessions

class Fails(Sessions):
    def reset(self, episode, seed):
        super().reset(episode, seed)
        if os.environ.get("FAILS") and episode.episode.index > 1:
            raise ConnectionError("garbage from the server")
"""


def failing(folder: Path, *options: str) -> ToyProject:
    suite = SUITE.replace('episodes = "0:3"', 'episodes = "0:8"')
    project = ToyProject(folder, suite=suite, options=("--vla-video=off", *options))
    (project.path / "conftest.py").write_text(CONFTEST)
    return project


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    project = failing(tmp_path_factory.mktemp("calm"), "--vla-envs=0")
    project.run("--vla-run=r", *NULL, policy="conftest:Fails", code=0)
    return project


@pytest.mark.parametrize("options", [("--vla-envs=0",), ("--vla-envs=2",), ("--vla-envs=0", "-n2")])
def test_errors_in_a_row_stop_the_run_wherever_they_are_and_it_resumes(
    tmp_path: Path, calm: ToyProject, options: tuple[str, ...]
) -> None:
    project = failing(tmp_path, *options)
    project.environment["FAILS"] = "yes"
    run = project.run("--vla-run=r", *NULL, "--vla-max-errors=2", policy="conftest:Fails", code=2)
    flat = " ".join(run.out.split())
    assert (
        "2 rollouts in a row ended in an infrastructure error, the last one of kind policy" in flat
    )
    assert "garbage from the server" in flat
    assert "run the same command again for the rest" in flat
    assert "replacing crashed worker" not in run.out
    assert "failed" not in run.out.splitlines()[-1]
    errors = [row for row in project.rows("r") if row["status"] == "error"]
    # The clean arms of two episodes, of which no more is run. What is under way elsewhere may end.
    assert 2 <= len(errors) <= 2 + ("--vla-envs=2" in options) + 2 * ("-n2" in options)
    summary = json.loads((project.directory("r") / "summary.json").read_text())
    assert 1 <= summary["cells"]["errors"] <= len(errors)
    project.environment.clear()
    project.run("--vla-run=r", *NULL, policy="conftest:Fails", code=0)
    done = [row for row in project.outcomes("r") if row["status"] == "done"]
    assert done == calm.outcomes("r")


def test_with_zero_it_goes_on_whatever_happens(tmp_path: Path) -> None:
    project = failing(tmp_path, "--vla-envs=0")
    project.environment["FAILS"] = "yes"
    run = project.run("--vla-run=r", *NULL, "--vla-max-errors=0", policy="conftest:Fails", code=1)
    assert "in a row" not in run.out
    assert project.only_suite("r")["reported"] == 16


def records(project: ToyProject, *kinds: str | None) -> list[RolloutRecord]:
    """Rows of these kinds of errors; None for one that was measured."""
    (measured, *_) = Store(project.directory("r"), "reader").records().values()
    made = []
    for kind in kinds:
        failed = replace(measured, status="error", error=(str(kind), "what\nwhere"))
        made.append(measured if kind is None else failed)
    return made


@pytest.mark.parametrize(
    "kinds, stops",
    [
        (["policy", "policy"], False),
        (["policy", "worker lost", "simulator"], True),
        (["policy", "policy", None, "policy", "policy", None], False),
        (["policy", "invalid scene", "policy", "missing asset", "policy"], True),
        (["not a pair", "unreachable pose", "invalid scene", "missing asset"] * 3, False),
        ([None, None, "policy", "policy", "policy", None], True),
    ],
)
def test_what_counts_and_what_ends_a_row(
    calm: ToyProject, kinds: list[str | None], stops: bool
) -> None:
    streak, never = ErrorStreak(3), ErrorStreak(None)
    for record in records(calm, *kinds):
        streak.see(record)
        never.see(record)
    assert (streak.problem is not None) == stops
    assert never.problem is None
