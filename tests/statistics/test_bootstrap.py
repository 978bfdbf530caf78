"""The stratified pair bootstrap against scipy, and the sharing of its weights."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import bootstrap, multinomial

from pytest_vla_shift.statistics.bootstrap import Differences, macro_replicates, percentile_interval


def _differences(
    seed: int, tasks: int = 4, episodes: int = 20
) -> dict[tuple[str, str], dict[int, int]]:
    rng = np.random.default_rng(seed)
    return {
        ("suite", f"task{t}"): {
            e: int(rng.choice([1, 0, -1], p=[0.3 / (t + 1), 0.9 - 0.3 / (t + 1), 0.1]))
            for e in range(episodes)
        }
        for t in range(tasks)
    }


def test_interval_agrees_with_scipy_stratified_by_task() -> None:
    # scipy resamples several samples independently of each other: one sample a task is
    # resampling within tasks, and the statistic is the macro average.
    differences = _differences(0)
    samples = [np.array(list(found.values()), float) for found in differences.values()]

    def macro(*tasks: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        means: NDArray[np.float64] = np.stack([task.mean(axis=axis) for task in tasks])
        return np.asarray(means.mean(axis=0))

    oracle = bootstrap(
        samples, macro, n_resamples=40_000, method="percentile", vectorized=True, rng=5
    )
    ours = macro_replicates({"c": differences}, resamples=40_000)["c"]
    expected = oracle.confidence_interval
    # The lattice of possible values is 1/80 wide; the Monte-Carlo error is a fraction of that.
    assert percentile_interval(ours) == pytest.approx((expected.low, expected.high), abs=1 / 80)
    assert ours.mean() == pytest.approx(oracle.bootstrap_distribution.mean(), abs=0.002)
    assert ours.std() == pytest.approx(oracle.standard_error, rel=0.03)


def test_one_task_follows_the_exact_trinomial_distribution() -> None:
    found = {e: (1 if e < 20 else -1 if e < 24 else 0) for e in range(80)}
    ours = macro_replicates({"c": {("s", "t"): found}}, resamples=40_000)["c"]
    assert percentile_interval(ours) == pytest.approx((0.0875, 0.3125), abs=1 / 80 + 1e-9)
    exact = multinomial(80, [20 / 80, 4 / 80, 56 / 80])
    net = sum(exact.pmf([b, b - 16, 96 - 2 * b]) for b in range(16, 49))
    assert np.mean(np.isclose(ours, 16 / 80)) == pytest.approx(net, abs=0.01)


def test_conditions_with_the_same_pairs_share_their_resamples() -> None:
    same = _differences(1)
    opposite = {task: {e: -d for e, d in found.items()} for task, found in same.items()}
    both = macro_replicates({"a": same, "b": opposite})
    assert np.array_equal(both["a"], -both["b"])


def test_an_interval_does_not_depend_on_the_other_conditions() -> None:
    one, other = _differences(1), _differences(2)
    alone = macro_replicates({"a": one})["a"]
    assert np.array_equal(alone, macro_replicates({"b": other, "a": one})["a"])


def test_a_lost_pair_of_one_task_leaves_the_weights_of_the_others() -> None:
    full = _differences(1, tasks=2)
    lost = {task: dict(found) for task, found in full.items()}
    del lost["suite", "task1"][3]
    zeroed: Differences = {("suite", "task0"): full["suite", "task0"]}
    alone = macro_replicates({"a": zeroed})["a"]
    rest = macro_replicates({"a": {("suite", "task1"): lost["suite", "task1"]}})["a"]
    assert np.allclose(macro_replicates({"a": lost})["a"], (alone + rest) / 2)


def test_tasks_count_alike_whatever_their_number_of_pairs() -> None:
    always = {("s", "big"): dict.fromkeys(range(90), 1), ("s", "small"): dict.fromkeys(range(3), 0)}
    assert set(macro_replicates({"a": always})["a"]) == {0.5}


def test_another_seed_gives_other_resamples_and_the_same_seed_the_same() -> None:
    one = {"a": _differences(1)}
    assert np.array_equal(macro_replicates(one)["a"], macro_replicates(one)["a"])
    assert not np.array_equal(macro_replicates(one)["a"], macro_replicates(one, seed=2)["a"])


def test_large_tasks_are_resampled_in_blocks() -> None:
    found = {e: e % 3 - 1 for e in range(3000)}
    replicates = macro_replicates({"a": {("s", "t"): found}}, resamples=1500)["a"]
    assert replicates.shape == (1500,)
    assert len(set(replicates[700:])) > 50  # the last block is filled as well
    assert replicates.std() == pytest.approx(np.std(list(found.values())) / 3000**0.5, rel=0.1)


def test_a_task_without_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="has no pair of task 't'"):
        macro_replicates({"a": {("s", "t"): {}}})


def test_twelve_conditions_of_eighty_pairs_stay_far_below_a_second() -> None:
    conditions = {f"c{k}": _differences(k) for k in range(12)}
    macro_replicates(conditions, resamples=10)
    start = time.process_time()
    for replicates in macro_replicates(conditions).values():
        percentile_interval(replicates)
    # 0.03 to 0.1 s measured; scipy.stats.bootstrap condition by condition takes about eight times
    # as long. The bound is wide because the clock of a shared machine is not a stop-watch.
    assert time.process_time() - start < 0.5


def test_episodes_may_be_called_anything_that_sorts_alike() -> None:
    found = _differences(3)
    renamed = {task: {7 * e + 3: d for e, d in rows.items()} for task, rows in found.items()}
    both = macro_replicates({"a": found, "b": renamed})
    assert np.array_equal(both["a"], both["b"])


def test_other_names_of_episodes_move_an_interval_within_its_monte_carlo_error_only() -> None:
    found = _differences(3)
    turned = {task: {19 - e: d for e, d in rows.items()} for task, rows in found.items()}
    both = macro_replicates({"a": found, "b": turned}, resamples=40_000)
    assert both["a"].mean() == pytest.approx(both["b"].mean(), abs=0.002)
    # Both lie on the lattice of multiples of 1/80.
    assert percentile_interval(both["a"]) == pytest.approx(
        percentile_interval(both["b"]), abs=1 / 80 + 1e-9
    )
