"""How often intervals of a nominal 95 % hold what they are about, by simulation.

    OMP_NUM_THREADS=1 python -m benchmarks.interval_coverage [--runs 20000]

A line a method and question, tasks x pairs: its coverage, and the Monte-Carlo standard error of
it. The worlds are those of tests/statistics/coverage_worlds.py, which the tests use as well.
"""

from __future__ import annotations

import argparse

from tests.statistics.coverage_worlds import CASES, coverage


def main() -> None:
    """Measure every case and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    runs = parser.parse_args().runs
    for case in CASES:
        found = coverage(case, runs)
        error = (found * (1 - found) / runs) ** 0.5
        print(f"{case.name:<44} {found:.3f} ({error:.3f})", flush=True)


if __name__ == "__main__":
    main()
