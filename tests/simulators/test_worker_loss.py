"""A worker that dies, hangs or outlives its use costs one WorkerLost and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import SimulatorError, WorkerLost
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator
from tests.fakes.processes import alive, open_files, resident_bytes, wait_until_gone
from tests.fakes.toy_simulator import NAME

SETTINGS = SimulatorSettings(NAME, env_seed=7, cameras=("front",), height=16, width=16)
GOOD = Episode("toy", "reach_left", 1)


@pytest.fixture
def remote() -> Iterator[RemoteSimulator]:
    simulator = RemoteSimulator(SETTINGS, timeout_s=20)
    yield simulator
    simulator.close()


def run_into(simulator: RemoteSimulator, task: str) -> int:
    """Run a faulty task; the worker's pid."""
    simulator.prepare(Episode("toy", task, 1))
    pid = simulator.pid
    assert pid is not None
    simulator.step(np.zeros((20, 7)), stop_on_success=False)
    return pid


@pytest.mark.parametrize(
    "fault, how",
    [
        ("segv", "was killed by SIGSEGV during 'step'"),
        ("kill", "was killed by SIGKILL"),
        ("exit", "exited with code 3 during 'step'"),
    ],
)
def test_a_death_is_a_lost_worker_that_says_how_and_a_fresh_one_follows(
    remote: RemoteSimulator, fault: str, how: str
) -> None:
    before = remote.prepare(GOOD)
    first = remote.pid
    with pytest.raises(WorkerLost) as caught:
        run_into(remote, f"reach_left_{fault}")
    message = str(caught.value)
    assert how in message
    assert f"(toy reach_left_{fault} e01)" in message
    assert f"the toy's {fault} is about to strike" in "".join(
        [message, *getattr(caught.value, "__notes__", [])]
    )
    assert caught.value.retry
    assert remote.pid is None
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        remote.observe()
    assert remote.prepare(GOOD) == before
    assert remote.pid not in (None, first)


def test_a_segmentation_fault_quotes_the_innermost_frame(remote: RemoteSimulator) -> None:
    with pytest.raises(WorkerLost, match=r"Segmentation fault .*toy_faults\.py.* in _strike"):
        run_into(remote, "reach_left_segv")


@pytest.mark.parametrize("fault, op", [("hang", "step"), ("hangprepare", "prepare")])
def test_a_hang_ends_at_the_deadline_and_says_where_it_hung(fault: str, op: str) -> None:
    remote = RemoteSimulator(SETTINGS, timeout_s=1.0)
    try:
        remote.prepare(GOOD)
        pid = remote.pid
        assert pid is not None
        began = time.monotonic()
        with pytest.raises(WorkerLost) as caught:
            run_into(remote, f"reach_left_{fault}")
        assert time.monotonic() - began < 3.0
        assert f"did not answer '{op}'" in str(caught.value)
        assert "within the 1 s that a rollout has" in str(caught.value)
        assert "toy_faults.py" in str(caught.value)
        assert not alive(pid)
        remote.prepare(GOOD)
    finally:
        remote.close()


def test_the_deadline_counts_waiting_and_not_the_policys_time() -> None:
    remote = RemoteSimulator(SETTINGS, timeout_s=1.0)
    try:
        remote.prepare(GOOD)
        time.sleep(1.2)
        assert remote.step(np.zeros((4, 7))).steps == 4
    finally:
        remote.close()


def test_the_deadline_is_for_a_rollout_and_not_for_one_call() -> None:
    remote = RemoteSimulator(SETTINGS, timeout_s=2.0, environment={"TOY_STEP_SECONDS": "0.1"})

    def chunks(count: int) -> None:
        for _ in range(count):
            remote.step(np.zeros((4, 7)))

    try:
        for _ in range(2):
            remote.prepare(GOOD)
            chunks(3)
        with pytest.raises(WorkerLost, match="did not answer 'step'"):
            chunks(3)
    finally:
        remote.close()


def test_a_death_between_two_calls_is_noticed_at_the_next(remote: RemoteSimulator) -> None:
    remote.prepare(GOOD)
    assert remote.pid is not None
    os.kill(remote.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="was killed by SIGKILL"):
        remote.observe()


def test_an_interruption_half_way_ends_the_worker_and_no_late_answer_is_read(
    remote: RemoteSimulator,
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    before = remote.prepare(GOOD)
    pid = remote.pid
    assert pid is not None
    handler = signal.signal(signal.SIGUSR2, interrupt)
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGUSR2))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            run_into(remote, "reach_left_hang")
    finally:
        timer.join()
        signal.signal(signal.SIGUSR2, handler)
    assert not alive(pid)
    with pytest.raises(SimulatorError, match="no episode is prepared"):
        remote.success()
    assert remote.prepare(GOOD) == before


