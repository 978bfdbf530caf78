"""``vla-shift stats``: every statistic of both papers, and beyond, from a long table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TextIO

DESCRIPTION = (
    "Read a long table of rollouts, one row each, and print every statistic of both papers with"
    " the counts it rests on. Columns: suite, task, episode, axis, level, success; where known"
    " milestones_done, milestones, error, policy, replicate. The axes clean, null and nominal have"
    " no level; simultaneous and camera+lighting are compounds. A table with a missing or doubled"
    " cell is refused."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift stats``."""
    parser.add_argument("table", type=Path, metavar="TABLE", help="a .csv or .jsonl file")
    parser.add_argument(
        "--format",
        choices=("csv", "jsonl"),
        default=None,
        help="what TABLE is (default: by its suffix)",
    )
    parser.add_argument("--json", action="store_true", help="everything, as one JSON object")


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    # These load numpy: not for the help of other commands.
    from pytest_vla_shift.commands import stats_output
    from pytest_vla_shift.statistics.table import read_table
    from pytest_vla_shift.statistics.table_report import table_report

    report = table_report(read_table(given.table, given.format), str(given.table))
    if given.json:
        json.dump(report.to_json(), out, indent=1, allow_nan=False, ensure_ascii=False)
        out.write("\n")
    else:
        out.write(stats_output.render(report) + "\n")
    return 0
