"""Everything that a finished run writes, from one report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pytest_vla_shift.reporting.allure_writer import write_aggregates, write_broken
from pytest_vla_shift.reporting.summary import replace_file, write_summary
from pytest_vla_shift.rollouts.manifest import PlannedNode
from pytest_vla_shift.rollouts.storage import whole, writing
from pytest_vla_shift.statistics.integrity import IntegrityReport
from pytest_vla_shift.statistics.report import RunReport


def publish(
    directory: Path,
    allure_directory: Path | None,
    report: RunReport,
    unreported: Sequence[PlannedNode],
    integrity: IntegrityReport | None,
) -> None:
    """Write ``summary.md``, ``summary.json``, the audit and the controller's own Allure results.

    Args:
        directory: the run's directory.
        allure_directory: the results folder, or None where allure-pytest is switched off.
        report: the run.
        unreported: nodes of the plan that pytest never reported, or whose worker crashed.
        integrity: the audit of the run's rollouts; None if it could not be made.

    Raises:
        StorageError: something cannot be written; it is named.
    """
    with whole():
        write_summary(directory, report)
        if integrity is not None:
            found = integrity.to_json()
            text = json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False)
            path = directory / "audit-integrity.json"
            with writing(path):
                replace_file(path, text + "\n")
        if allure_directory is not None:
            write_aggregates(allure_directory, report)
            write_broken(
                allure_directory,
                report.facts.policy,
                unreported,
                "the run ended, or the pytest worker crashed, before this node was done",
            )
