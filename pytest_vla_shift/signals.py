"""Signals that end a run: Ctrl-C, and those of a system that wants its machine back.

The first one gives up the rollouts under way, and the run ends as after Ctrl-C: what was recorded
is reported, and the same command runs the rest. A SIGTERM or SIGHUP that comes when the end is
being written changes nothing, since no signal is needed to end it; a second Ctrl-C cuts it short.

That one raises nothing: wherever it strikes, in pytest's own code or in a library's cleaning up,
the handler itself ends the process. Only if somebody else's program called pytest, which has its
own life to go on with, it is an exception here too.

Handlers that others installed stay: a debugger's, those of ``nohup``, another plugin's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.rollouts.storage import interrupt, settle, when_whole

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PLUGIN = "vla-shift-signals"

SHELL = 128
"""What a shell adds to a signal's number for the exit code of a program that it ended."""


PARTING_S = 5.0
"""How long the xdist workers of a run that was interrupted twice may take to end."""

CUT_SHORT = (
    "interrupted again: the end of this run is not written. What was recorded is whole; run the"
    " same command again"
)
LEFT = "interrupted again: the end of this run is written"


class Terminated(KeyboardInterrupt):
    """A signal ends the run; to pytest it is Ctrl-C under another name."""


class Signals:
    """The handlers of one process, from configuration to the end.

    Args:
        config: pytest's.

    Attributes:
        received: the signal other than Ctrl-C that ended the run, here or in an xdist worker.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.received: int | None = None
        self._config = config
        self._output: dict[str, object] | None = getattr(config, "workeroutput", None)
        self._is_worker = hasattr(config, "workerinput")
        self._session: pytest.Session | None = None
        self._ending = False
        self._over = False
        self._alone = _is_own_program()
        self._told_workers = False
        self._workers: dict[WorkerController, int] = {}
        self._before = self._install()

    def _install(self) -> dict[int, object]:
        """Put our handler where there is none; what was there, by signal."""
        before: dict[int, object] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                handler = signal.getsignal(number)
                if handler in (signal.SIG_DFL, signal.default_int_handler):
                    before[number] = handler
                    signal.signal(number, self._arrived)
        return before

    def _arrived(self, number: int, _: FrameType | None) -> None:
        again, self._ending = self._ending, True
        if number == signal.SIGINT:
            if again and self._is_worker:
                return  # how soon a worker ends is the controller's to say
            if again and self._alone:
                when_whole(self._leave)
                return
            error: KeyboardInterrupt = KeyboardInterrupt()
        elif again:
            return
        else:
            self.received = number
            error = Terminated(_message(number))
        self._stop(_message(number))
        interrupt(error)

    def _stop(self, message: str) -> None:
        """Let nothing new begin, even if somebody swallows what is raised."""
        if self._session is not None:
            stop(self._session, message)
        self.end_workers()

    def end_workers(self) -> None:
        """Tell the xdist workers of this host to end now, whatever they still have to run."""
        self._told_workers = self._told_workers or bool(self._workers)
        for pid in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)  # one that was stopped would not hear of it

    def _leave(self) -> None:
        """End this process here and now, with all that belongs to it; nothing is raised."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._say(LEFT if self._over else CUT_SHORT)
        self.end_workers()
        _await(self._workers.values(), PARTING_S)
        settle(1.0)
        os._exit(pytest.ExitCode.INTERRUPTED)

    def _say(self, text: str) -> None:
        """Past the terminal reporter: this may be in the middle of what it is writing."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        # Whatever is in the way, of a capture or of a terminal that is gone, the end is not.
        with suppress(Exception):
            if capture is not None:
                capture.suspend(in_=False)
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(OSError):
            os.write(1, f"\n{text}\n".encode())

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Know whom to stop."""
        self._session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Know a worker's process, if it is one of this host."""
        # xdist does not tell. Without it execnet ends its processes, which takes 5 s.
        pid = getattr(getattr(getattr(node.gateway, "_io", None), "popen", None), "pid", None)
        if node.gateway.spec.popen and isinstance(pid, int):
            self._workers[node] = pid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """A worker that was stopped, stops all."""
        self._workers.pop(node, None)
        output = getattr(node, "workeroutput", None) or {}
        number = output.get("vla_signal")
        # A worker whose end was asked for here reports the signal that asked.
        if isinstance(number, int) and not self._ending and not self._told_workers:
            self.received = number
        if output.get("shouldstop"):
            self.end_workers()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Let the end be written, and give the run its exit code."""
        self._ending = True
        self.end_workers()  # at an orderly end there are none
        if self.received is not None:
            session.exitstatus = SHELL + self.received
        try:
            return (yield)
        except KeyboardInterrupt:
            self.end_workers()
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.ensure_newline()
                terminal.write_line(CUT_SHORT, red=True)
            return None
        finally:
            self._over = True

    def stop(self, reason: Exception) -> None:
        """Let the node under way be the last one."""
        if self._session is not None:
            stop(self._session, str(reason))

    def tell_controller(self) -> None:
        """From within the hook in which an xdist worker says how it ended: what stopped it."""
        if self._output is not None and self._session is not None and self._session.shouldstop:
            # Not as interrupted: xdist would start another worker in its place.
            self._output["exitstatus"] = int(pytest.ExitCode.TESTS_FAILED)
            self._output["shouldstop"] = self._session.shouldstop
            self._output["vla_signal"] = self.received

    def pytest_unconfigure(self) -> None:
        """Give the signals back."""
        if self._alone:
            # What is left is the interpreter's own end, where a Ctrl-C shows as a traceback.
            self._before.pop(signal.SIGINT, None)
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, handler)  # type: ignore[arg-type]  # as getsignal gave it
        self._before.clear()


def stop(session: pytest.Session, message: str) -> None:
    """Let this node be the last one of the whole run. The first message stands.

    In an xdist worker the controller takes it over when the worker has ended.
    """
    if not session.shouldstop:
        session.shouldstop = message


def _is_own_program() -> bool:
    """Whether this process is pytest's command, which ends with this run: it is not within another
    run, as those of pytester are."""
    frame: FrameType | None = sys._getframe()
    runs = 0
    while frame is not None:
        module, name = frame.f_globals.get("__name__"), frame.f_code.co_name
        runs += module == "_pytest.main" and name == "wrap_session"
        if module == "_pytest.config" and name.endswith("console_main"):
            return runs == 1
        frame = frame.f_back
    return False


def _await(children: Iterable[int], within_s: float) -> None:
    """Wait until these processes have ended; kill those that have not within that time."""
    until = time.monotonic() + within_s
    for pid in children:
        with suppress(ChildProcessError, ProcessLookupError):
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)


def _message(number: int) -> str:
    name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return f"{name}: what was recorded is reported; run the same command again for the rest"
