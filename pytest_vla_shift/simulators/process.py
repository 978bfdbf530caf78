"""A worker's process: how it is started, how it is found dead, and how it is surely ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError

TAIL_BYTES = 16_000
LOG_LIMIT = 4 * 2**20
POLL_SECONDS = 0.01
STACK_SECONDS = 0.3
"""How long a worker that does not answer may take to write its stack before it is killed."""

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class WorkerProcess:
    """One fresh interpreter that runs ``pytest_vla_shift.simulators.worker``.

    It is spawned, never forked (GL contexts and threads do not survive a fork), in a session of its
    own, so that Ctrl-C in the terminal reaches the parent alone. What it prints goes to an unnamed
    file whose end can be quoted.
    """

    def __init__(self, python: str, frames_fd: int | None, environment: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            UsageError: ``python`` cannot be executed.
        """
        self.channel, worker_channel = socket.socketpair()
        worker_lifeline, self._lifeline = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by kill()
        _append_only(self._log.fileno())
        inherited = [worker_channel.fileno(), worker_lifeline]
        if frames_fd is not None:
            inherited.append(frames_fd)
        module = ["-P", "-m", "pytest_vla_shift.simulators.worker"]
        try:
            self._popen = subprocess.Popen(
                [python, *module, *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=_environment(environment),
                pass_fds=inherited,
                start_new_session=True,
            )
            _kill_when_we_are_gone(worker_lifeline, self._popen.pid)
        except OSError as error:
            self.channel.close()
            os.close(self._lifeline)
            self._log.close()
            raise UsageError(f"the simulator's Python {python!r} cannot be run: {error}") from error
        finally:
            worker_channel.close()
            os.close(worker_lifeline)
        self._killed = False
        self._ending = threading.Lock()
        self._owner = os.getpid()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ended(self, within_s: float = 0.0) -> bool:
        """Whether the process is gone, or goes within that time.

        It is not reaped: until :meth:`kill` its number cannot become another process's.
        """
        until = time.monotonic() + within_s
        while self._status() is None:
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def exit_word(self) -> str:
        """How it ended, for people: ``was killed by SIGSEGV``, ``exited with code 3``."""
        status = self._status()
        if status is None:
            return "is still running"
        if status.si_code == os.CLD_EXITED:
            return f"exited with code {status.si_status}"
        if status.si_status == signal.SIGKILL:
            return "was killed by SIGKILL (by the system, if memory ran out)"
        try:
            return f"was killed by {signal.Signals(status.si_status).name}"
        except ValueError:
            return f"was killed by signal {status.si_status}"

    def _status(self) -> os.waitid_result | None:
        if self._killed:
            raise ValueError("the process was already reaped")
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def output_tail(self) -> str:
        """The end of what it printed."""
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        return data.decode("utf-8", "replace").strip()

    def trim_output(self) -> None:
        """Forget what it printed if that has grown large. Safe while it prints."""
        if os.fstat(self._log.fileno()).st_size > LOG_LIMIT:
            os.ftruncate(self._log.fileno(), 0)

    def dump_stack(self) -> None:
        """Ask for the Python stacks of all its threads; they come at the output's end."""
        if self._status() is None:
            size = os.fstat(self._log.fileno()).st_size
            os.kill(self._popen.pid, signal.SIGUSR1)
            until = time.monotonic() + STACK_SECONDS
            while time.monotonic() < until and os.fstat(self._log.fileno()).st_size == size:
                time.sleep(POLL_SECONDS)

    def terminate(self) -> None:
        """Send SIGKILL to it and everything it started, and reap nothing: safe from any thread."""
        with self._ending:
            if not self._killed and os.getpid() == self._owner:
                self._signal_group()

    def kill(self) -> None:
        """End it and everything it started, and free all that belongs to it. Idempotent."""
        with self._ending:
            if self._killed or os.getpid() != self._owner:  # a fork of ours must not end it
                return
            self._killed = True
            self._signal_group()
        self._popen.wait()
        self.channel.close()
        os.close(self._lifeline)
        self._log.close()

    def _signal_group(self) -> None:
        # The leader is reaped only after this, so the group's number is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The worker's environment: ours, EGL unless something else is asked for, our import path."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **extra}
    environment.setdefault("MUJOCO_GL", "egl")
    paths = [*import_path(), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return environment


def import_path() -> list[str]:
    """Folders of ``sys.path`` that a fresh interpreter would not find by itself.

    Those of the standard library and of installed packages stay out: another interpreter has its
    own, and mixing them breaks it.
    """
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own |= {*site.getsitepackages(), site.getusersitepackages()}
    own |= {str(Path(folder) / "lib-dynload") for folder in own}
    roots = [str(_PACKAGE_ROOT), *(entry or str(Path.cwd()) for entry in sys.path)]
    return [
        root
        for root in dict.fromkeys(roots)
        # Folders within them, too: a package may have added its own (Ray does, when imported).
        if own.isdisjoint((root, *map(str, Path(root).parents))) and not root.endswith(".zip")
    ]


def _kill_when_we_are_gone(lifeline: int, pid: int) -> None:
    """Let the kernel kill the worker when our end of its lifeline closes, however early that is.

    The worker asks for the same when it is up; one that hangs before that would outlive us. What is
    set here belongs to the pipe's end, which the worker has inherited.
    """
    if hasattr(fcntl, "F_SETSIG"):  # else the signal would be one that a program may handle
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, pid)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)


def _append_only(fd: int) -> None:
    """So that a writer goes on at the new end after the file was cut."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
