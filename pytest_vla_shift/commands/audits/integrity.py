"""``vla-shift audit integrity``: a finished run, from its plan, its protocols and its records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

DESCRIPTION = (
    "Audit a finished run: counts, episodes, seeds, base states, renderer, versions, interventions,"
    " stages and truncations of every planned rollout, a row a task. Writes audit-integrity.json"
    " beside the records. Exit code 1 if anything is wrong."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift audit integrity``."""
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="the run's directory")


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the directory holds no run, one without its plan, or one that is being written.
    """
    from pytest_vla_shift.commands.audits.output import write_json
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.reporting.audit_tables import integrity_table
    from pytest_vla_shift.rollouts.manifest import check_manifest, kept_plan_path, read_plan
    from pytest_vla_shift.rollouts.sources import at_rest
    from pytest_vla_shift.rollouts.store import Store
    from pytest_vla_shift.statistics.run_integrity import audit_run

    directory: Path = given.run
    check_manifest(directory)
    path = kept_plan_path(directory)
    plan = read_plan(path)
    if plan is None:
        raise UsageError(
            f"{path} is not there: no run, or one of an older version. Run its command again: what"
            " is recorded is found, and the plan is written"
        )
    # What is under way would be called missing.
    with at_rest(directory):
        report = audit_run(plan, Store(directory, "audit").records(), str(path))
        write_json(directory / "audit-integrity.json", report.to_json())
    out.write(f"integrity of {directory}\n{integrity_table(report)}\n")
    out.write(f"{directory / 'audit-integrity.json'}\n")
    return 0 if report.passed else 1
