"""``vla-shift stats``: every statistic of both papers, and beyond, from a long table or a run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pytest_vla_shift.statistics.table_run import RunTable

DESCRIPTION = (
    "Read a long table of rollouts, one row each, or the records of a run, and print every"
    " statistic of both papers with the counts it rests on. Columns: suite, task, episode, axis,"
    " level, success; where known milestones_done, milestones, error, policy, replicate. The axes"
    " clean, null and nominal have no level; simultaneous and camera+lighting are compounds. A"
    " table with a missing or doubled cell is refused."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift stats``."""
    parser.add_argument(
        "table",
        type=Path,
        metavar="TABLE",
        help="a .csv or .jsonl file, a run's directory, or a pack's",
    )
    parser.add_argument(
        "--format",
        choices=("csv", "jsonl"),
        default=None,
        help="what TABLE is (default: by its suffix)",
    )
    parser.add_argument("--json", action="store_true", help="everything, as one JSON object")
    parser.add_argument(
        "--export", type=Path, metavar="FILE", help="write the long table as CSV, to a new file"
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    # These load numpy: not for the help of other commands.
    from pytest_vla_shift.commands import stats_output
    from pytest_vla_shift.statistics.table_report import table_report
    from pytest_vla_shift.statistics.table_write import write_table

    found = _read(given)
    report = table_report(found.rows, str(given.table), notes=found.notes)
    if given.export is not None:
        write_table(given.export, found.rows)
    if given.json:
        json.dump(report.to_json(), out, indent=1, allow_nan=False, ensure_ascii=False)
        out.write("\n")
    else:
        out.write(stats_output.render(report) + "\n")
    return 0


def _read(given: argparse.Namespace) -> RunTable:
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.rollouts.manifest import check_manifest, kept_plan_path, read_plan
    from pytest_vla_shift.rollouts.packs import is_pack, read_pack
    from pytest_vla_shift.rollouts.store import Store
    from pytest_vla_shift.statistics.table import read_table
    from pytest_vla_shift.statistics.table_run import RunTable, run_rows

    source: Path = given.table
    if not source.is_dir() or given.format is not None:
        return RunTable(read_table(source, given.format), ())
    if is_pack(source):
        pack = read_pack(source)
        return run_rows(pack.plan, pack.records, str(source))
    check_manifest(source)
    path = kept_plan_path(source)
    plan = read_plan(path)
    if plan is None:
        raise UsageError(
            f"{path} is not there: no run, or one of an older version. Run its command again: what"
            " is recorded is found, and the plan is written"
        )
    return run_rows(plan, Store(source, "stats").records(), str(source))
