"""``vla-shift audit``: the audits that RoboCasa-Shift runs before and after an evaluation."""

from __future__ import annotations

import argparse
from typing import TextIO

from pytest_vla_shift.commands.table import add_commands, run_command

DESCRIPTION = (
    "Audit a suite before a run (severity: its levels, without a policy; pairing: the environment"
    " and the policy's seed), or a run after it (integrity). Exit code 1 if an audit fails."
)

AUDITS = {
    "severity": "are the frozen levels valid resets? No policy is asked",
    "pairing": "do both arms start alike, and does the seed repeat the policy?",
    "integrity": "is every rollout of a finished run there, and what it should be?",
}
"""Audit -> its line of help. ``audits/<name>.py`` has ``DESCRIPTION``, ``add_arguments(parser)``
and ``run(given, out) -> int``, as a command of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command an audit."""
    add_commands(parser, "audit", "commands.audits", AUDITS)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    return run_command("commands.audits", given.audit, given, out)
