"""``vla-shift pack``: a finished run as two small files to be published, with its page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TextIO

DESCRIPTION = (
    "Pack the records of a finished run into the new folder OUT, to be published: the plan and a"
    " line a rollout, compressed, without times, hosts and paths, and the page OUT.md with every"
    " table. Refused are runs with planned cells that nobody reported, runs whose audit finds"
    " anything but infrastructure errors, and whatever names a place on a machine."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift pack``."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's directory")
    parser.add_argument("out", type=Path, metavar="OUT", help="the new folder")
    parser.add_argument(
        "--command",
        dest="line",
        required=True,
        metavar="LINE",
        help="the command line that the run was started with; it is printed on the page",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the run is not whole or not sound, or OUT or its page is there already or cannot
            be linked to.
    """
    # These load numpy: not for the help of other commands.
    from pytest_vla_shift.commands.packed import check_sound, whole
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.reporting import results_page
    from pytest_vla_shift.reporting.numbers import plural
    from pytest_vla_shift.reporting.summary import replace_file
    from pytest_vla_shift.rollouts.packing import pack_run
    from pytest_vla_shift.rollouts.packs import ROLLOUTS, read_pack, write_pack
    from pytest_vla_shift.rollouts.storage import writing

    target: Path = given.out
    name = target.resolve().name
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) is None:
        raise UsageError(
            f"OUT's name becomes a page's and is linked to: letters, digits, _, -: {name}"
        )
    page = results_page.page_path(target.resolve())
    if page.exists():
        raise UsageError(f"{page} is there already; choose another folder, or move it away")
    packed = pack_run(given.run, given.line)
    report = whole(packed.pack, name)
    check_sound(packed.pack, str(given.run))
    write_pack(target, packed.pack)
    # Of what is written: it is what everybody else will read.
    text = results_page.render(read_pack(target), report)
    with writing(page):
        replace_file(page, text)
    size = (target / ROLLOUTS).stat().st_size
    out.writelines(f"note: {note}\n" for note in packed.notes)
    if report.errors:
        lost = plural(report.errors, "pair")
        out.write(f"note: {lost} with an infrastructure error, in no rate\n")
    out.write(
        f"{plural(len(packed.pack.records), 'rollout')} in {size:,} bytes: {target}\n"
        f"{page}: write its paragraph on known causes by hand\n"
    )
    return 0
