"""``vla-shift audit``: the audits that RoboCasa-Shift runs before and after an evaluation."""

from __future__ import annotations

import argparse
import importlib
from typing import TextIO

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
    audits = parser.add_subparsers(dest="audit", required=True, metavar="AUDIT")
    for name, text in AUDITS.items():
        module = _module(name)
        command = audits.add_parser(name, help=text, description=module.DESCRIPTION)
        module.add_arguments(command)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    code: int = _module(given.audit).run(given, out)
    return code


def _module(name: str):  # type: ignore[no-untyped-def]  # a module is no type
    return importlib.import_module(f"pytest_vla_shift.commands.audits.{name}")
