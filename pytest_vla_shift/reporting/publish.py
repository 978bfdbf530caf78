"""Everything that a finished run writes, from one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_vla_shift.reporting.allure_writer import write_aggregates, write_broken
from pytest_vla_shift.reporting.summary import write_summary
from pytest_vla_shift.rollouts.manifest import PlannedNode
from pytest_vla_shift.statistics.report import RunReport


def publish(
    directory: Path,
    allure_directory: Path | None,
    report: RunReport,
    unreported: Sequence[PlannedNode],
) -> None:
    """Write ``summary.md``, ``summary.json`` and the controller's own Allure results.

    Args:
        directory: the run's directory.
        allure_directory: the results folder, or None where allure-pytest is switched off.
        report: the run.
        unreported: nodes of the plan that pytest never reported, or whose worker crashed.
    """
    write_summary(directory, report)
    if allure_directory is not None:
        write_aggregates(allure_directory, report)
        write_broken(
            allure_directory,
            report.facts.policy,
            unreported,
            "the run ended, or the pytest worker crashed, before this node was done",
        )
