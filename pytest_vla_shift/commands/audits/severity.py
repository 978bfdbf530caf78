"""``vla-shift audit severity``: every level of every axis, reset and looked at; no policy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from pytest_vla_shift.commands import arguments

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.severity_audit import SeverityRecord

DESCRIPTION = (
    "Reset three episodes of every task under the clean and every shifted condition, without a"
    " policy: valid reset, sound pictures, the same state before the shift, the intended change and"
    " nothing else, and pictures that change more at a higher level where the axis promises it."
    " Writes audit-severity.json and a contact sheet a task. Exit code 1 if anything is wrong."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift audit severity``."""
    arguments.add_suite(parser)
    arguments.add_cut(parser, axes=True)
    arguments.add_simulator(parser)
    arguments.add_out(parser)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the suite, the cut or the folder is wrong, or the simulator is not here.
    """
    from pytest_vla_shift.commands.audits.output import write_json
    from pytest_vla_shift.reporting.audit_tables import severity_table
    from pytest_vla_shift.reporting.contact_sheet import write_sheets
    from pytest_vla_shift.rollouts.frames import available
    from pytest_vla_shift.rollouts.request import settings_of
    from pytest_vla_shift.rollouts.severity_audit import EPISODES, audit_severity
    from pytest_vla_shift.simulators.hardware import environment_of_one
    from pytest_vla_shift.simulators.launch import describe, open_simulator

    suite = arguments.suite_of(given)
    cut = arguments.cut_of(given, suite)
    describe(suite.simulator)
    directory = arguments.out_of(given, suite)
    simulator = open_simulator(
        settings_of(suite),
        envs=given.envs,
        rollout_timeout_s=given.rollout_timeout,
        environment=environment_of_one(),
    )
    try:
        report = audit_severity(
            simulator,
            suite,
            cut=cut,
            episodes=len(cut.episodes) or EPISODES,
            progress=lambda record: _progress(out, record),
        )
    finally:
        simulator.close()
    write_json(directory / "audit-severity.json", report.to_json())
    sheets = write_sheets(directory, suite, report.frames) if available() else []
    out.write("\n" + severity_table(report) + "\n")
    out.write(f"{directory / 'audit-severity.json'}\n")
    out.writelines(f"{path}\n" for path in sheets)
    if not sheets:
        out.write("no contact sheet: Pillow is not here\n")
    return 0 if report.passed else 1


def _progress(out: TextIO, record: SeverityRecord) -> None:
    told = "; ".join(record.problems) or "ok"
    out.write(f"  {record.task} e{record.episode:02d} {record.condition}: {told}\n")
    out.flush()
