"""A call that keeps the interpreter's lock: its process is killed, and no other process is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_vla_shift.policies.watchdog import Watchdog
from tests.plugin.toy_project import REPOSITORY

PROGRAM = """
import ctypes, re, sys, time
from pytest_vla_shift.policies import threaded, watchdog
from pytest_vla_shift.protocol.errors import PolicyTimeout

watchdog.LEAST_MARGIN_S = {margin}
thread = threaded.CallThread(0.2, watchdog.Watchdog())
print("ready", flush=True)

def the_policys_own():
    {call}

try:
    thread.call(the_policys_own, "act")
except PolicyTimeout:
    print("timed out", flush=True)
    time.sleep(5)
print("alive")
"""

KEEPS_LOCK = "ctypes.PyDLL(None).sleep({})"
BACKTRACKS = "re.match('(a*)*b', 'a' * 60)"


def begin(call: str, margin: float = 0.3) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(call=call, margin=margin)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_who_keeps_the_lock_is_killed_and_who_is_slow_or_was_stopped_is_not() -> None:
    sleeps, backtracks = begin(KEEPS_LOCK.format(3600)), begin(BACKTRACKS)
    slow = begin("time.sleep(4)")
    # Longer than its limit, and it keeps the lock; but not beyond the margin.
    late = begin(KEEPS_LOCK.format(2), margin=3.0)
    stopped = begin("time.sleep(0.1)")
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "ready\n"
    stopped.send_signal(signal.SIGSTOP)
    for killed in (sleeps, backtracks):
        _, err = killed.communicate(timeout=30)
        assert killed.returncode == -signal.SIGKILL, err
        assert "the policy's act has not returned, long after its limit of 0.2 s" in err
        assert "run the same command again" in err
        assert "in the_policys_own" in err
        assert "_ends_within" not in err  # another thread's
    stopped.send_signal(signal.SIGCONT)
    for alive, said in ((slow, "timed out\n"), (late, None), (stopped, None)):
        out, err = alive.communicate(timeout=30)
        assert alive.returncode == 0, err
        assert said is None or out == f"ready\n{said}alive\n"
        assert err == ""


def is_gone(pid: int, within_s: float = 5.0) -> bool:
    until = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_the_watcher_goes_with_its_watchdog_or_its_process() -> None:
    dog = Watchdog()
    assert dog.pid is not None
    dog.close()
    dog.close()
    assert is_gone(dog.pid, 0.0)
    with dog.watched(0.1, 0, "act"):  # nobody watches any more
        pass
    code = "from pytest_vla_shift.policies.watchdog import Watchdog as W; import os;"
    code += "print(W().pid, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL
    assert is_gone(int(done.stdout))


def test_signals_that_end_a_run_do_not_end_its_watcher() -> None:
    dog = Watchdog()
    assert dog.pid is not None
    time.sleep(0.5)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(dog.pid, number)
    time.sleep(0.1)
    assert Path(f"/proc/{dog.pid}").exists()
    dog.close()


def test_where_none_can_start_calls_go_on_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    dog = Watchdog()
    assert dog.pid is None
    assert "no watchdog" in caplog.text
    with dog.watched(0.1, 0, "act"):
        pass
    dog.close()


def test_watching_a_call_costs_little() -> None:
    dog = Watchdog()
    thread = threading.get_ident()
    costs = []
    for _ in range(20):
        began = time.thread_time()
        for _ in range(200):
            with dog.watched(1.0, thread, "act"):
                pass
        costs.append((time.thread_time() - began) / 200)
    dog.close()
    assert min(costs) < 50e-6
