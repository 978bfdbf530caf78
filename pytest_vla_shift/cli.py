"""``vla-shift``: what is done around runs. Evaluating a policy is pytest's own command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_vla_shift import __version__
from pytest_vla_shift.commands.table import add_commands, run_command
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.storage import StorageError

COMMANDS = {
    "doctor": "what is here, what is missing, and the line that mends it",
    "init": "write a starter suite",
    "screen": "which of a suite's candidate tasks can this policy be asked about?",
    "profile": "how a profile lays out observations and actions, and whether it fits a suite",
    "serve": "any policy of ours behind the protocol of a model's own server",
    "audit": "severity of a suite, pairing of a policy, integrity of a run",
    "calibrate": "measure again what a protocol's scales were chosen by",
    "merge": "shards of a run, or pieces of one, as the one run that they are",
    "stats": "every statistic of both papers from a long table of rollouts",
    "pack": "a finished run as two small files to be published, with its page",
    "page": "the page of a published run, made again from its records, or checked",
}
"""Command -> its line of help. ``commands/<name>.py`` has ``add_arguments(parser)`` and
``run(given, out) -> int``, and imports nothing heavy until it runs."""

INTERRUPTED = 130
"""The shell's code for a program that Ctrl-C ended."""

USAGE_ERROR = 2
"""argparse's own exit code for a command line that cannot be understood."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after ``vla-shift``; those of the process if None.

    Returns:
        The exit code: 0; 1 if the command found what must not be; 2 for usage; 130 if interrupted.
    """
    given = _parser().parse_args(arguments)
    try:
        code = run_command("commands", given.command, given, sys.stdout)
        sys.stdout.flush()
    except (UsageError, StorageError) as error:
        print(f"vla-shift {given.command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"vla-shift {given.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not try to write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vla-shift",
        description="Around robustness runs. A policy is evaluated by pytest:"
        " pytest --vla-policy=NAME suites/quickstart",
    )
    parser.add_argument("--version", action="version", version=f"pytest-vla-shift {__version__}")
    add_commands(parser, "command", "commands", COMMANDS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
