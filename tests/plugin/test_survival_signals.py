"""Ctrl-C, once and twice, SIGTERM and SIGHUP: reported, resumed, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.survival import (
    NULL,
    SESSIONS,
    begin,
    check_whole,
    processes_of,
    rows_written,
    signal_all,
    wait_for,
)
from tests.plugin.toy_project import EXPERT, ToyProject

ENDS_WITHIN_S = 10.0


def to_main(project: ToyProject, process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)


def to_group(project: ToyProject, process: subprocess.Popen[str], number: int) -> None:
    """As a terminal does; simulators are in sessions of their own."""
    os.killpg(process.pid, number)


def to_all(project: ToyProject, process: subprocess.Popen[str], number: int) -> None:
    signal_all(project, number)


def to_main_while_a_worker_is_stopped(
    project: ToyProject, process: subprocess.Popen[str], number: int
) -> None:
    worker = next(
        pid
        for pid in processes_of(project)
        if b"sys.stdin" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(worker, signal.SIGSTOP)
    process.send_signal(number)


Strike = Callable[[ToyProject, "subprocess.Popen[str]", int], None]


@pytest.mark.parametrize(
    "strike, number, options, code",
    [
        (to_all, signal.SIGTERM, ("--vla-envs=1",), 143),
        (to_main, signal.SIGHUP, ("--vla-envs=1",), 129),
        (to_group, signal.SIGINT, ("--vla-envs=1",), 2),
        (to_main_while_a_worker_is_stopped, signal.SIGTERM, ("--vla-envs=1", "-n2"), 143),
        (to_all, signal.SIGTERM, ("--vla-envs=1", "-n2"), 143),
        (to_group, signal.SIGINT, ("--vla-envs=1", "-n2"), 2),
        (to_all, signal.SIGTERM, ("--vla-envs=2",), 143),
        (to_group, signal.SIGINT, ("--vla-envs=2",), 2),
    ],
)
def test_a_run_that_is_told_to_end_reports_what_is_there_and_resumes(
    tmp_path: Path,
    calm: ToyProject,
    calm_sessions: ToyProject,
    strike: Strike,
    number: int,
    options: tuple[str, ...],
    code: int,
) -> None:
    in_lanes = "--vla-envs=2" in options
    policy, alike = (SESSIONS, calm_sessions) if in_lanes else (EXPERT, calm)
    project = ToyProject(tmp_path, options=(*options, "--vla-video=off"))
    project.environment["TOY_STEP_SECONDS"] = "0.01"
    process = begin(project, "--vla-run=r", *NULL, policy=policy)
    # Two xdist workers write two clean rollouts first, which answer no node alone.
    wait_for(process, lambda: rows_written(project, "r") >= 4)
    began = time.monotonic()
    strike(project, process, number)
    out, _ = process.communicate(timeout=60)
    took = time.monotonic() - began
    assert process.returncode == code, out
    assert took < ENDS_WITHIN_S, out
    assert "replacing crashed worker" not in out
    assert "Traceback" not in out
    assert "INTERNALERROR" not in out

    rows = check_whole(project, "r")
    assert 4 <= rows < 12
    summary = json.loads((project.directory("r") / "summary.json").read_text())
    assert summary["cells"]["planned"] == 6
    assert summary["cells"]["errors"] == 0
    assert summary["cells"]["reported"] >= 1

    project.environment.pop("TOY_STEP_SECONDS")
    project.run("--vla-run=r", *NULL, policy=policy, code=0)
    assert project.outcomes("r") == alike.outcomes("r")


LINGERS = """
import os, time
from pathlib import Path

def pytest_vla_aggregate(config, report):
    if os.environ.get("LINGER"):
        Path(os.environ["LINGER"]).touch()
        time.sleep(float(os.environ["LINGER_SECONDS"]))
