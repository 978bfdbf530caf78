"""What must hold for every table of outcomes, whatever is in it."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.cluster import Estimate
from pytest_vla_shift.statistics.compound import RATES, CompoundRates, compound
from pytest_vla_shift.statistics.outcomes import Outcome, Outcomes
from pytest_vla_shift.statistics.replication import replication

AXES = ("camera", "language", "lighting")
CONDITIONS = (*AXES, "simultaneous", "clean")
Rows = dict[TaskName, dict[int, dict[str, Outcome]]]

some = settings(max_examples=60, deadline=None)
outcome = st.one_of(
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["policy", "lost"])
)


@st.composite
def tables(draw: st.DrawFn, cell: st.SearchStrategy[Outcome] = outcome) -> Rows:
    """Up to five tasks of up to six configurations each, in any numbers."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True))
    rows: Rows = {}
    for name in names:
        configurations = draw(st.lists(st.integers(0, 49), min_size=1, max_size=6, unique=True))
        rows["libero", name] = {
            x: dict(zip(CONDITIONS, draw(st.tuples(*[cell] * len(CONDITIONS))), strict=True))
            for x in configurations
        }
    return rows


def of(rows: Rows) -> CompoundRates:
    return compound(Outcomes(rows), AXES, clean="clean", replicates=200).all


def exact(value: float | None, count: int, of_: int) -> bool:
    """Whether a rate is that of counts, to the last bit."""
    return value == count / of_ if of_ else value is None


@some
@given(tables())
def test_identities_of_the_paper_hold_in_counts(rows: Rows) -> None:
    found = of(rows)
    n, conj, sim = found.n, found.conjunction, found.simultaneous
    assert sim - conj == found.c - found.b
    assert exact(found.i.value, found.c - found.b, n)
    assert exact(found.i.value, sim - conj, n)
    assert exact(found.r_d.value, found.b + found.c, n)
    assert exact(found.r_e.value, found.b, n)
    assert exact(found.r_c.value, found.c, n)
    assert exact(found.s_conj.value, conj, n)
    assert exact(found.s_sim.value, sim, n)
    assert exact(found.emergent_share.value, found.b, found.failures)
    assert found.failures == n - sim
    if n:
        indep = Fraction(1)
        for single in found.singles:
            assert exact(single.s.value, single.successes, n)
            indep *= Fraction(single.successes, n)
        assert found.s_indep.value == pytest.approx(float(indep))
        # Equation 2.
        d, i = Fraction(conj, n) - indep, Fraction(sim - conj, n)
        assert found.d.value == pytest.approx(float(d))
        assert found.d.value + found.i.value == pytest.approx(float(d + i))  # type: ignore[operator]


@some
@given(tables())
def test_what_bounds_what(rows: Rows) -> None:
    found = of(rows)
    assert found.b <= found.conjunction <= min([s.successes for s in found.singles])
    assert found.b <= found.failures
    assert found.c <= found.simultaneous
    assert found.b + found.c <= found.n
    for name in RATES:
        estimate: Estimate = getattr(found, name)
        if estimate.low is not None and estimate.high is not None:
            floor = -1 if name in ("d", "i") else 0
            assert floor <= estimate.low <= estimate.high <= 1
        if estimate.value is None:
            assert estimate.low is None
            assert estimate.high is None


@some
@given(tables())
def test_every_configuration_is_complete_or_dropped_with_a_reason(rows: Rows) -> None:
    report = compound(Outcomes(rows), AXES, clean="clean", replicates=50)
    assert report.complete + len(report.dropped) == report.planned
    assert all(item.kinds for item in report.dropped)
    assert len(report.emergent) == report.all.b
    assert len(report.compensated) == report.all.c
    assert report.nominal is not None
    assert report.clean_known is not None
    assert report.nominal.n <= report.clean_known <= report.complete
    # A clean outcome decides nothing but the restriction and the losses.
    assert compound(Outcomes(rows), AXES, replicates=50).all == report.all


@some
@given(tables(), st.randoms(use_true_random=False))
def test_neither_order_nor_names_of_configurations_matter(
    rows: Rows, shuffle: random.Random
) -> None:
    found = of(rows)
    tasks = list(rows.items())
    shuffle.shuffle(tasks)
    renamed: Rows = {}
    for task, configurations in tasks:
        names = shuffle.sample(range(100), len(configurations))
        cells = list(configurations.values())
        shuffle.shuffle(cells)
        renamed[task] = dict(zip(names, cells, strict=True))
    assert of(renamed) == found


@some
@given(tables())
def test_other_names_of_tasks_do_not_matter_if_they_sort_alike(rows: Rows) -> None:
    assert of({("z", f"x{name}"): cells for (_, name), cells in rows.items()}) == of(rows)


@some
@given(tables(), st.permutations("abcdefgh"))
def test_whatever_tasks_are_called_no_value_changes(rows: Rows, names: list[str]) -> None:
    other = dict(zip("abcdefgh", names, strict=True))
    found = of(rows)
    renamed = of({("libero", other[name]): cells for (_, name), cells in rows.items()})
    for name in RATES:
        assert getattr(renamed, name).value == getattr(found, name).value
    assert (renamed.n, renamed.tasks, renamed.b, renamed.c) == (
        found.n,
        found.tasks,
        found.b,
        found.c,
    )


@some
@given(tables())
def test_the_order_of_axes_does_not_matter(rows: Rows) -> None:
    found = of(rows)
    turned = compound(Outcomes(rows), AXES[::-1], clean="clean", replicates=200).all
    assert turned.singles == found.singles[::-1]
    for name in RATES:
        ours, theirs = getattr(found, name), getattr(turned, name)
        expected = (ours.value, ours.low, ours.high)
        # A product of floats depends on its order, in the last bit.
        assert (theirs.value, theirs.low, theirs.high) == pytest.approx(expected)


@some
@given(tables(), tables())
def test_exchanging_two_evaluations_turns_every_change_around(first: Rows, second: Rows) -> None:
    there = replication(Outcomes(first), Outcomes(second), AXES, replicates=100)
    back = replication(Outcomes(second), Outcomes(first), AXES, replicates=100)
    assert (there.first, there.second) == (back.second, back.first)
    assert there.agreement == back.agreement
    for a, b in zip(there.changes, back.changes, strict=True):
        if a.change.value is None:
            assert b.change.value is None
        else:
            assert b.change.value == pytest.approx(-a.change.value)
        if a.change.low is not None and a.change.high is not None:
            expected = (-a.change.high, -a.change.low)
            assert (b.change.low, b.change.high) == pytest.approx(expected)
