"""The task-cluster bootstrap of LIBERO-CTRL (3.5): whole tasks are resampled.

Tasks are drawn with replacement, each with all of its configurations, and every statistic is
computed anew from the sums of a replicate. Since a task is drawn whole, only its sums are needed,
and all statistics of all conditions come out of one product of a weight matrix with them.

The weights depend on the base seed and on the number of tasks alone; column k belongs to the k-th
task in sorted order. Conditions, levels, policies and policy seeds over the same tasks therefore
share their replicates, and contrasts between them are paired. Neither the order of rows nor the
names of configurations within a task change anything. Other names for the tasks do not either, as
long as they sort alike; otherwise an interval moves within its Monte-Carlo error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.identity import stable_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPLICATES = 4_000
SEED = 1
CONFIDENCE = 0.95

_BLOCK = 250_000
"""Multiplications at once. OpenBLAS spreads a larger product over threads, which takes longer
than the product itself where other processes keep the cores busy."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its 95 % percentile interval over resampled tasks.

    Attributes:
        value: None where it is not defined: a share of nothing.
        low, high: None without a value, or with fewer than two tasks to resample.
        undefined: replicates in which it was not defined; the interval is over the others.
    """

    value: float | None
    low: float | None
    high: float | None
    undefined: int = 0

    @property
    def degenerate(self) -> bool:
        """The interval has no width: the tasks do not differ, which is not certainty."""
        return self.low is not None and self.low == self.high

    @property
    def excludes_zero(self) -> bool | None:
        """Whether zero is outside the interval; None without one, or if it has no width."""
        if self.low is None or self.high is None or self.degenerate:
            return None
        return self.low > 0 or self.high < 0


@lru_cache(maxsize=8)
def task_weights(tasks: int, replicates: int = REPLICATES, seed: int = SEED) -> NDArray[np.float64]:
    """How often each task is drawn in each replicate.

    Args:
        tasks: how many there are.
        replicates: how often they are resampled.
        seed: base seed.

    Returns:
        (replicates, tasks) whole numbers; every row sums to ``tasks``. Read-only, and shared by
        all callers.

    Raises:
        ValueError: no task, or no replicate.
    """
    if tasks < 1 or replicates < 1:
        raise ValueError(f"nothing to resample: {tasks} tasks, {replicates} replicates")
    rng = np.random.Generator(np.random.PCG64(stable_seed("task-cluster bootstrap", seed, tasks)))
    drawn = rng.integers(tasks, size=(replicates, tasks))
    drawn += np.arange(0, replicates * tasks, tasks)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=replicates * tasks)
    weights = counts.reshape(replicates, tasks).astype(np.float64)
    weights.flags.writeable = False
    return weights


def task_sums(members: NDArray[np.intp], columns: NDArray[np.float64], tasks: int) -> Sums:
    """Sums of each column over the configurations of each task.

    Args:
        members: (N,) the task of each configuration, as its place in sorted order.
        columns: (N, K) what is summed.
        tasks: how many tasks there are; those without a configuration have sums of zero.
    """
    belongs = (members[None, :] == np.arange(tasks)[:, None]).astype(np.float64)
    sums: NDArray[np.float64] = belongs @ columns
    return Sums(sums)


@dataclass(frozen=True, slots=True)
class Sums:
    """(T, K): K sums of each of T tasks, in sorted order."""

    per_task: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """(1, K): over all tasks."""
        total: NDArray[np.float64] = self.per_task.sum(axis=0, keepdims=True)
        return total

    def resampled(self, replicates: int = REPLICATES, seed: int = SEED) -> NDArray[np.float64]:
        """(replicates, K): over the tasks that each replicate drew. Whole numbers stay exact."""
        weights = task_weights(len(self.per_task), replicates, seed)
        out = np.empty((replicates, self.per_task.shape[1]))
        rows = max(1, _BLOCK // max(1, self.per_task.size))
        for start in range(0, replicates, rows):
            block = slice(start, start + rows)
            np.matmul(weights[block], self.per_task, out=out[block])
        return out


def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """``above / below``; NaN, which stands for "not defined", where ``below`` is 0."""
    shape = np.broadcast_shapes(above.shape, below.shape)
    out = np.full(shape, np.nan)
    np.divide(above, below, out=out, where=np.broadcast_to(below != 0, shape))
    return out


def estimates(
    values: Mapping[str, NDArray[np.float64]],
    replicates: Mapping[str, NDArray[np.float64]],
    tasks: int,
) -> dict[str, Estimate]:
    """Values and their replicates as estimates, under the same names.

    Args:
        values: name -> (1,) value; NaN where it is not defined.
        replicates: name -> (B,) replicates, computed by the same formula.
        tasks: tasks that have a configuration; with fewer than two there is no interval.
    """
    names = list(values)
    stacked = np.stack([replicates[name] for name in names])
    undefined = np.isnan(stacked).sum(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(stacked, [tail, 1 - tail], axis=1)
    out: dict[str, Estimate] = {}
    for k, name in enumerate(names):
        value, lost = float(values[name][0]), int(undefined[k])
        if np.isnan(value) or tasks < 2:
            out[name] = Estimate(None if np.isnan(value) else value, None, None, lost)
            continue
        bounds = float(low[k]), float(high[k])
        if lost:
            defined = stacked[k][~np.isnan(stacked[k])]
            first, last = np.quantile(defined, [tail, 1 - tail])
            bounds = float(first), float(last)
        out[name] = Estimate(value, *bounds, lost)
    return out
