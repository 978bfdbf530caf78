"""A worker that cannot start says what is missing and what mends it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import SimulatorError, UsageError, WorkerLost
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.launch import describe, open_simulator
from pytest_vla_shift.simulators.mending import mending_line
from pytest_vla_shift.simulators.process import import_path
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator
from tests.fakes.processes import alive, open_files, wait_until_gone
from tests.fakes.toy_simulator import INFO, NAME, Toy

EPISODE = Episode("toy", "reach_left", 0)


def settings(name: str) -> SimulatorSettings:
    return SimulatorSettings(name, env_seed=7, cameras=("front",), height=16, width=16)


def interpreter(folder: Path, script: str) -> str:
    """An executable that stands for another Python interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_no_such_interpreter_is_a_usage_error() -> None:
    remote = RemoteSimulator(settings(NAME), python="/no/such/python", timeout_s=20)
    before = open_files()
    with pytest.raises(UsageError, match=r"'/no/such/python' cannot be run"):
        remote.prepare(EPISODE)
    assert open_files() == before


def test_an_interpreter_without_this_package_is_told_how_to_get_it(tmp_path: Path) -> None:
    python = interpreter(tmp_path, f"unset PYTHONPATH; exec {sys.executable} -I -S $2 $3 $4 $5 $6")
    remote = RemoteSimulator(settings(NAME), python=python, timeout_s=20)
    with pytest.raises(WorkerLost, match=r"exited with code 1 .*Install pytest-vla-shift in the"):
        remote.prepare(EPISODE)


def test_another_release_in_the_worker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import pytest_vla_shift\npytest_vla_shift.__version__ = '0.0.1'\n"
    )
    python = interpreter(
        tmp_path, f'PYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"'
    )
    remote = RemoteSimulator(settings(NAME), python=python, timeout_s=20)
    with pytest.raises(UsageError, match=r"has pytest-vla-shift 0\.0\.1 .*the same release"):
        remote.prepare(EPISODE)


@pytest.mark.parametrize(
    "name, message",
    [
        ("nowhere.at.all:factory", "cannot be loaded: No module named 'nowhere'"),
        ("tests.fakes.toy_simulator:nothing", "has no attribute 'nothing'"),
        ("tests.fakes.toy_simulator:Toy", "is not a SimulatorFactory"),
        ("liberro", "Did you mean 'libero'"),
    ],
)
def test_a_wrong_name_is_the_same_usage_error_in_either_mode(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_simulator(settings(name), envs=0, rollout_timeout_s=20)
    remote = open_simulator(settings(name), envs=1, rollout_timeout_s=20)
    with pytest.raises(UsageError, match=message):
        remote.prepare(EPISODE)
    remote.close()


def test_a_package_that_is_missing_in_the_worker_is_named_with_its_mending_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "needy_sim.py").write_text(
        textwrap.dedent(
            """
            class Factory:
                def __call__(self, settings):
                    raise ModuleNotFoundError("No module named 'robosuite'")
                def describe(self):
                    raise NotImplementedError
            factory = Factory()
            """
        )
    )
    remote = RemoteSimulator(
        settings("needy_sim:factory"), timeout_s=20, environment={"PYTHONPATH": str(tmp_path)}
    )
    with pytest.raises(SimulatorError, match=r"'robosuite'\. pip install 'pytest-vla-shift\[libe"):
        remote.prepare(EPISODE)


@pytest.mark.parametrize(
    "complaint, word",
    [
        ("ImportError: libEGL.so.1: cannot open shared object file", "libegl1"),
        ("AttributeError: 'NoneType' object has no attribute 'eglQueryString'", "libegl1"),
        ("ImportError: Cannot initialize a EGL device display", "MUJOCO_GL=osmesa"),
        ("ModuleNotFoundError: No module named 'bddl'", "[libero]"),
        ("PermissionError: [Errno 13] Permission denied: '/tmp/robosuite.log'", "TMPDIR"),
    ],
)
def test_complaints_of_simulators_have_a_mending_line(complaint: str, word: str) -> None:
    line = mending_line(complaint)
    assert line is not None
    assert word in line


def test_an_unknown_complaint_has_none() -> None:
    assert mending_line("ValueError: math domain error") is None


def test_a_worker_that_never_comes_up_is_lost_at_the_start_deadline(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "echo still loading the world; sleep 600")
    remote = RemoteSimulator(settings(NAME), python=python, timeout_s=20, start_timeout_s=0.6)
    began = time.monotonic()
    with pytest.raises(WorkerLost, match=r"'hello' within the 0\.6 s for starting .*the world"):
        remote.prepare(EPISODE)
    assert time.monotonic() - began < 3


def test_the_first_prepare_has_time_of_its_own_and_the_second_has_not() -> None:
    slow = {"TOY_PREPARE_SECONDS": "0.6"}
    remote = RemoteSimulator(settings(NAME), timeout_s=0.3, environment=slow)
    try:
        assert remote.prepare(EPISODE) == Toy(settings(NAME)).prepare(EPISODE)
        with pytest.raises(WorkerLost, match=r"'prepare' .* within the 0\.3 s"):
            remote.prepare(EPISODE)
    finally:
        remote.close()


def test_describe_asks_the_other_interpreter_and_leaves_nothing() -> None:
    before = open_files()
    assert describe(NAME, python=sys.executable) == INFO
    assert open_files() == before


def test_mujoco_gl_is_egl_unless_something_else_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "tests.fakes.toy_environment:factory"
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert describe(name, python=sys.executable).renderer == "egl"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert describe(name, python=sys.executable).renderer == "osmesa"


def test_the_worker_gets_our_import_path_but_no_installed_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(pytest.__file__).parent / "of_a_package"))
    paths = import_path()
    assert str(Path(__file__).parents[2]) in paths
    assert not any("site-packages" in path or "lib-dynload" in path for path in paths)


PARENT = """
import sys, threading, time
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator

settings = SimulatorSettings("tests.fakes.toy_simulator:factory", 7, ("front",), 16, 16)
remote = RemoteSimulator(settings, python=sys.argv[1], timeout_s=60)
episode = Episode("toy", "reach_left", 0)
threading.Thread(target=remote.prepare, args=(episode,), daemon=True).start()
while remote.pid is None:
    time.sleep(0.01)
print(remote.pid, flush=True)
time.sleep(60)
"""


def test_a_worker_that_hangs_before_it_is_up_ends_with_a_parent_that_is_killed(
    tmp_path: Path,
) -> None:
    python = interpreter(tmp_path, "exec sleep 600")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, python], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert alive(worker)
    os.kill(worker, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    gone = wait_until_gone(worker)
    if not gone:
        os.kill(worker, signal.SIGKILL)
    assert gone
