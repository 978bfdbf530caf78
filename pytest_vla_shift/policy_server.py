"""The server that a run starts for its policy: once, whatever the number of pytest workers.

The main process, or the xdist controller, starts it, waits until it listens, tells the workers
where, stops the run when it dies, and ends it with everything that it started. All of that goes
through a supervisor, :mod:`pytest_vla_shift.policies.supervise`, which does the last part even
when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from pytest_vla_shift.devices import server_environment
from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.outcomes import facts_of
from pytest_vla_shift.policies import supervise
from pytest_vla_shift.policies.endpoint import PORT, settle
from pytest_vla_shift.protocol.errors import PolicyError, PolicyServerError, UsageError

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PLUGIN = "vla-shift-policy-server"
LOG = "policy-server.log"

LOOK_S = 0.1
NOTICE_S = 0.5
"""How long after an error of the policy its server's death may take to show."""

QUOTED_LINES = 10
TAIL_BYTES = 16_000


class PolicyServer:
    """A plugin of the process that owns the run.

    Args:
        config: pytest's.
        run: what was asked for, with ``policy_command``.

    Raises:
        UsageError: the command or the URL cannot be used.
    """

    def __init__(self, config: pytest.Config, run: RunConfig) -> None:
        assert run.policy_command is not None
        self._config = config
        self._directory = run.directory
        self._distributed = config.getoption("dist", "no") != "no"
        self._start_s = run.policy_start_s
        self._endpoint, self._command = settle(run.policy_url, run.policy_command)
        self.url = self._endpoint.url
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._log_start = 0
        self._started = threading.Event()
        self._ended = threading.Event()
        self._pid: int | None = None
        self._how = ""
        self._serving = False
        self._died = False

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Start before any worker does.

        Raises:
            pytest.UsageError: as :meth:`start`.
        """
        try:
            self.start()
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell an xdist worker where the policy listens, and whom to watch."""
        node.workerinput["vla_policy_url"] = self.url
        node.workerinput["vla_policy_pid"] = self._pid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Let a death be noticed before another node begins, where the policy has just failed."""
        if self._serving and not self._distributed and _is_policy_error(report):
            self._ended.wait(NOTICE_S)

    def pytest_runtest_logfinish(self) -> None:
        """Stop the run once more: xdist forgets what it was told before its loop began."""
        if self._died:
            self._stop_run()

    @pytest.hookimpl(tryfirst=True)  # the policy closes in here, and its server may end then
    def pytest_sessionfinish(self) -> None:
        """Nothing is asked any more."""
        self._serving = False

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why a run was stopped, with the last that the server printed."""
        if self._died:
            terminalreporter.section("policy server", red=True)
            terminalreporter.write_line(self._death())

    @pytest.hookimpl(trylast=True)  # after the policy has taken leave
    def pytest_unconfigure(self) -> None:
        """End the server, whatever happened."""
        self.stop()

    def start(self) -> None:
        """Start the server and wait until it accepts connections. Later calls do nothing.

        Raises:
            UsageError: somebody else listens there, it cannot be run, it ended, or it did not
                listen in time.
        """
        if self._supervisor is not None:
            return
        if self._endpoint.accepts():
            raise UsageError(
                f"something listens at {self.url} already, perhaps the server of another run;"
                " leave --vla-policy-command out to use it, or give another port"
            )
        began = time.monotonic()
        try:
            self._spawn()
        except OSError as error:
            raise UsageError(f"the policy's server cannot be started: {error}") from error
        self._say(f"waiting for {self.url}, up to {self._start_s:g} s; its output: {self._log}")
        while not self._endpoint.accepts():
            if self._ended.is_set():
                raise UsageError(f"{self._death()}\nIt had not listened at {self.url}.")
            if time.monotonic() - began > self._start_s:
                raise UsageError(
                    f"the policy's server did not listen at {self.url} within the"
                    f" {self._start_s:g} s of --vla-policy-start-timeout{self._quoted_log()}"
                )
            self._ended.wait(LOOK_S)
        if self._ended.is_set():
            raise UsageError(f"{self._death()}\nSomebody else listens at {self.url}.")
        self._serving = True
        self._say(f"process {self._pid} listens after {time.monotonic() - began:.1f} s")

    def stop(self) -> None:
        """End the server with everything that it started. Idempotent."""
        self._serving = False
        self._endpoint.release()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._supervisor is not None and self._supervisor.poll() is None:
            # Should a fork of ours hold the lifeline as well.
            self._supervisor.send_signal(signal.SIGUSR1)
            self._supervisor.send_signal(signal.SIGCONT)  # should somebody have stopped it
            # Interrupted here, we leave, and the supervisor goes on until nothing is left.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(supervise.GRACE_S + supervise.LAST_S + 2.0)

    @property
    def _log(self) -> str:
        return os.path.relpath(self._directory / LOG)

    def _spawn(self) -> None:
        lifeline, self._lifeline = os.pipe()
        report, told = os.pipe()
        try:
            with (self._directory / LOG).open("ab") as log:
                self._log_start = log.tell()
                self._endpoint.release()
                self._supervisor = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", supervise.__file__),
                        *(str(lifeline), str(told), str(os.getpid()), "--"),
                        *self._command,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={
                        "PYTHONUNBUFFERED": "1",
                        **os.environ,
                        **server_environment(self._config),
                    },
                    pass_fds=(lifeline, told),
                    start_new_session=True,
                )
        finally:
            os.close(lifeline)
            os.close(told)
        threading.Thread(
            target=self._listen, args=(os.fdopen(report, "rb"),), name=PLUGIN, daemon=True
        ).start()
        self._started.wait()

    def _listen(self, report: IO[bytes]) -> None:
        """In a thread: what the supervisor reports, until it is gone."""
        with report:
            for line in report:
                said = json.loads(line)
                if "started" in said:
                    self._pid = int(said["started"])
                    self._started.set()
                    continue
                self._how = str(said.get("ended") or f"cannot be run: {said.get('refused')}")
                self._end()
        self._how = self._how or "lost its supervisor, and was ended with it"
        self._end()

    def _end(self) -> None:
        if self._ended.is_set():
            return
        self._died = self._serving
        self._ended.set()
        self._started.set()
        if self._died:
            self._stop_run()

    def _stop_run(self) -> None:
        """Have pytest stop: what a policy without its server does says nothing about it."""
        message = f"the policy's server {self._how}; stopped, no failure was counted"
        for name in ("dsession", "session"):
            target = self._config.pluginmanager.get_plugin(name)
            if target is not None:
                target.shouldstop = message

    def _death(self) -> str:
        command = shlex.join(self._command)
        return f"the policy's server {self._how}: {command}{self._quoted_log()}"

    def _quoted_log(self) -> str:
        with (self._directory / LOG).open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
        if not lines:
            return "\nIt printed nothing."
        return "\n".join([f"\nThe end of {self._log}:", *lines[-QUOTED_LINES:]])

    def _say(self, text: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._config.get_verbosity() >= 0:
            terminal.ensure_newline()
            terminal.write_line(f"policy server: {text}")
            terminal.flush()


class ServerWatch:
    """A plugin of an xdist worker: no node is begun after the server's death.

    The controller stops a run as well, but a worker first does all that it was given.

    Args:
        config: pytest's.
        pid: the server's process.
    """

    def __init__(self, config: pytest.Config, pid: int) -> None:
        self._config = config
        self._pid = pid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Connections break a moment before their process is gone."""
        if _is_policy_error(report):
            until = time.monotonic() + NOTICE_S
            while _runs(self._pid) and time.monotonic() < until:
                time.sleep(NOTICE_S / 50)

    def pytest_runtest_logfinish(self) -> None:
        """After every node."""
        if not _runs(self._pid):
            session = self._config.pluginmanager.get_plugin("session")
            if session is not None:
                session.shouldstop = "the policy's server has ended"


def check(run: RunConfig) -> None:
    """Refuse a server's options that no run could use; starts nothing and keeps no port.

    Raises:
        UsageError: the command or the URL cannot be used.
    """
    if run.policy_command is not None:
        endpoint, _ = settle(run.policy_url, run.policy_command)
        endpoint.release()
    elif run.policy_url is not None and PORT in run.policy_url:
        raise UsageError(f"--vla-policy-url has {PORT}, which --vla-policy-command would fill")


def prepare(config: pytest.Config, run: RunConfig) -> RunConfig:
    """Set up the server of the process that owns the run; the run, with where it will listen.

    Nothing is started. A run without a command is returned as it is.

    Raises:
        UsageError: the command or the URL cannot be used.
    """
    if run.policy_command is None:
        check(run)
        return run
    server = PolicyServer(config, run)
    config.pluginmanager.register(server, PLUGIN)
    return replace(run, policy_url=server.url)


def join(config: pytest.Config, run: RunConfig, told: Mapping[str, object]) -> RunConfig:
    """An xdist worker's run, with where the controller's server listens; watches the server.

    Args:
        config: the worker's.
        run: what the command line says.
        told: what the controller has put into ``workerinput``.
    """
    pid = told.get("vla_policy_pid")
    if not isinstance(pid, int):
        return run
    config.pluginmanager.register(ServerWatch(config, pid), PLUGIN)
    return replace(run, policy_url=str(told["vla_policy_url"]))


def start(config: pytest.Config) -> None:
    """Start the run's server, if this process has one to start.

    Raises:
        UsageError: as :meth:`PolicyServer.start`.
    """
    server = config.pluginmanager.get_plugin(PLUGIN)
    if isinstance(server, PolicyServer):
        server.start()


def _is_policy_error(report: pytest.TestReport) -> bool:
    facts = facts_of(report)
    return facts is not None and facts["error"] in (PolicyError.kind, PolicyServerError.kind)


def _runs(pid: int) -> bool:
    """Whether a process of this host runs; one that has ended and is not reaped yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")
