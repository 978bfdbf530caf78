"""The supervisor of a policy's server: a small process that outlives whoever started it.

``python -I -S supervise.py LIFELINE REPORT PARENT -- COMMAND...``, the first two being inherited
file descriptors. It starts the command and ends it, with everything that the command started, as
soon as the pipe LIFELINE closes or the process PARENT is gone. The kernel closes the pipe however
that process went, so that ``kill -9`` of a run leaves nothing behind. When the command ends by
itself, its children are ended too, and so is the supervisor.

It is run as a file and imports nothing of the package: the command's environment stays as it was,
and its Python may be another one.

It runs in a session of its own, where no Ctrl-C of a terminal reaches it. What a server starts may
leave the server's process group and session; it cannot leave the supervisor, which adopts every
orphan below it (Linux's PR_SET_CHILD_SUBREAPER).

REPORT gets a JSON object a line: ``{"started": pid}`` or ``{"refused": why}``, then
``{"ended": how}``, when the command ended by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

GRACE_S = 10.0
"""Seconds from SIGTERM to SIGKILL."""

LAST_S = 5.0
"""Seconds that the kernel may take to end what was killed: a driver may hold a process up."""

LOOK_S = 1.0
POLL_S = 0.02
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Supervise; returns when nothing of the command is left."""
    lifeline, report, parent = map(int, arguments[:3])
    command = arguments[arguments.index("--") + 1 :]
    for fd in (lifeline, report):
        os.set_inheritable(fd, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wakeup = _signals()
    try:
        # The object is kept for as long as the process may run: it reaps by itself otherwise.
        leader = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # Should somebody kill the supervisor, the server goes with it.
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _say(report, {"refused": str(error)})
        return 1
    _say(report, {"started": leader.pid})
    while True:
        ready, _, _ = select.select([lifeline, wakeup], [], [], LOOK_S)
        # A process that the run forked may hold the pipe open after the run is gone.
        if lifeline in ready or os.getppid() != parent:
            break
        if not ready:
            continue
        numbers = os.read(wakeup, 4096)
        status = _reap(leader.pid)
        if status is not None:
            _say(report, {"ended": exit_word(status)})
            break
        if signal.SIGUSR1 in numbers:
            break
    end_descendants()
    return 0


def exit_word(status: int) -> str:
    """How a process with that wait status ended, for people: ``was killed by SIGSEGV``."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    if code == -signal.SIGKILL:
        return "was killed by SIGKILL (by the system, if memory ran out)"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def end_descendants(grace_s: float = GRACE_S) -> None:
    """End every process below this one: SIGTERM, a grace, SIGKILL until nothing is left."""
    _send(signal.SIGTERM)
    if _gone_within(grace_s):
        return
    until = time.monotonic() + LAST_S
    while time.monotonic() < until:
        # Again and again: what forks meanwhile is found the next time.
        _send(signal.SIGKILL)
        if _gone_within(5 * POLL_S):
            return


def descendants(root: int) -> list[int]:
    """Process numbers below ``root``, from /proc; zombies are left out."""
    children: dict[int, list[int]] = {}
    dead = set()
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append(pid)
        if state in "ZX":
            dead.add(pid)
    found: list[int] = []
    stack = [root]
    while stack:
        below = children.get(stack.pop(), [])
        found += below
        stack += below
    return [pid for pid in found if pid not in dead]


def _processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and state letter of every process that can be seen."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything, parentheses and spaces too.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            yield int(entry.name), int(fields[1]), fields[0].decode("ascii")
        except (OSError, IndexError, ValueError):
            continue


def _send(number: signal.Signals) -> None:
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that was stopped would not hear of it


def _gone_within(seconds: float) -> bool:
    """Whether no descendant is left, or none is within that time."""
    until = time.monotonic() + seconds
    while True:
        _reap()
        if not descendants(os.getpid()):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)


def _reap(leader: int = -1) -> int | None:
    """Take leave of every child that has ended; the leader's wait status, if it is one of them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == leader:
                status = how
    return status


def _signals() -> int:
    """A descriptor that becomes readable at SIGCHLD and at SIGUSR1, the request to end.

    SIGTERM goes to every process of a job when a cluster takes its machine back: the run says what
    happens then. Handlers and not SIG_IGN: what is ignored, the command would ignore as well.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return readable


def _say(report: int, what: dict[str, object]) -> None:
    # Whoever listened may be gone by now.
    with contextlib.suppress(OSError):
        os.write(report, json.dumps(what).encode() + b"\n")


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
