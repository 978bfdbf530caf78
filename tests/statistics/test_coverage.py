"""How often the intervals hold what they are about: simulated with the shipped methods.

``benchmarks/interval_coverage.py`` runs the same worlds for longer. Runs are seeded; the
Monte-Carlo standard error of a coverage near .94 is .003 with 6,000 runs and .005 with 2,000.
"""

from __future__ import annotations

import pytest

from tests.statistics.coverage_worlds import CASES, coverage

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize(
    "name, runs",
    [
        ("these tasks, pair bootstrap, 4 x 20", 6_000),
        ("new tasks, as shipped (t), 10 x 10", 6_000),
        ("new tasks, as shipped (cluster), 40 x 10", 2_000),
    ],
)
def test_intervals_hold_what_they_promise_to(name: str, runs: int) -> None:
    assert 0.93 <= coverage(BY_NAME[name], runs) <= 0.97


def test_ten_pairs_a_task_make_the_pair_bootstrap_a_little_short() -> None:
    # A percentile bootstrap of n pairs has sqrt((n - 1) / n) of the width that it should have,
    # and a task without any change adds none: 20,000 runs gave .931 with 10 tasks of 10 pairs,
    # .940 with 10 of 20. The method is RoboCasa-Shift's and is kept as it is.
    found = coverage(BY_NAME["these tasks, pair bootstrap, 10 x 10"], 4_000)
    assert found == pytest.approx(0.931, abs=0.012)


@pytest.mark.parametrize(
    "name, documented",
    [
        # Ten tasks are too few for percentiles of resampled tasks: why t is used there.
        ("new tasks, cluster percentile, 10 x 10", 0.897),
        # An interval for these tasks is no interval for new ones, however many there are.
        ("new tasks, pair bootstrap, 10 x 10", 0.737),
        ("new tasks, pair bootstrap, 40 x 10", 0.728),
    ],
)
def test_intervals_that_promise_no_such_thing_miss_as_often_as_documented(
    name: str, documented: float
) -> None:
    assert coverage(BY_NAME[name], 1_500, resamples=1_000) == pytest.approx(documented, abs=0.04)
