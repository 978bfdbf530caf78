"""The results of a run: gathered in the main process or the xdist controller, reported once."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift import __version__
from pytest_vla_shift.options import RunConfig
from pytest_vla_shift.outcomes import ReportFacts, facts_of
from pytest_vla_shift.protocol.errors import PolicyStuck, UsageError
from pytest_vla_shift.reporting.progress import Progress
from pytest_vla_shift.rollouts.lock import held
from pytest_vla_shift.rollouts.manifest import (
    SessionPlan,
    check_manifest,
    discard_plans,
    kept_plan_path,
    plan_path,
    read_plan,
    write_manifest,
    write_plan,
)
from pytest_vla_shift.rollouts.storage import StorageError, writing
from pytest_vla_shift.rollouts.store import Store, archive, make_writable, record_files

if TYPE_CHECKING:
    from pytest_vla_shift.reporting.run_report import Reported

HOPELESS = 3
"""Rollouts with an infrastructure error in a row, from the start, after which a run stops."""

EXPLAINED = 20
"""Degraded pairs and errors that the terminal explains in full; all are in the reports."""


class RunResults:
    """Owns the run's directory for one pytest run: nobody else may write there meanwhile.

    Args:
        config: pytest's.
        run: what was asked for.

    Raises:
        UsageError: the directory cannot be written, belongs to another version, or is in use.
    """

    def __init__(self, config: pytest.Config, run: RunConfig) -> None:
        self.config = config
        self.run = run
        self.session_id = uuid.uuid4().hex[:12]
        self.distributed = config.getoption("dist", "no") != "no"
        self.made: Reported | None = None
        self.in_other_shards = 0
        self._lock = ExitStack()
        self._lock.enter_context(held(run.directory))
        discard_plans(run.directory)
        if not run.fresh:
            check_manifest(run.directory)
        self.set_aside = record_files(run.directory) if run.fresh else ()
        self._archived: Path | None = None
        self._store = Store(run.directory, "controller", ignore=frozenset(self.set_aside))
        self._cut_off = self._store.unfinished_lines()
        self._plan: SessionPlan | None = None
        self._progress: Progress | None = None
        self._reported: set[str] = set()
        self._told: list[ReportFacts] = []
        self._errors_from_start: int | None = 0
        self._usage_error: str | None = None
        self._own_allure: Path | None = None
        self.allure_directory = self._choose_allure()

    def _choose_allure(self) -> Path | None:
        """Allure results go into the run's directory unless ``--alluredir`` says otherwise."""
        option = self.config.option
        if not hasattr(option, "allure_report_dir"):
            return None  # allure-pytest is switched off
        if option.allure_report_dir is None:
            self._own_allure = self.run.directory / "allure-results"
            option.allure_report_dir = str(self._own_allure)
        folder = Path(option.allure_report_dir).absolute()
        if folder.exists() and not folder.is_dir():
            self._lock.close()
            raise UsageError(f"{folder} is no folder, and Allure's results go there; move it away")
        return folder

    def worker_input(self) -> dict[str, str | list[str] | None]:
        """What an xdist worker is told: plain values, sent before it configures itself."""
        allure = self.allure_directory
        return {
            "vla_session": self.session_id,
            "vla_reports": str(self.run.reports),
            "vla_run": self.run.run,
            "vla_allure": None if allure is None else str(allure),
            "vla_set_aside": list(self.set_aside),
        }

    def plan_ready(self) -> None:
        """Read the plan that this process or a worker wrote, and begin.

        Only now, when everything that can be checked has been, is anything of an earlier session
        replaced: its manifest, its Allure results, and with ``--vla-fresh`` its records.

        Raises:
            pytest.UsageError: they cannot be written.
        """
        if self._plan is not None:
            return
        try:
            plan = read_plan(plan_path(self.run.directory, self.session_id))
            if plan is None:
                return
            self._begin(plan)
        except (StorageError, UsageError) as error:
            raise pytest.UsageError(str(error)) from error
        self._plan = plan
        self._progress = Progress(
            {node.node: (node.clean_key, node.shifted_key) for node in plan.nodes}
        )

    def _begin(self, plan: SessionPlan) -> None:
        if self.run.fresh:
            self._archived = archive(self.run.directory)
            make_writable(self.run.directory)
        if self._own_allure is not None:
            # All of it is made anew from records; the folder itself is allure-pytest's already. A
            # folder of the user's own is left alone.
            with writing(self._own_allure):
                for old in self._own_allure.glob("*"):
                    if not old.is_dir():
                        old.unlink(missing_ok=True)
        write_manifest(
            self.run.directory,
            self.session_id,
            __version__,
            {
                "run": self.run.run,
                "policy_args": dict(self.run.policy_args),
                "envs": self.run.envs,
                "rollout_timeout_s": self.run.rollout_timeout_s,
                "video": self.run.video,
            },
            plan,
        )
        write_plan(kept_plan_path(self.run.directory), plan)

    def logged(self, report: pytest.TestReport) -> None:
        """Count a node's report, show progress, and stop a run in which nothing works."""
        if report.when in ("setup", "teardown") and report.passed:
            return
        facts = facts_of(report)
        if report.when in ("setup", "call"):
            # xdist reports the node of a crashed worker with a phase of its own ("???"): it left
            # neither a record nor an Allure result, so it stays among the missing.
            self._reported.add(report.nodeid)
        if facts is None:
            return
        if facts["error"] is not None or facts["transition"] == "S>F":
            self._told.append(facts)
        self._count_errors(facts)
        if self._progress is not None:
            line = self._progress.count(report.nodeid, facts["executed"])
            terminal = self.config.pluginmanager.get_plugin("terminalreporter")
            if line is not None and terminal is not None and self.config.get_verbosity() >= 0:
                terminal.ensure_newline()
                if self.distributed and self.config.get_verbosity() == 0:
                    # Under xdist the reporter does not know that it stands behind a letter.
                    terminal.write("\n")
                terminal.write_line(line)

    def _count_errors(self, facts: ReportFacts) -> None:
        if facts["error"] == PolicyStuck.kind:
            self._stop("the policy hangs or is gone, see the node's error; no failure counted")
        if self._errors_from_start is None or facts["executed"] == 0:
            return
        if facts["error"] is None:
            self._errors_from_start = None
            return
        self._errors_from_start += 1
        if self._errors_from_start >= HOPELESS:
            self._stop(
                f"the first {HOPELESS} rollouts all ended in an infrastructure error"
                f" ({facts['error']}); stopped, no failure was counted"
            )

    def _stop(self, message: str) -> None:
        distributed = self.config.pluginmanager.get_plugin("dsession")
        session = self.config.pluginmanager.get_plugin("session")
        for target in (distributed, session):
            if target is not None:
                target.shouldstop = message

    def worker_down(self, output: Mapping[str, object]) -> None:
        """Take over a usage error that an xdist worker found."""
        message = output.get("vla_usage_error")
        if isinstance(message, str):
            self._usage_error = message
        elsewhere = output.get("vla_in_other_shards")
        if isinstance(elsewhere, int):
            self.in_other_shards = elsewhere

    def finish(self, session: pytest.Session) -> None:
        """Compute the aggregates from the store, report them, and decide the exit code."""
        if self._usage_error is not None:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        if self.in_other_shards and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            # Something was selected, and all of it is in other shards.
            session.exitstatus = pytest.ExitCode.OK
        plan = self._plan
        if plan is None or (self.in_other_shards and not plan.nodes):
            return
        from pytest_vla_shift.reporting.run_report import report_run, run_facts

        self._store.refresh()
        self.made = report_run(
            self.run.directory,
            self.allure_directory,
            plan,
            self._store.records(),
            run_facts(self.run.run, plan, list(self._store_notes())),
            unreported=lambda _: [n for n in plan.nodes if n.node not in self._reported],
            aggregated=lambda report: self.config.hook.pytest_vla_aggregate(
                config=self.config, report=report
            ),
        )
        if not self.made.whole and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _store_notes(self) -> Iterator[str]:
        if self._archived is not None:
            yield f"--vla-fresh: earlier records were set aside in {self._archived}."
        for bad in (*self._store.bad_rows, *self._cut_off):
            yield (
                f"{bad.where} is not a record ({bad.reason}); its rollout ran again if it is in"
                " this plan."
            )

    def print_summary(self, terminal: pytest.TerminalReporter) -> None:
        """The table, what broke, and where everything is."""
        if self._usage_error is not None:
            terminal.write_line(f"ERROR: {self._usage_error}", red=True)
            return
        if self.run.shard is not None and self.in_other_shards and self.made is None:
            index, count = self.run.shard
            terminal.write_line(
                f"shard {index} of {count}: no episode of this selection is in it;"
                f" {self.in_other_shards} nodes are in other shards"
            )
        if self.made is None or self._plan is None:
            return
        from pytest_vla_shift.reporting.audit_tables import integrity_lines
        from pytest_vla_shift.reporting.tables import render

        terminal.section("robustness")
        terminal.write_line(render(self.made.report))
        integrity, missing = self.made.integrity, self.made.unreported
        if integrity is not None:
            for line in integrity_lines(integrity):
                terminal.write_line(line, red=not integrity.passed)
        self._print_told(terminal)
        for trouble in self.made.troubles:
            terminal.write_line(trouble, red=True)
        if missing:
            terminal.section("planned, not reported", red=True)
            terminal.write_line(
                f"{len(missing)} of {len(self._plan.nodes)}"
                " planned nodes were not reported; run the same command again to run the rest"
            )
            for node in missing[:EXPLAINED]:
                terminal.write_line(f"  {node.node}")
        terminal.write_line("")
        terminal.write_line(f"records and summary  {_short(self.run.directory)}")
        if self.allure_directory is not None:
            terminal.write_line(f"Allure results       {_short(self.allure_directory)}")

    def _print_told(self, terminal: pytest.TerminalReporter) -> None:
        # Several tests may ask for one pair: it is explained once.
        pairs = {(f["suite"], f["cell"]): f for f in self._told if f["error"] is None}
        degraded = list(pairs.values())
        if not degraded:
            return
        terminal.section("degraded pairs")
        for facts in degraded[:EXPLAINED]:
            terminal.write_line(facts["explanation"])
        if len(degraded) > EXPLAINED:
            terminal.write_line(
                f"... and {len(degraded) - EXPLAINED} more; all are in the Allure results"
            )

    def close(self) -> None:
        """Give the directory back."""
        plan_path(self.run.directory, self.session_id).unlink(missing_ok=True)
        self._store.close()
        self._lock.close()


def _short(path: Path) -> str:
    return os.path.relpath(path)
