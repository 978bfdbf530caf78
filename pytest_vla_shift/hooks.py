"""The hooks of a run: registered only when a policy is evaluated or a plan is listed."""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift import devices, outcomes, policy_server, signals
from pytest_vla_shift.executors import check_executor
from pytest_vla_shift.options import RunConfig, read_options
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.allure_files import write_faster
from pytest_vla_shift.reporting.video import available
from pytest_vla_shift.results import RunResults
from pytest_vla_shift.session import RobustnessSession
from pytest_vla_shift.signals import Signals

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

PLUGIN = "vla-shift-run"


class RunHooks:
    """One line a hook. Which of the two it has depends on the process.

    Attributes:
        session: collects and runs nodes; None in an xdist controller, which does neither.
        results: gathers, reports and decides the exit code; None in an xdist worker.
    """

    def __init__(
        self, session: RobustnessSession | None, results: RunResults | None, list_only: bool
    ) -> None:
        self.session = session
        self.results = results
        self.list_only = list_only
        self.signals: Signals | None = None

    def pytest_unconfigure(self) -> None:
        """Close what is open, whatever happened."""
        gc.unfreeze()
        if self.session:
            self.session.close()
        if self.results:
            self.results.close()

    def pytest_sessionstart(self) -> None:
        """allure-pytest is configured by now, in a process that runs nodes."""
        if self.session:
            write_faster()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell an xdist worker which session it belongs to."""
        if self.results:
            node.workerinput.update(self.results.worker_input())

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect without looks for garbage: each would pass over all items that are there."""
        enabled = gc.isenabled()
        gc.disable()
        try:
            return (yield)
        finally:
            if enabled:
                gc.enable()

    @pytest.hookimpl(trylast=True)  # after -k and -m have had their say
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse what cannot run, before anything does."""
        if self.session:
            self.session.collected(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the plan down."""
        if self.session and not self.list_only:
            self.session.write_plan(session.items)
            if self.results:
                self.results.plan_ready()
                self.session.run_ahead(session.items)
            # Items stay to the end: no later look for garbage has to pass over 10,000 of them.
            gc.freeze()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Read the plan that a worker has written."""
        if self.results:
            self.results.plan_ready()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Attach pictures and words to the node's Allure result."""
        if self.session:
            self.session.attach(item)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry the transition to the process that prints it."""
        report = yield
        if self.session:
            self.session.label(item, call, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Letters and words of our own."""
        return outcomes.status_of(report)

    @pytest.hookimpl(trylast=True)  # after the terminal reporter has printed its letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count, show progress, and stop a run that cannot work."""
        if self.results:
            self.results.logged(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Take over a usage error that a worker found."""
        if self.results:
            self.results.worker_down(getattr(node, "workeroutput", None) or {})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Aggregate, report, decide the exit code."""
        if self.signals:
            self.signals.tell_controller()
        if self.session:
            self.session.close()
        if self.list_only:
            if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
                session.exitstatus = pytest.ExitCode.OK
        elif self.results:
            if self.session:
                self.results.in_other_shards = self.session.in_other_shards
            self.results.finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the plan, or the table and what broke."""
        if self.list_only and self.session:
            self.session.print_plan(terminalreporter)
        elif self.results:
            self.results.print_summary(terminalreporter)


def open_run(config: pytest.Config) -> None:
    """Register the hooks of a run.

    Raises:
        pytest.UsageError: an option's value is wrong, or the reports folder cannot be used.
    """
    try:
        run = read_options(config)
        _check_video(run)
        if run.list_only or config.option.collectonly:
            # Neither runs anything, so neither touches the run's directory.
            _check_options(config, run)
            _without_xdist(config)
            hooks = RunHooks(RobustnessSession(config, run, None), None, list_only=run.list_only)
        else:
            hooks = _open_rollouts(config, run)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(hooks, PLUGIN)
    if not hooks.list_only and not config.option.collectonly:
        hooks.signals = Signals(config)
        config.pluginmanager.register(hooks.signals, signals.PLUGIN)
        _guard_allure(config, hooks.signals)


def _check_options(config: pytest.Config, run: RunConfig) -> None:
    """Refuse what a run with these options would refuse before it began."""
    check_executor(run, distributed=_distributed(config))
    policy_server.check(run)
    devices.check(config, run)


def _distributed(config: pytest.Config) -> bool:
    return bool(config.getoption("dist", "no") != "no")


def _open_rollouts(config: pytest.Config, run: RunConfig) -> RunHooks:
    workerinput: dict[str, object] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        # A worker parses the command line again; what the controller decided comes with it.
        run = replace(
            run, reports=Path(str(workerinput["vla_reports"])), run=str(workerinput["vla_run"])
        )
        run = policy_server.join(config, run, workerinput)
        devices.settle(config, run, workerinput)
        if hasattr(config.option, "allure_report_dir"):
            config.option.allure_report_dir = workerinput["vla_allure"]
            # The controller alone may empty the directory: a replacement worker would wipe it.
            config.option.clean_alluredir = False
        names = workerinput["vla_set_aside"]
        set_aside = [str(name) for name in names] if isinstance(names, list) else []
        session = RobustnessSession(config, run, str(workerinput["vla_session"]), set_aside)
        return RunHooks(session, None, list_only=False)
    check_executor(run, distributed=_distributed(config))
    run = policy_server.prepare(config, run)
    devices.settle(config, run)
    results = RunResults(config, run)
    here = (
        None
        if results.distributed
        else RobustnessSession(config, run, results.session_id, results.set_aside)
    )
    return RunHooks(here, results, list_only=False)


def _guard_allure(config: pytest.Config, signals: Signals) -> None:
    folder: str | None = getattr(config.option, "allure_report_dir", None)
    if folder is None:
        return  # allure-pytest is switched off, or writes nothing
    from pytest_vla_shift.reporting.allure_guard import AllureGuard

    guard = AllureGuard(Path(folder), signals.stop)
    guard.install()
    config.add_cleanup(guard.remove)


def _check_video(run: RunConfig) -> None:
    """Videos that were asked for and cannot be made are refused; by default they are optional."""
    if run.video_asked and run.video != "off" and not available():
        raise UsageError(
            f"--vla-video={run.video} needs the extra video: pip install 'pytest-vla-shift[video]'"
        )


def _without_xdist(config: pytest.Config) -> None:
    """A listing collects in this process: it has nothing to distribute."""
    if hasattr(config.option, "dist"):
        config.option.dist = "no"
        config.option.tx = []


def find_session(config: pytest.Config) -> RobustnessSession | None:
    """The session of this process, or None if this run evaluates nothing."""
    hooks = config.pluginmanager.get_plugin(PLUGIN)
    return hooks.session if isinstance(hooks, RunHooks) else None


def session_of(config: pytest.Config) -> RobustnessSession:
    """The session of this process, for a fixture that needs one."""
    session = find_session(config)
    if session is None:
        raise pytest.UsageError("this needs --vla-policy=NAME")
    return session
