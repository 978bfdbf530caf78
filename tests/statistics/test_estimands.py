"""These tasks or new ones: each method against an oracle, and never one for the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from pytest_vla_shift.statistics.bootstrap import (
    Differences,
    TaskName,
    macro_replicates,
    percentile_interval,
)
from pytest_vla_shift.statistics.estimands import Estimand, MacroInterval, new_tasks, these_tasks
from pytest_vla_shift.statistics.floor import against_floor

Table = dict[TaskName, dict[int, int]]


def differences(seed: int, tasks: int, pairs: int = 10) -> Table:
    rng = np.random.default_rng(seed)
    return {
        ("s", f"t{t:02}"): {
            e: int(d) for e, d in enumerate(rng.choice([1, 0, -1], pairs, p=[p, 0.9 - p, 0.1]))
        }
        for t, p in enumerate(rng.uniform(0, 0.6, tasks))
    }


def test_these_tasks_are_those_of_the_pair_bootstrap() -> None:
    found = differences(1, 8)
    mine = these_tasks(found)
    assert mine.estimand is Estimand.THESE_TASKS
    assert (mine.low, mine.high) == percentile_interval(macro_replicates({"c": found})["c"])
    assert (mine.tasks, mine.pairs) == (8, 80)


def test_up_to_twenty_tasks_new_ones_are_students_t_on_task_means() -> None:
    for tasks in (2, 10, 20):
        found = differences(2, tasks)
        means = np.array([np.mean(list(pairs.values())) for pairs in found.values()])
        mine = new_tasks(found)
        assert mine.estimand is Estimand.NEW_TASKS
        assert mine.method == "Student's t on task means"
        assert mine.value == pytest.approx(means.mean())
        low, high = DescrStatsW(means).tconfint_mean()
        assert (mine.low, mine.high) == pytest.approx((max(-1, low), min(1, high)))


def test_above_twenty_tasks_whole_tasks_are_resampled() -> None:
    found = differences(3, 40)
    means = np.array([np.mean(list(pairs.values())) for pairs in found.values()])
    oracle = stats.bootstrap(
        (means,), np.mean, n_resamples=40_000, method="percentile", rng=1
    ).confidence_interval
    mine = new_tasks(found, replicates=40_000)
    assert mine.method == "percentile, 40,000 resamples of tasks"
    assert (mine.low, mine.high) == pytest.approx((oracle.low, oracle.high), abs=0.004)
    assert new_tasks(differences(3, 21)).method.startswith("percentile")


def test_tasks_weigh_alike_under_either_estimand() -> None:
    found: Table = {("s", "big"): dict.fromkeys(range(90), 1), ("s", "small"): {0: 0}}
    assert these_tasks(found).value == new_tasks(found).value == 0.5


def test_one_task_says_nothing_about_new_ones() -> None:
    mine = new_tasks({("s", "t"): {0: 1, 1: 0}})
    assert (mine.value, mine.low, mine.high) == (0.5, None, None)
    assert not mine.degenerate


def test_tasks_that_do_not_differ_are_flagged() -> None:
    found: Table = {("s", f"t{t}"): {0: 1, 1: 0} for t in range(5)}
    assert new_tasks(found).degenerate
    assert not these_tasks(found).degenerate


def test_an_interval_stays_on_the_scale() -> None:
    found: Table = {("s", "a"): {0: 1}, ("s", "b"): {0: 0}}
    assert (new_tasks(found).low, new_tasks(found).high) == (-1.0, 1.0)


@pytest.mark.parametrize("method", [these_tasks, new_tasks])
def test_no_task_and_a_task_without_pairs_are_refused(
    method: Callable[[Differences], MacroInterval],
) -> None:
    with pytest.raises(ValueError, match="no task"):
        method({})
    with pytest.raises(ValueError, match="no pair of task 't'"):
        method({("s", "t"): {}})


def test_changes_are_held_against_the_floor_episode_by_episode() -> None:
    task = ("s", "t")
    shifted = {task: {0: 1, 1: 1, 2: -1, 3: 0, 4: 0, 9: 1}, ("s", "only shifted"): {0: 1}}
    null = {task: {0: 0, 1: -1, 2: 0, 3: 1, 4: 0}}
    found = against_floor(shifted, null)
    assert (found.pairs, found.changed, found.floor) == (5, 3, 2)
    assert (found.only_shift, found.only_null) == (2, 1)
    assert found.these_tasks is not None
    assert found.these_tasks.value == pytest.approx(1 / 5)
    assert found.mcnemar == 1.0


def test_a_shift_that_only_reruns_the_null_condition_has_no_excess() -> None:
    null = differences(4, 10)
    found = against_floor(null, null)
    assert found.changed == found.floor > 0
    assert found.these_tasks is not None
    assert (found.these_tasks.low, found.these_tasks.value) == (0.0, 0.0)


def test_without_shared_episodes_nothing_is_known() -> None:
    found = against_floor({("s", "t"): {0: 1}}, {("s", "t"): {1: 1}})
    assert (found.pairs, found.these_tasks, found.tango, found.mcnemar) == (0, None, None, None)
