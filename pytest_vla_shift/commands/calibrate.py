"""``vla-shift calibrate``: measure again what a protocol's scales were chosen by."""

from __future__ import annotations

import argparse
import importlib
from typing import TextIO

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
    calibrations = parser.add_subparsers(dest="calibration", required=True, metavar="CALIBRATION")
    for name, text in CALIBRATIONS.items():
        module = _module(name)
        command = calibrations.add_parser(name, help=text, description=module.DESCRIPTION)
        module.add_arguments(command)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    code: int = _module(given.calibration).run(given, out)
    return code


def _module(name: str):  # type: ignore[no-untyped-def]  # a module is no type
    return importlib.import_module(
        f"pytest_vla_shift.commands.calibration.{name.replace('-', '_')}"
    )
