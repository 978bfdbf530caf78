"""How often intervals of a nominal 95 % hold what they are about, by simulation.

A world has tasks of different difficulty: P(S>F) of a task is beta distributed with mean 0.3 and
standard deviation 0.2, P(F>S) is a twentieth of the rest. Every run draws some pairs a task. For
*new tasks* the tasks are drawn anew as well, and an interval should hold the mean of the world; for
*these tasks* they stay for 500 runs, and it should hold their own mean; then others are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.statistics.bootstrap import (
    TaskName,
    macro_replicates,
    percentile_interval,
)
from pytest_vla_shift.statistics.cluster import CONFIDENCE, task_weights
from pytest_vla_shift.statistics.estimands import new_tasks

MEAN, SD = 0.3, 0.2
_SHAPE = MEAN * (1 - MEAN) / SD**2 - 1
RESCUED = 0.05
TARGET = MEAN - RESCUED * (1 - MEAN)
"""Mean dSR of the world."""

_BATCH = 500
"""Runs whose intervals are computed in one product."""


def worlds(rng: np.random.Generator, runs: int, tasks: int, anew: bool) -> NDArray[np.float64]:
    """(runs, tasks): P(S>F). Tasks stay for a batch of runs unless ``anew``."""
    count = runs if anew else -(-runs // _BATCH)
    drawn = rng.beta(MEAN * _SHAPE, (1 - MEAN) * _SHAPE, size=(count, tasks))
    return drawn if anew else np.repeat(drawn, _BATCH, axis=0)[:runs]


def outcomes(
    rng: np.random.Generator, broken: NDArray[np.float64], pairs: int
) -> NDArray[np.int64]:
    """(runs, tasks, pairs): 1 for S>F, -1 for F>S, 0 for a pair that did not change."""
    luck = rng.random((*broken.shape, pairs))
    p = broken[..., None]
    changed: NDArray[np.int64] = (luck < p).astype(np.int64)
    changed -= ((luck >= p) & (luck < p + RESCUED * (1 - p))).astype(np.int64)
    return changed


def differences(found: NDArray[np.int64]) -> dict[TaskName, dict[int, int]]:
    """One run, as the statistics take it."""
    return {("world", f"task{t:02}"): dict(enumerate(row)) for t, row in enumerate(found.tolist())}


def pair_bootstrap(found: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """(runs, 2): the intervals of the pair bootstrap within tasks, all runs in one product."""
    conditions = {f"{run:05}": differences(one) for run, one in enumerate(found)}
    replicates = macro_replicates(conditions, resamples)
    return np.array([percentile_interval(replicates[name]) for name in conditions])


def cluster_bootstrap(found: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """(runs, 2): percentile intervals from resampled tasks, however few there are."""
    means = found.mean(axis=2)
    drawn = task_weights(means.shape[1], resamples) @ means.T / means.shape[1]
    tail = (1 - CONFIDENCE) / 2
    bounds: NDArray[np.float64] = np.quantile(drawn, [tail, 1 - tail], axis=0).T
    return bounds


def shipped_new_tasks(found: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """(runs, 2): what a report prints for new tasks."""
    intervals = [new_tasks(differences(one), replicates=resamples) for one in found]
    return np.array([(one.low, one.high) for one in intervals])


Method = Callable[[NDArray[np.int64], int], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Case:
    """One method under one question; ``anew`` draws new tasks for every run."""

    name: str
    method: Method
    tasks: int
    pairs: int
    anew: bool


CASES = (
    Case("these tasks, pair bootstrap, 4 x 20", pair_bootstrap, 4, 20, anew=False),
    Case("these tasks, pair bootstrap, 10 x 10", pair_bootstrap, 10, 10, anew=False),
    Case("these tasks, pair bootstrap, 10 x 20", pair_bootstrap, 10, 20, anew=False),
    Case("new tasks, as shipped (t), 10 x 10", shipped_new_tasks, 10, 10, anew=True),
    Case("new tasks, as shipped (t), 20 x 10", shipped_new_tasks, 20, 10, anew=True),
    Case("new tasks, as shipped (cluster), 40 x 10", shipped_new_tasks, 40, 10, anew=True),
    Case("new tasks, cluster percentile, 10 x 10", cluster_bootstrap, 10, 10, anew=True),
    Case("new tasks, pair bootstrap, 10 x 10", pair_bootstrap, 10, 10, anew=True),
    Case("new tasks, pair bootstrap, 40 x 10", pair_bootstrap, 40, 10, anew=True),
)


def coverage(case: Case, runs: int, resamples: int = 2_000, seed: int = 7) -> float:
    """The share of runs whose interval holds its target."""
    rng = np.random.default_rng(seed)
    broken = worlds(rng, runs, case.tasks, case.anew)
    targets = np.full(runs, TARGET)
    if not case.anew:
        targets = (broken - RESCUED * (1 - broken)).mean(axis=1)
    hits = 0
    for start in range(0, runs, _BATCH):
        batch = slice(start, start + _BATCH)
        bounds = case.method(outcomes(rng, broken[batch], case.pairs), resamples)
        slack = 1e-12  # a bound on the lattice of possible values may equal the target
        target = targets[batch]
        hits += int(np.sum((bounds[:, 0] <= target + slack) & (target - slack <= bounds[:, 1])))
    return hits / runs
