"""The task-cluster bootstrap against the book: tasks drawn one by one, statistics computed anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from pytest_vla_shift.statistics.cluster import (
    Estimate,
    Sums,
    estimates,
    ratio,
    task_sums,
    task_weights,
)


def test_every_replicate_draws_as_many_tasks_as_there_are() -> None:
    weights = task_weights(7, 500)
    assert weights.shape == (500, 7)
    assert set(weights.sum(axis=1)) == {7.0}
    assert np.array_equal(weights, np.round(weights))


def test_tasks_are_drawn_as_a_multinomial() -> None:
    weights = task_weights(40, 20_000)
    assert weights.mean(axis=0) == pytest.approx(np.ones(40), abs=0.03)
    assert weights.var(axis=0) == pytest.approx(np.full(40, 39 / 40), abs=0.06)
    assert np.mean(weights == 0) == pytest.approx((39 / 40) ** 40, abs=0.003)


def test_weights_are_shared_and_cannot_be_written_to() -> None:
    assert task_weights(5, 100) is task_weights(5, 100)
    assert not np.array_equal(task_weights(5, 100), task_weights(5, 100, seed=2))
    with pytest.raises(ValueError, match="read-only"):
        task_weights(5, 100)[0, 0] = 1.0


@pytest.mark.parametrize("tasks, replicates", [(0, 100), (3, 0)])
def test_nothing_to_resample_is_refused(tasks: int, replicates: int) -> None:
    with pytest.raises(ValueError, match="nothing to resample"):
        task_weights(tasks, replicates)


def test_sums_belong_to_their_tasks_and_tasks_without_any_have_zero() -> None:
    sums = task_sums(np.array([2, 0, 2]), np.array([[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]]), 4)
    assert sums.per_task.tolist() == [[2, 6], [0, 0], [5, 12], [0, 0]]
    assert sums.total.tolist() == [[7, 18]]


def test_a_success_rate_agrees_with_scipy_resampling_tasks_of_unequal_size() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 15, 30)
    counts = np.array([rng.binomial(n, rng.random()) for n in sizes])

    def pooled(a: np.ndarray, n: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(a.sum(axis=axis) / n.sum(axis=axis))

    oracle = bootstrap(
        (counts, sizes), pooled, paired=True, n_resamples=40_000, method="percentile", rng=1
    )
    sums = Sums(np.column_stack([counts, sizes]).astype(float))
    ours = sums.resampled(40_000)
    rate = ratio(ours[:, 0], ours[:, 1])
    found = estimates({"s": ratio(sums.total[:, 0], sums.total[:, 1])}, {"s": rate}, len(sizes))[
        "s"
    ]
    expected = oracle.confidence_interval
    assert found.value == counts.sum() / sizes.sum()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.004)
    assert rate.std(ddof=1) == pytest.approx(oracle.standard_error, rel=0.03)


def test_replicates_in_which_a_share_is_undefined_are_counted_and_left_out() -> None:
    sums = np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 2.0]])
    share = ratio(sums[:, 0], sums[:, 1])
    found = estimates({"share": np.array([0.75])}, {"share": share}, 2)["share"]
    assert found.undefined == 1
    assert (found.low, found.high) == pytest.approx((0.5125, 0.9875))


def test_without_a_value_or_with_one_task_there_is_no_interval() -> None:
    replicates = {"s": np.array([0.4, 0.6])}
    assert estimates({"s": np.array([np.nan])}, replicates, 9)["s"] == Estimate(None, None, None)
    assert estimates({"s": np.array([0.5])}, replicates, 1)["s"] == Estimate(0.5, None, None)


def test_an_interval_without_width_decides_nothing() -> None:
    assert Estimate(0.0, 0.0, 0.0).degenerate
    assert Estimate(0.1, 0.1, 0.1).excludes_zero is None
    assert Estimate(0.1, None, None).excludes_zero is None
    assert Estimate(0.1, 0.05, 0.2).excludes_zero is True
    assert Estimate(-0.1, -0.2, -0.05).excludes_zero is True
    assert Estimate(0.1, -0.05, 0.2).excludes_zero is False
