"""A policy that keeps the interpreter's lock: its process dies, the records stay, the rest runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.survival import begin, check_whole, rows_written
from tests.plugin.toy_project import ToyProject

FEW = ("--vla-axis=null", "--vla-task=left")
"""6 rollouts, 3 nodes."""

CONFTEST = """
import ctypes, os
from pathlib import Path
from pytest_vla_shift.policies import watchdog
from tests.fakes.lane_policies import Sessions

watchdog.LEAST_MARGIN_S = 0.3
watchdog.MARGIN = 0.05

class Keeps(Sessions):
    def reset(self, episode, seed):
        super().reset(episode, seed)
        mark = os.environ.get("KEEPS")
        if mark and episode.episode.index == 2:
            try:
                Path(mark).touch(exist_ok=False)
            except FileExistsError:
                return
            ctypes.PyDLL(None).sleep(3600)
"""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    project = keeping(tmp_path_factory.mktemp("calm"))
    project.environment.clear()
    project.run("--vla-run=r", *FEW, policy="conftest:Keeps", code=0)
    return project


def keeping(folder: Path, *options: str) -> ToyProject:
    """A project whose policy, once, keeps the lock in an episode's reset."""
    project = ToyProject(folder, options=("--vla-envs=1", "--vla-video=off", *options))
    (project.path / "conftest.py").write_text(CONFTEST)
    project.environment["KEEPS"] = str(project.path / "kept")
    return project


@pytest.mark.parametrize("options", [(), ("--vla-envs=2",), ("-n2",)])
def test_its_process_is_killed_with_a_sentence_and_the_next_run_does_the_rest(
    tmp_path: Path, calm: ToyProject, options: tuple[str, ...]
) -> None:
    project = keeping(tmp_path, *options)
    # The first call of a process has ten times as long.
    more = ("--vla-run=r", *FEW, "--vla-policy-timeout=1")
    process = begin(project, *more, policy="conftest:Keeps")
    out, _ = process.communicate(timeout=90)
    assert "the policy's reset has not returned, long after its limit" in out
    assert "conftest.py" in out
    if options == ("-n2",):
        assert process.returncode == 1, out
        assert "crashed while running" in out
        assert "e02-null" in out
    else:
        assert process.returncode == -9, out
    assert check_whole(project, "r") == rows_written(project, "r") >= 2
    again = project.run(*more, policy="conftest:Keeps", code=0)
    assert "Killed" not in again.out
    assert project.outcomes("r") == calm.outcomes("r")
