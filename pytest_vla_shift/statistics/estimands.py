"""Two questions about a macro dSR, each with intervals of its own, never mixed.

*These tasks*: what would other episodes of the same tasks give? Pairs are resampled within tasks.
*New tasks*: what would other tasks give, of which these are a sample? Only the spread between task
means answers that: Student's t on them up to 20 tasks, whole tasks resampled above.

An interval for these tasks is far too short for new ones: with 10 tasks of 10 pairs and a standard
deviation of 0.2 between tasks it covers about 74 % instead of 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.bootstrap import (
    RESAMPLES,
    Differences,
    TaskName,
    macro_replicates,
    percentile_interval,
)
from pytest_vla_shift.statistics.bootstrap import SEED as PAIR_SEED
from pytest_vla_shift.statistics.cluster import CONFIDENCE, REPLICATES, SEED, task_weights

MOST_FOR_T = 20
"""Above so many tasks, whole tasks are resampled."""


class Estimand(StrEnum):
    """What an interval is about."""

    THESE_TASKS = "these tasks"
    NEW_TASKS = "new tasks"


@dataclass(frozen=True, slots=True)
class MacroInterval:
    """A macro average over tasks, with an interval that says what it is about.

    Attributes:
        estimand: these tasks, or new ones.
        method: how the interval was made, in words.
        value: the mean of the task means.
        low, high: None where the method cannot tell: new tasks from a single one.
        tasks, pairs: what it rests on.
    """

    estimand: Estimand
    method: str
    value: float
    low: float | None
    high: float | None
    tasks: int
    pairs: int

    @property
    def degenerate(self) -> bool:
        """The interval has no width, which is not certainty."""
        return self.low is not None and self.low == self.high

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return asdict(self)


def these_tasks(
    differences: Differences, *, resamples: int = RESAMPLES, seed: int = PAIR_SEED
) -> MacroInterval:
    """The macro average of per-pair differences, for other episodes of these tasks.

    Args:
        differences: task -> episode -> 1, 0 or -1; dSR takes clean minus shifted.
        resamples: of pairs, within tasks (RoboCasa-Shift IV-A).
        seed: base seed.

    Raises:
        ValueError: no task, or a task without a pair.
    """
    means = _task_means(differences)
    replicates = macro_replicates({"": differences}, resamples, seed)[""]
    return MacroInterval(
        Estimand.THESE_TASKS,
        f"percentile, {resamples:,} resamples of pairs within tasks",
        _mean(means),
        *percentile_interval(replicates, CONFIDENCE),
        tasks=len(means),
        pairs=_pairs(differences),
    )


def new_tasks(
    differences: Differences, *, replicates: int = REPLICATES, seed: int = SEED
) -> MacroInterval:
    """The macro average of per-pair differences, for tasks of which these are a sample.

    Up to 20 tasks Student's t on the task means, cut off at -1 and 1; above, the percentiles of
    the mean over resampled tasks.

    Args:
        differences: as for :func:`these_tasks`.
        replicates: resamples of tasks, where they are resampled.
        seed: base seed.

    Raises:
        ValueError: no task, or a task without a pair.
    """
    means = _task_means(differences)
    low: float | None
    high: float | None
    if len(means) > MOST_FOR_T:
        method = f"percentile, {replicates:,} resamples of tasks"
        ordered = np.array([means[task] for task in sorted(means)])
        drawn = task_weights(len(means), replicates, seed) @ ordered / len(means)
        low, high = percentile_interval(drawn, CONFIDENCE)
    else:
        method = "Student's t on task means"
        low, high = _t_interval(means)
    return MacroInterval(
        Estimand.NEW_TASKS,
        method,
        _mean(means),
        low,
        high,
        tasks=len(means),
        pairs=_pairs(differences),
    )


def _t_interval(means: Mapping[TaskName, float]) -> tuple[float | None, float | None]:
    # Only this needs SciPy, which takes a while to load.
    from scipy.special import stdtrit

    count = len(means)
    if count < 2:
        return None, None
    center = _mean(means)
    variance = math.fsum((value - center) ** 2 for value in means.values()) / (count - 1)
    half = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * math.sqrt(variance / count)
    return max(-1.0, center - half), min(1.0, center + half)


def _task_means(differences: Differences) -> dict[TaskName, float]:
    if not differences:
        raise ValueError("no task")
    for task, found in differences.items():
        if not found:
            raise ValueError(f"no pair of task {task[1]!r}")
    return {task: sum(found.values()) / len(found) for task, found in differences.items()}


def _mean(means: Mapping[TaskName, float]) -> float:
    return math.fsum(means.values()) / len(means)


def _pairs(differences: Differences) -> int:
    return sum(len(found) for found in differences.values())
