"""``vla-shift calibrate``: measure again what a protocol's scales were chosen by."""

from __future__ import annotations

import argparse
from typing import TextIO

from pytest_vla_shift.commands.table import add_commands, run_command

DESCRIPTION = (
    "Measure again, on the real simulator, what a protocol's scales were chosen by, and print it"
    " beside the published figures. Changes no level."
)

CALIBRATIONS = {
    "actuation": "open-loop tracking error of LIBERO-CTRL's actuation presets",
    "robot-pose": "spacing of LIBERO's released initial hands: LIBERO-CTRL's robot pose",
}
"""Calibration -> its line of help. ``calibration/<name>.py`` has ``DESCRIPTION``,
``add_arguments(parser)`` and ``run(given, out) -> int``, as a command of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a calibration."""
    add_commands(parser, "calibration", "commands.calibration", CALIBRATIONS)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    return run_command("commands.calibration", given.calibration, given, out)
