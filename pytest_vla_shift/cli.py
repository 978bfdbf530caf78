"""``vla-shift``: what is done around runs. Evaluating a policy is pytest's own command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_vla_shift import __version__
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import shipped

USAGE_ERROR = 2
"""argparse's own exit code for a command line that cannot be understood."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after ``vla-shift``; those of the process if None.

    Returns:
        The exit code: 0, 1 if ``doctor`` found that the main job cannot run here, 2 for usage.
    """
    given = _parser().parse_args(arguments)
    try:
        if given.command == "doctor":
            from pytest_vla_shift.commands.doctor import doctor

            return doctor(given.reports, sys.stdout)
        from pytest_vla_shift.commands.init import init

        return init(given.directory, given.suite, sys.stdout)
    except UsageError as error:
        print(f"vla-shift {given.command}: {error}", file=sys.stderr)
        return USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vla-shift",
        description="Around robustness runs. A policy is evaluated by pytest:"
        " pytest --vla-policy=NAME suites/quickstart",
    )
    parser.add_argument("--version", action="version", version=f"pytest-vla-shift {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor",
        help="what is here, what is missing, and the line that mends it",
        description="Tell what is here, what is missing, and the line that mends it. Exit code 0"
        " if the quickstart suite can run here, 1 otherwise. Changes nothing.",
    )
    doctor.add_argument(
        "--reports",
        type=Path,
        default=Path("reports"),
        metavar="DIR",
        help="the folder that runs will write to (default: reports, here)",
    )
    init = commands.add_parser(
        "init",
        help="write a starter suite",
        description="Write a starter suite, suite.toml and test_<DIR's name>.py, into DIR."
        " Nothing is overwritten.",
    )
    init.add_argument("directory", type=Path, metavar="DIR", help="made if it is not there")
    init.add_argument(
        "--suite",
        default="quickstart",
        metavar="NAME",
        help=f"the shipped suite to start from: {', '.join(shipped())} (default: quickstart)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