def test_relaunch_gives_another_process_and_the_same_episode(remote: RemoteSimulator) -> None:
    before, pid = remote.prepare(GOOD), remote.pid
    remote.relaunch()
    assert remote.prepare(GOOD) == before
    assert remote.pid not in (None, pid)


def test_nothing_is_left_behind_by_losses_and_closes() -> None:
    shared = Path("/dev/shm")
    memory, files = set(shared.iterdir()), None
    for fault in ("segv", "kill", "segv"):
        remote = RemoteSimulator(SETTINGS, timeout_s=20)
        with pytest.raises(WorkerLost):
            run_into(remote, f"reach_left_{fault}")
        remote.prepare(GOOD)
        pid = remote.pid
        assert pid is not None
        remote.close()
        remote.close()
        assert not alive(pid)
        files = open_files() if files is None else files
        assert open_files() == files
    assert set(shared.iterdir()) <= memory


def test_a_worker_that_grew_too_large_is_replaced() -> None:
    remote = RemoteSimulator(SETTINGS, timeout_s=20, recycle_above_bytes=1)
    leaking = Episode("toy", "reach_left_leak", 0)
    first, pid = remote.prepare(leaking), remote.pid
    assert pid is not None
    limit = resident_bytes(pid) + 25 * 2**20
    remote.close()
    remote = RemoteSimulator(SETTINGS, timeout_s=20, recycle_above_bytes=limit)
    try:
        pids = []
        for _ in range(12):
            assert remote.prepare(leaking) == first
            pids.append(remote.pid)
        assert 3 <= len(set(pids)) <= 6
        assert all(pids.count(pid) <= 4 for pid in pids)
    finally:
        remote.close()


def test_a_simulator_that_prints_a_lot_does_not_fill_the_disk(remote: RemoteSimulator) -> None:
    sizes = []
    for _ in range(24):
        remote.prepare(Episode("toy", "reach_left_noise", 0))
        sizes.append(Path(f"/proc/{remote.pid}/fd/1").stat().st_size)
    assert max(sizes) > 10**6
    assert max(sizes) < 6 * 2**20
    assert sizes != sorted(sizes)


PARENT = textwrap.dedent(
    """
    import sys, threading, time
    import numpy as np
    from pytest_vla_shift.protocol.observation import Episode
    from pytest_vla_shift.simulators.remote import RemoteSimulator
    from pytest_vla_shift.simulators.protocol import SimulatorSettings
    from tests.fakes.toy_simulator import NAME
    settings = SimulatorSettings(NAME, 7, ("front",), 16, 16)
    remote = RemoteSimulator(settings, timeout_s=60)
    remote.prepare(Episode("toy", sys.argv[1], 0))
    print(remote.pid, flush=True)
    if sys.argv[2] == "step":
        remote.step(np.zeros((20, 7)))
    elif sys.argv[2] == "wait":
        time.sleep(60)
    """
)


def start_parent(task: str, then: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, task, then],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        start_new_session=True,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("task, then", [("reach_left", "wait"), ("reach_left_hang", "step")])
def test_a_killed_parent_takes_its_worker_along_idle_or_hanging(task: str, then: str) -> None:
    parent, worker = start_parent(task, then)
    time.sleep(0.3)
    assert alive(worker)
    parent.kill()
    parent.communicate()
    assert wait_until_gone(worker)


def test_a_parent_that_forgets_to_close_leaves_no_worker_and_no_noise() -> None:
    parent, worker = start_parent("reach_left", "end")
    _, noise = parent.communicate(timeout=30)
    assert (parent.returncode, noise) == (0, "")
    assert wait_until_gone(worker)


def test_ctrl_c_reaches_the_parent_alone_and_the_worker_ends_with_it() -> None:
    parent, worker = start_parent("reach_left_hang", "step")
    time.sleep(0.5)
    os.killpg(parent.pid, signal.SIGINT)
    _, noise = parent.communicate(timeout=30)
    assert noise.rstrip().endswith("KeyboardInterrupt")
    assert "resource_tracker" not in noise
    assert wait_until_gone(worker)


def test_the_worker_is_in_a_session_of_its_own(remote: RemoteSimulator) -> None:
    remote.prepare(GOOD)
    assert remote.pid is not None
    assert os.getsid(remote.pid) == remote.pid != os.getsid(0)


def test_the_worker_outlives_the_thread_that_started_it(remote: RemoteSimulator) -> None:
    thread = threading.Thread(target=remote.prepare, args=(GOOD,))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert remote.step(np.zeros((2, 7))).steps == 2


def test_the_workers_children_are_killed_with_it(tmp_path: Path) -> None:
    settings = SimulatorSettings("tests.fakes.toy_children:factory", 7, (), 16, 16)
    remote = RemoteSimulator(
        settings, timeout_s=20, environment={"TOY_CHILD_PID": str(tmp_path / "pid")}
    )
    remote.prepare(GOOD)
    child = int((tmp_path / "pid").read_text())
    assert alive(child)
    remote.relaunch()
    assert wait_until_gone(child)
