"""A small process that ends another one in which nothing can run any more.

``python -I -S watcher.py LIFELINE STATE STACKS PARENT SIGNAL``, the first three being inherited
file descriptors. STATE is memory shared with the process PARENT, which says there how long its
policy's call may take (see :data:`STATE`). When that is over, and stays so for :data:`TICKS` looks,
PARENT is asked for its stacks with SIGNAL, which it needs no interpreter's lock to write to STACKS,
and is killed. The watcher ends when the pipe LIFELINE closes or PARENT is gone.

It is run as a file and imports nothing of the package, to be small: it is there for hours.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path

STATE = struct.Struct("=ddQ16s")
"""Until when (``time.monotonic``; 0 for no call), the limit in seconds, the thread, the call."""

TICK_S = 1.0

TICKS = 3
"""Looks at which a call must be overdue: whoever was stopped for an hour gets time to notice."""

STACKS_S = 1.0
"""How long writing the stacks may take."""

MOST_LINES = 30


def main(arguments: list[str]) -> int:
    """Watch; returns when there is nobody left to watch."""
    lifeline, state, stacks, parent, number = map(int, arguments)
    # What ends the run is for the run to say.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    with mmap.mmap(state, STATE.size, prot=mmap.PROT_READ) as memory:
        late, seen = 0, 0.0
        while os.getppid() == parent:
            until, limit_s, thread, call = STATE.unpack_from(memory)
            overdue = 0.0 < until < time.monotonic() and not _is_stopped(parent)
            late = late + 1 if overdue and until == seen else int(overdue)
            seen = until
            if late >= TICKS:
                _end(parent, number, stacks, thread, call.rstrip(b"\0").decode(), limit_s)
                return 0
            if select.select([lifeline], [], [], TICK_S)[0]:
                break
    return 0


def _is_stopped(pid: int) -> bool:
    """By Ctrl-Z, or by a debugger."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] in (b"T", b"t")


def _end(pid: int, number: int, stacks: int, thread: int, call: str, limit_s: float) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
    time.sleep(STACKS_S)
    _say(
        f"the policy's {call} has not returned, long after its limit of {limit_s:g} s, and it keeps"
        f" Python's interpreter lock: nothing else in process {pid} can run, so it is killed. What"
        " was recorded is whole; run the same command again for the rest. The call is at:"
    )
    for line in _stack(stacks, thread):
        _say(line)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _stack(stacks: int, thread: int) -> list[str]:
    """The lines of that thread, innermost first; of all threads, if it is not among them."""
    os.lseek(stacks, 0, os.SEEK_SET)
    lines = os.read(stacks, 1 << 20).decode("utf-8", "replace").splitlines()
    found: list[str] = []
    within = False
    for line in lines:
        if not line.startswith("  "):
            within = f"0x{thread:016x} " in line
        elif within:
            found.append(line)
    return (found or lines)[:MOST_LINES]


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
