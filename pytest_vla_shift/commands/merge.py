"""``vla-shift merge``: shards of a run, or pieces of one, as the one run that they are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

DESCRIPTION = (
    "Make one run of the shards of a plan, or of pieces of one run: its records, videos, summary,"
    " audit and Allure results, as if it had never been divided. Runs of different plans, policies"
    " or versions are refused, and so are two outcomes of one rollout. Exit code 1 if a planned"
    " cell has no record or the audit finds anything wrong. The runs themselves are not changed."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift merge``."""
    parser.add_argument("out", type=Path, metavar="OUT", help="the new run's directory")
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="the directory of a shard, or of a piece"
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the runs are not parts of one, one of them is being written, or OUT is in use.
    """
    # Loads numpy: not for the help of other commands.
    from pytest_vla_shift.commands.merge_runs import merge, render

    done = merge(given.out, given.runs)
    out.write(render(done) + "\n")
    return 0 if done.reported.whole else 1
