"""The supervisor of a policy's server, alone: what ends it, and that nothing is left then."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO

import pytest

from pytest_vla_shift.policies import supervise
from tests.fakes.processes import alive, wait_until_gone

# A child in a session of its own whose parent ends at once: nobody's but the supervisor's.
ORPHAN = """
import subprocess, sys, time
START = '''
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid)
'''
print(subprocess.check_output([sys.executable, "-c", START], text=True).strip(), flush=True)
"""
SERVE = ORPHAN + "time.sleep(600)\n"


class Supervised:
    """A supervisor, its lifeline and what it reports."""

    def __init__(self, *command: str, parent: int | None = None) -> None:
        lifeline, self.lifeline = os.pipe()
        report, told = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", supervise.__file__),
                *(str(lifeline), str(told), str(parent or os.getpid()), "--", *command),
            ],
            pass_fds=(lifeline, told),
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        os.close(lifeline)
        os.close(told)
        self._report: IO[str] = os.fdopen(report)

    def said(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self._report.readline())
        return found

    def printed(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def let_go(self) -> None:
        os.close(self.lifeline)
        self.lifeline = -1

    def close(self) -> None:
        if self.lifeline >= 0:
            self.let_go()
        self.process.wait(20)
        self._report.close()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def supervised(*command: str, parent: int | None = None) -> Iterator[Supervised]:
    running = Supervised(*command, parent=parent)
    try:
        yield running
    finally:
        running.close()


@pytest.mark.parametrize("end", ["lifeline", "request", "parent"])
def test_everything_ends_with_the_lifeline_at_request_and_with_the_parent(end: str) -> None:
    parent = subprocess.Popen(["sleep", "600"])
    # Of another parent than its own it says that this one is gone.
    with supervised(
        sys.executable, "-c", SERVE, parent=parent.pid if end == "parent" else None
    ) as running:
        server, orphan = running.said()["started"], int(running.printed())
        assert isinstance(server, int)
        if end == "lifeline":
            running.let_go()
        elif end == "request":
            running.process.send_signal(signal.SIGUSR1)
        assert running.process.wait(20) == 0
        assert wait_until_gone(server, 0.1)
        assert wait_until_gone(orphan, 0.1)
    parent.kill()
    parent.wait()


def test_signals_that_are_meant_for_the_run_do_not_end_it() -> None:
    with supervised(sys.executable, "-c", SERVE) as running:
        server, _ = running.said()["started"], running.printed()
        assert isinstance(server, int)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            running.process.send_signal(number)
        time.sleep(0.3)
        assert running.process.poll() is None
        assert alive(server)


def test_a_command_that_ends_is_reported_and_its_orphans_end_too() -> None:
    with supervised(sys.executable, "-c", ORPHAN + "sys.exit(7)\n") as running:
        orphan = int(running.printed())
        assert "started" in running.said()
        assert running.said() == {"ended": "exited with code 7"}
        assert running.process.wait(20) == 0
        assert wait_until_gone(orphan, 0.1)


def test_a_command_that_is_not_there_is_refused() -> None:
    with supervised("/no/such/server") as running:
        assert "No such file" in str(running.said()["refused"])
        assert running.process.wait(20) == 1


def test_the_command_ignores_no_signal_that_it_did_not_ignore_before() -> None:
    script = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    with supervised(sys.executable, "-c", script) as running:
        assert running.printed() == "False"


@pytest.mark.parametrize(
    "status,word",
    [
        (3 << 8, "exited with code 3"),
        (signal.SIGSEGV.value, "was killed by SIGSEGV"),
        (signal.SIGKILL.value, "was killed by SIGKILL (by the system, if memory ran out)"),
        (50, "was killed by signal 50"),
    ],
)
def test_how_a_command_ended_in_words(status: int, word: str) -> None:
    assert supervise.exit_word(status) == word
