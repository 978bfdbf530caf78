"""The one limit that holds even if a call keeps the interpreter's lock: another process's.

A thread of the process cannot end such a call, nor can a signal that Python handles: none of them
gets to run. :mod:`pytest_vla_shift.policies.watcher` looks from outside, and kills the process long
after the call's own limit, which is up to a thread and comes first wherever it can.
"""

from __future__ import annotations

import faulthandler
import logging
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO

from pytest_vla_shift.policies import watcher
from pytest_vla_shift.policies.watcher import STATE

LEAST_MARGIN_S = 10.0
MARGIN = 0.5
"""How long after its limit, as a part of that, a call's process is killed; at least the former."""

_PARTING_S = 1.0


class Watchdog:
    """Has this process killed if a call in it goes on long after its limit.

    Needs Linux. Where it cannot start, which is logged, nothing is watched.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._lifeline: int | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except (OSError, ValueError, AttributeError) as error:
            logging.getLogger(__name__).warning(
                "no watchdog: a policy that keeps the interpreter's lock is not ended (%s)", error
            )

    @property
    def pid(self) -> int | None:
        """The watcher's process; None if there is none."""
        return None if self._watcher is None else self._watcher.pid

    @contextmanager
    def watched(self, limit_s: float, thread: int, what: str) -> Iterator[None]:
        """Within the body, let a call take its limit and the margin.

        Args:
            limit_s: the call's own limit, which somebody else is expected to hold.
            thread: where it runs, as ``threading.get_ident`` has it.
            what: its name, for people.
        """
        memory = self._memory
        if memory is None or limit_s >= threading.TIMEOUT_MAX:
            yield
            return
        until = time.monotonic() + limit_s + max(LEAST_MARGIN_S, MARGIN * limit_s)
        STATE.pack_into(memory, 0, until, limit_s, thread, what.encode()[:16])
        try:
            yield
        finally:
            STATE.pack_into(memory, 0, 0.0, 0.0, 0, b"")

    def close(self) -> None:
        """End the watcher. Idempotent."""
        self._memory = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._watcher is not None:
            try:
                self._watcher.wait(_PARTING_S)
            except subprocess.TimeoutExpired:
                self._watcher.kill()
                self._watcher.wait()

    def _start(self) -> None:
        stacks = _stacks()
        state = os.memfd_create("vla-watchdog")
        lifeline, self._lifeline = os.pipe()
        try:
            os.ftruncate(state, STATE.size)
            memory = mmap.mmap(state, STATE.size)
            fds = (lifeline, state, stacks.fileno())
            numbers = map(str, (*fds, os.getpid(), int(_number())))
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", watcher.__file__, *numbers],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C and Ctrl-Z are not for it
            )
            self._memory = memory
        finally:
            os.close(lifeline)
            os.close(state)


def _number() -> int:
    """A signal that no library is likely to use, and whose default nobody relies on."""
    return signal.SIGRTMIN + 11


@cache
def _stacks() -> IO[bytes]:
    """The file to which this process writes its stacks when the signal comes."""
    file = os.fdopen(os.memfd_create("vla-stacks"), "r+b")  # for as long as the process lives
    faulthandler.register(_number(), file=file, all_threads=True)
    return file
