"""``vla-shift page``: the page of a published run, made again from its pack."""

from __future__ import annotations

import argparse
from difflib import unified_diff
from pathlib import Path
from typing import TextIO

DESCRIPTION = (
    "Make the page PACK.md of a packed run again, from its records alone; what was written by hand"
    " under its known causes is kept. With --check nothing is written: exit code 1, and the"
    " difference, if the page is not what the records give."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift page``."""
    parser.add_argument("pack", type=Path, metavar="PACK", help="the pack's folder")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the pack cannot be read or is not whole, or nobody can tell what of its page was
            written by hand.
    """
    # These load numpy: not for the help of other commands.
    from pytest_vla_shift.commands.packed import whole
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.reporting import results_page
    from pytest_vla_shift.reporting.summary import replace_file
    from pytest_vla_shift.rollouts.packs import read_pack
    from pytest_vla_shift.rollouts.storage import writing

    directory = Path(given.pack)
    path = results_page.page_path(directory.resolve())
    pack = read_pack(directory)
    report = whole(pack, directory.resolve().name)
    try:
        before = path.read_text("utf-8")
    except FileNotFoundError:
        before = ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    causes = results_page.known_causes(before) if before else results_page.UNWRITTEN
    page = results_page.render(pack, report, causes)
    if not given.check:
        with writing(path):
            replace_file(path, page)
        out.write(f"{path}\n")
        return 0
    if page == before:
        out.write(f"{path} is what {directory} gives\n")
        return 0
    lines = unified_diff(before.splitlines(), page.splitlines(), str(path), "from the records")
    out.writelines(f"{line}\n" for line in lines)
    return 1
