"""``make demo``: the quickstart suite with the policy `tiny`, and what its exit code means.

pytest exits with 1 as soon as one pair is degraded, and a demonstration of shifts has some: that is
a result. What is not one is a cell without an answer, and an infrastructure error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

RUN = "demo"
ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "reports" / RUN
TESTS_PASSED, TESTS_FAILED = 0, 1


class Cells(TypedDict):
    """Counts of cells; ``errors`` are among the reported."""

    planned: int
    reported: int
    errors: int


class Condition(TypedDict):
    """One condition of a suite, as far as it is read here: its degraded pairs."""

    sf: int


class Suite(TypedDict):
    """One suite of a run."""

    conditions: list[Condition]


class Summary(TypedDict):
    """``summary.json``, as far as it is read here."""

    cells: Cells
    suites: list[Suite]


def main() -> int:
    """Run it, read what it wrote, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--fresh", action="store_true", help="run what is recorded already again")
    given = parser.parse_args()
    command = [sys.executable, "-m", "pytest", "suites/quickstart", "--vla-policy=tiny"]
    command += [f"--vla-run={RUN}", "-n", str(given.jobs)]
    command += ["--vla-fresh"] if given.fresh else []
    recorded = not given.fresh and any((REPORTS / "rollouts").glob("results-*.jsonl"))
    summary = REPORTS / "summary.json"
    before = summary.stat().st_mtime_ns if summary.is_file() else None
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    # What is read below must be this run's.
    written = summary.is_file() and summary.stat().st_mtime_ns != before
    if code not in (TESTS_PASSED, TESTS_FAILED) or not written:
        print(f"\nThe demo did not run: pytest ended with exit code {code}; its words are above.")
        print(f"{Path(sys.executable).parent / 'vla-shift'} doctor says what is missing.")
        return code or 1
    print()
    whole = conclude(json.loads(summary.read_text("utf-8")), code)
    if recorded:
        print("What an earlier run had recorded was used again; make demo FRESH=1 runs everything.")
    where = REPORTS.relative_to(ROOT)
    print(f"\nsummary       {where}/summary.md")
    if any((REPORTS / "videos").glob("*.mp4")):
        print(f"videos        {where}/videos/")
    print(f"Allure pages  npx allure@3 generate {where}/allure-results -o {where}/allure-report")
    print(f"              npx allure@3 open {where}/allure-report   (needs Node)")
    return 0 if whole else 1


def conclude(summary: Summary, code: int) -> bool:
    """Say what the run showed; whether every cell has an answer.

    Args:
        summary: ``summary.json``.
        code: pytest's exit code.
    """
    cells = summary["cells"]
    degraded = sum(c["sf"] for suite in summary["suites"] for c in suite["conditions"])
    if cells["reported"] != cells["planned"] or cells["errors"]:
        print(
            f"The demo is not whole: {cells['reported']} of {cells['planned']} cells reported,"
            f" {cells['errors']} with an infrastructure error. The same command runs the rest."
        )
        return False
    if code == TESTS_FAILED and not degraded:
        print("No pair is degraded, and still pytest says that tests failed: see above.")
        return False
    print(f"The demo is done: all {cells['planned']} cells have an answer.")
    if degraded:
        are = "is" if degraded == 1 else "are"
        print(
            f"{degraded} of them {are} degraded: the policy solved the clean episode and not the"
            " shifted one.\nThat is a result, not a fault of the demo; pytest counts each as a"
            " failed test."
        )
    return True


if __name__ == "__main__":
    sys.exit(main())
