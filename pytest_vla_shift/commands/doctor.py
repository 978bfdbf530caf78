"""``vla-shift doctor``: what is here, what is missing, and the line that mends it.

It changes nothing, and needs nothing but the core dependencies. What may crash (GL) or print
(LIBERO) runs in processes of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from pytest_vla_shift import __version__
from pytest_vla_shift.commands.findings import Finding, lines, missing

Check = Callable[[], Sequence[Finding]]

DESCRIPTION = (
    "Tell what is here, what is missing, and the line that mends it. Exit code 0 if the quickstart"
    " suite can run here, 1 otherwise. Changes nothing."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift doctor``."""
    parser.add_argument(
        "--reports",
        type=Path,
        default=Path("reports"),
        metavar="DIR",
        help="the folder that runs will write to (default: reports, here)",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command."""
    return doctor(given.reports, out)


def doctor(reports: Path, out: TextIO) -> int:
    """Look at everything, print it, and say whether the main job can run here.

    Args:
        reports: the folder that runs will write to.
        out: where the report goes, a section at a time.

    Returns:
        0 if nothing is missing, else 1.
    """
    # Loads numpy: not for the help of other commands.
    from pytest_vla_shift.commands.checks import folders, graphics, packages, simulators

    sections: tuple[tuple[str, Check], ...] = (
        ("Python and packages", packages.core),
        ("Extras", packages.extras),
        ("Graphics", graphics.check),
        ("Simulators", simulators.check),
        ("Folders and settings", lambda: folders.check(reports)),
    )
    out.write(f"pytest-vla-shift {__version__}\n")
    missed: list[Finding] = []
    for title, check in sections:
        findings = _guarded(check)
        out.write("\n" + "\n".join(lines(title, findings)) + "\n")
        out.flush()
        missed += [finding for finding in findings if finding.status == "missing"]
    if not missed:
        out.write(
            f"\nThe main job can run here: pytest --vla-policy={_policy()} on suites/quickstart,"
            " or on what vla-shift init writes.\n"
        )
        return 0
    out.write(f"\nThe main job cannot run here: {len(missed)} missing. First:\n")
    out.write(f"  {missed[0].mend or missed[0].text.splitlines()[0]}\n")
    return 1


def _policy() -> str:
    """One that needs nothing more: what sees, if what computes it is installed."""
    return "scripted" if importlib.util.find_spec("onnxruntime") is None else "tiny"


def _guarded(check: Check) -> Sequence[Finding]:
    """A check that breaks is itself a finding: the others still run."""
    try:
        return check()
    except Exception as error:
        return [missing(f"this could not be checked: {type(error).__name__}: {error}", None)]