"""


def lingering(project: ToyProject, seconds: float) -> Path:
    """Let the end of a run take its time; the file that appears when it has begun."""
    (project.path / "conftest.py").write_text(LINGERS)
    mark = project.path / "at-the-end"
    project.environment.update(LINGER=str(mark), LINGER_SECONDS=str(seconds))
    return mark


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_end_is_written_lets_it_be_written(tmp_path: Path, number: int) -> None:
    project = ToyProject(tmp_path)
    mark = lingering(project, 1.0)
    process = begin(project, "--vla-run=r", *NULL)
    wait_for(process, mark.exists)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert project.only_suite("r")["reported"] == 6
    assert check_whole(project, "r") == 12


@pytest.mark.parametrize("options", [("--vla-envs=1",), ("--vla-envs=1", "-n2")])
def test_a_second_ctrl_c_cuts_the_end_short_and_breaks_nothing(
    tmp_path: Path, calm: ToyProject, options: tuple[str, ...]
) -> None:
    project = ToyProject(tmp_path, options=(*options, "--vla-video=off"))
    project.environment["TOY_STEP_SECONDS"] = "0.01"
    mark = lingering(project, 60)
    process = begin(project, "--vla-run=r", *NULL)
    wait_for(process, lambda: rows_written(project, "r") >= 2)
    to_group(project, process, signal.SIGINT)
    wait_for(process, mark.exists)
    began = time.monotonic()
    to_group(project, process, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < ENDS_WITHIN_S
    assert process.returncode == 2, out
    assert "interrupted again" in out
    assert "Traceback" not in out
    check_whole(project, "r")
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert project.outcomes("r") == calm.outcomes("r")


def test_ctrl_c_during_collection_leaves_nothing_in_the_way(
    tmp_path: Path, calm: ToyProject
) -> None:
    project = ToyProject(tmp_path)
    (project.path / "conftest.py").write_text(
        "import os, time\n"
        "def pytest_collection_modifyitems(items):\n"
        "    if os.environ.get('LINGER'):\n"
        "        open(os.environ['LINGER'], 'w').close()\n"
        "        time.sleep(60)\n"
    )
    mark = project.path / "collecting"
    project.environment["LINGER"] = str(mark)
    process = begin(project, "--vla-run=r", *NULL)
    wait_for(process, mark.exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 2, out
    assert check_whole(project, "r") == 0
    project.environment.clear()
    project.run("--vla-run=r", *NULL, code=0)
    assert project.outcomes("r") == calm.outcomes("r")


def test_ctrl_c_during_a_video_leaves_no_half_of_one(tmp_path: Path) -> None:
    pytest.importorskip("av")
    project = ToyProject(tmp_path, options=("--vla-envs=1", "--vla-video=on"))
    process = begin(project, "--vla-run=r", *NULL)
    videos = project.directory("r") / "videos"
    wait_for(process, lambda: videos.is_dir() and any(videos.iterdir()))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 2, out
    check_whole(project, "r")
    assert [path for path in videos.iterdir() if path.suffix != ".mp4" or path.name[0] == "."] == []
    project.run("--vla-run=r", *NULL, code=0)
    assert len(list(videos.glob("*.mp4"))) == 6


def test_handlers_of_others_stay(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    (project.path / "conftest.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(77))\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    )
    project.environment["TOY_STEP_SECONDS"] = "0.01"
    process = begin(project, "--vla-run=r", *NULL)
    wait_for(process, lambda: rows_written(project, "r") >= 1)
    process.send_signal(signal.SIGHUP)
    wait_for(process, lambda: rows_written(project, "r") >= 2)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 77, out
    assert processes_of(project) == []


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_policy_that_raises_stops_the_run_again_and_again(tmp_path: Path, processes: str) -> None:
    project = ToyProject(tmp_path, options=("--vla-envs=0", "--vla-video=off", f"-n{processes}"))
    for _ in range(2):
        before = rows_written(project, "r")
        run = project.run("--vla-run=r", policy="tests.fakes.toy_policies:Raises", code=2)
        assert "the first 3 rollouts all ended in an infrastructure error" in run.out
        # A second process may have begun another one by the time that the third is known.
        assert 3 <= rows_written(project, "r") - before <= 3 + int(processes)
        assert "failed" not in run.out.splitlines()[-1]
