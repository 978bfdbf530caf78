"""The xdist scheduler on every minor version of pytest that is supported, after a real crash."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.plugin.test_scheduling_runs import SOLVED, crashing, statuses, workers_of_episodes
from tests.plugin.toy_project import REPOSITORY


@pytest.fixture(scope="session", params=["9.0", "9.1", "9.2"])
def other_pytest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A version, and a folder with it alone: what it needs is installed already."""
    version: str = request.param
    folder = tmp_path_factory.mktemp(f"pytest-{version}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, f"pytest=={version}.*"], check=True, timeout=120)
    return version, folder


def test_episodes_stay_together_and_a_crash_is_reported(
    tmp_path: Path, other_pytest: tuple[str, Path]
) -> None:
    version, folder = other_pytest
    project = crashing(tmp_path, CRASH_IN_SETUP="reach_left-e01-blur-L1")
    project.environment["PYTHONPATH"] = f"{folder}:{REPOSITORY}"
    run = project.run("--vla-run=c", "-n2", "-v", SOLVED, code=1)
    assert f"pytest-{version}." in run.out
    assert "scheduling tests via EpisodeScheduling" in run.out
    found = statuses(project, "c")
    assert Counter(found.values()) == {"broken": 1, "passed": 11}
    assert found["test_shift[toy-reach_left-e01-blur-L1]"] == "broken"
    whole = {
        episode: workers
        for episode, workers in workers_of_episodes(project, "c").items()
        if episode != ("reach_left", 1)
    }
    assert {len(workers) for workers in whole.values()} == {1}
