"""Tango and exact McNemar: check points, scipy as the oracle, and what must always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from robostats.compare import mcnemar, paired_difference
from robostats.records import PairedResult
from scipy.stats import binomtest
from statsmodels.stats import contingency_tables

from pytest_vla_shift.statistics.exact import mcnemar_p, tango_interval


@pytest.mark.parametrize(
    "b, c, low, high, p",
    [
        (20, 4, 0.0871, 0.3162, 0.0015),
        (5, 0, 0.0138, 0.138, 0.0625),
        (0, 0, -0.046, 0.046, 1.0),
    ],
)
def test_check_points_of_80_pairs(b: int, c: int, low: float, high: float, p: float) -> None:
    found = tango_interval(b, c, 80)
    digits = 3 if b < 20 else 4
    assert round(found[0], digits) == round(low, digits)
    assert round(found[1], digits) == round(high, digits)
    assert round(mcnemar_p(b, c), 4) == p


counts = st.integers(0, 60)


@given(counts, counts)
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(b: int, c: int) -> None:
    expected = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert math.isclose(mcnemar_p(b, c), expected, rel_tol=1e-9)


@given(counts, counts, st.integers(1, 60))
def test_tango_holds_the_estimate_and_mirrors_when_the_arms_swap(b: int, c: int, same: int) -> None:
    n = b + c + same
    low, high = tango_interval(b, c, n)
    assert -1 <= low <= (b - c) / n <= high <= 1
    assert low < high
    mirrored = tango_interval(c, b, n)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


def test_tango_inverts_its_own_score_test() -> None:
    # At a bound the standardised score equals the normal quantile: computed here from the
    # definition, with the nuisance parameter found by maximising the likelihood on a grid.
    b, c, n = 20, 4, 80
    for bound, sign in zip(tango_interval(b, c, n), (1, -1), strict=True):
        grid = [max(0.0, -bound) + 1e-6 + k * 1e-6 for k in range(400_000)]

        def likelihood(q: float, delta: float = bound) -> float:
            rest = 1 - 2 * q - delta
            if rest <= 0 or q + delta <= 0:
                return -math.inf
            return b * math.log(q + delta) + c * math.log(q) + (n - b - c) * math.log(rest)

        q = max(grid, key=likelihood)
        z = (b - c - n * bound) / math.sqrt(n * (2 * q + bound * (1 - bound)))
        assert z == pytest.approx(sign * 1.959964, abs=1e-4)


@pytest.mark.parametrize("b, c, n", [(1, 0, 0), (-1, 0, 5), (3, 3, 5)])
def test_counts_that_do_not_fit_are_refused(b: int, c: int, n: int) -> None:
    with pytest.raises(ValueError, match="counts"):
        tango_interval(b, c, n)


def test_all_pairs_discordant_reaches_the_end_of_the_scale() -> None:
    assert tango_interval(10, 0, 10)[1] == 1.0
    assert tango_interval(0, 10, 10)[0] == -1.0


@given(counts, counts, st.integers(1, 60))
def test_robostats_comes_to_the_same_interval_and_p(b: int, c: int, same: int) -> None:
    n = b + c + same
    table = PairedResult(
        policy_id_a="clean",
        policy_id_b="shifted",
        n_both_success=same,
        n_a_success_b_failure=b,
        n_b_success_a_failure=c,
        n_both_failure=0,
        scenario_ids=tuple(f"e{k:03}" for k in range(n)),
        dropped_from_a=0,
        dropped_from_b=0,
        protocol_fingerprints_a=(),
        protocol_fingerprints_b=(),
        replicates=None,
    )
    oracle = paired_difference(table)
    assert tango_interval(b, c, n) == pytest.approx((oracle.lower, oracle.upper), abs=1e-6)
    assert mcnemar_p(b, c) == pytest.approx(mcnemar(table).p_value)


@given(counts, counts)
def test_statsmodels_exact_mcnemar_comes_to_the_same_p(b: int, c: int) -> None:
    oracle = contingency_tables.mcnemar([[7, b], [c, 9]], exact=True)
    assert mcnemar_p(b, c) == pytest.approx(oracle.pvalue)
