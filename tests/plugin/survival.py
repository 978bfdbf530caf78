"""What tests of survival share: a run that is struck, and what must hold when it is over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.rollouts.store import Store
from tests.plugin.toy_project import ToyProject

NULL = ("--vla-axis=null",)
"""12 rollouts, 6 nodes."""

SESSIONS = "tests.fakes.lane_policies:Sessions"
"""The expert, for several rollouts at once."""

TOKEN = "TOY_SURVIVAL_TOKEN"


def begin(
    project: ToyProject,
    *args: str,
    policy: str | None = None,
    before: Callable[[], None] | None = None,
    output: IO[str] | int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """A run in a session of its own, as a terminal or a batch system starts one.

    Every process of it, simulators too, has the project's path in its environment. ``before`` is
    called in the new process, and ``output`` is where it prints.
    """
    project.environment[TOKEN] = str(project.path)
    command = project.command(*args) if policy is None else project.command(*args, policy=policy)
    return subprocess.Popen(
        command,
        cwd=project.path,
        env=project.env(),
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: _as_from_a_terminal(before),
    )


def _as_from_a_terminal(before: Callable[[], None] | None) -> None:
    # The tests themselves may run under nohup, whose children ignore SIGHUP.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if before is not None:
        before()


def processes_of(project: ToyProject) -> list[int]:
    """Every process of the project's runs, zombies aside."""
    token = f"{TOKEN}={project.path}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if token in environment:
            found.append(int(folder.name))
    return found


def signal_all(project: ToyProject, number: int) -> None:
    """The signal to every process, in no order, as Slurm does to those of a step."""
    for pid in processes_of(project):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def rows_written(project: ToyProject, run: str) -> int:
    """How many rollouts are in the store by now."""
    store = project.directory(run) / "rollouts"
    files = list(store.glob("results-*.jsonl"))
    return sum(file.read_bytes().count(b'"kind":"rollout"') for file in files)


def wait_for(
    process: subprocess.Popen[str], ready: Callable[[], bool], within_s: float = 90
) -> None:
    """Wait until ``ready``; the process must not end before."""
    until = time.monotonic() + within_s
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)


def recorded(project: ToyProject, run: str) -> dict[str, dict[str, JSON]]:
    """Key -> what a run has recorded of a rollout; a last line that was cut off is none."""
    records = Store(project.directory(run), "reader").records()
    return {key: record.outcome() for key, record in records.items()}


def check_whole(project: ToyProject, run: str) -> int:
    """Nothing is broken, nothing is in error, nothing is left; how many rows there are."""
    until = time.monotonic() + 20
    while (left := processes_of(project)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    store = Store(project.directory(run), "reader")
    assert store.bad_rows == []
    assert {record.status for record in store.records().values()} <= {"done"}
    for key, record in store.records().items():
        actions = store.actions(key)
        assert actions is not None
        assert len(actions) == record.steps
    scraps = [path for path in project.directory(run).rglob("*") if path.name.endswith(".part")]
    assert scraps == []
    return len(store.records())
