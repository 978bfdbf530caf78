"""Signals that end a run: Ctrl-C, and those of a system that wants its machine back.

The first one gives up the rollouts under way, and the run ends as after Ctrl-C: what was recorded
is reported, and the same command runs the rest. A SIGTERM or SIGHUP that comes when the end is
being written changes nothing, since no signal is needed to end it; a second Ctrl-C cuts it short.

Handlers that others installed stay: a debugger's, those of ``nohup``, another plugin's.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.rollouts.storage import interrupt

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PLUGIN = "vla-shift-signals"

SHELL = 128
"""What a shell adds to a signal's number for the exit code of a program that it ended."""


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
                terminal.write_line(
                    "interrupted again: the end of this run is not written. What was recorded is"
                    " whole; run the same command again",
                    red=True,
                )
            return None

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


def _message(number: int) -> str:
    name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return f"{name}: what was recorded is reported; run the same command again for the rest"
