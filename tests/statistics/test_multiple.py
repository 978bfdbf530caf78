"""Holm and Benjamini-Hochberg against statsmodels and robostats, and what must always hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from robostats.kmodel import adjust
from statsmodels.stats.multitest import multipletests

from pytest_vla_shift.statistics.multiple import benjamini_hochberg, holm

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


# A call of statsmodels' Holm takes some 40 ms.
@settings(max_examples=15, deadline=None)
@given(p_values)
def test_holm_is_that_of_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(p_values)
def test_holm_is_that_of_robostats(p: list[float]) -> None:
    assert holm(p) == pytest.approx(adjust(p, "holm"))


@given(p_values)
def test_benjamini_hochberg_is_that_of_statsmodels(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@given(p_values, st.randoms(use_true_random=False))
def test_adjusted_p_stays_with_its_cell_and_is_never_smaller(
    p: list[float], shuffle: random.Random
) -> None:
    order = list(range(len(p)))
    shuffle.shuffle(order)
    for adjusted in (holm, benjamini_hochberg):
        found = adjusted(p)
        assert all(a >= b or a == pytest.approx(b) for a, b in zip(found, p, strict=True))
        assert all(0 <= a <= 1 for a in found)
        assert adjusted([p[k] for k in order]) == pytest.approx([found[k] for k in order])
    assert all(
        a <= b or a == pytest.approx(b) for a, b in zip(benjamini_hochberg(p), holm(p), strict=True)
    )


def test_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.04, 0.04))
    assert holm([]) == benjamini_hochberg([]) == ()
    assert holm([0.2]) == benjamini_hochberg([0.2]) == (0.2,)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p: float) -> None:
    for adjusted in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match="no p value"):
            adjusted([0.5, p])
