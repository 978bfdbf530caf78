"""Outcomes of configurations under several conditions, and the complete ones as arrays.

A configuration with an error or a missing cell in any condition that is needed leaves the
analysis with all of its cells, and is counted. Nothing is imputed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.statistics.bootstrap import TaskName

if TYPE_CHECKING:
    from numpy.typing import NDArray

Outcome = bool | str
"""Success or failure; or, as a text, the kind of the infrastructure error that took its place."""

MISSING = "missing"
"""The reason of a cell that nobody reported, beside the kinds of infrastructure errors."""

Place = tuple[str, str, int]
"""Task suite, task and configuration (episode)."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What configurations came to under the conditions of one level.

    Attributes:
        tasks: task -> configuration -> condition -> outcome. Conditions are called after their
            axis, the compound ``simultaneous`` or ``camera+lighting``, the clean one ``clean``. A
            configuration of the plan that nobody reported is there with an empty table.
    """

    tasks: Mapping[TaskName, Mapping[int, Mapping[str, Outcome]]]

    @classmethod
    def of(cls, cells: Iterable[tuple[TaskName, int, str, Outcome]]) -> Outcomes:
        """From (task, configuration, condition, outcome), in any order.

        Raises:
            ValueError: a cell is there twice.
        """
        tasks: dict[TaskName, dict[int, dict[str, Outcome]]] = {}
        for task, configuration, condition, outcome in cells:
            found = tasks.setdefault(task, {}).setdefault(configuration, {})
            if condition in found:
                raise ValueError(f"two outcomes of {task[1]} e{configuration:02} {condition}")
            found[condition] = outcome
        return cls(tasks)

    @property
    def configurations(self) -> int:
        """How many there are, complete or not."""
        return sum(len(found) for found in self.tasks.values())


@dataclass(frozen=True, slots=True)
class Dropped:
    """A configuration that left the analysis, and why: kinds of errors, or ``missing``."""

    place: Place
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Complete configurations as arrays, in sorted order.

    Attributes:
        places: (N) which configurations.
        members: (N,) the place of each one's task among all tasks.
        y: (N, A + 1) outcomes, 0.0 or 1.0: the axes in order, then the compound.
        tasks: all tasks, those without a complete configuration included: they stay in the
            resampling, so that every condition over the same tasks shares its weights.
        dropped: the incomplete configurations.
    """

    places: tuple[Place, ...]
    members: NDArray[np.intp]
    y: NDArray[np.float64]
    tasks: tuple[TaskName, ...]
    dropped: tuple[Dropped, ...]

    def under(
        self, outcomes: Outcomes, condition: str
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """One more condition of the same configurations.

        Returns:
            (N,) outcomes, 0.0 where there is none, and (N,) whether there is one.
        """
        cells = [outcomes.tasks[s, t][x].get(condition, MISSING) for s, t, x in self.places]
        known = np.array([not isinstance(cell, str) for cell in cells], dtype=bool)
        y = [0.0 if isinstance(cell, str) else float(cell) for cell in cells]
        return _binary(np.array(y)), known


def complete_cases(outcomes: Outcomes, conditions: Sequence[str]) -> Matrix:
    """The configurations that have an outcome under every one of ``conditions``.

    Raises:
        ValueError: an outcome is neither true nor false nor a text.
    """
    tasks = tuple(sorted(outcomes.tasks))
    places: list[Place] = []
    members: list[int] = []
    rows: list[list[Outcome]] = []
    dropped: list[Dropped] = []
    for position, task in enumerate(tasks):
        for configuration, found in sorted(outcomes.tasks[task].items()):
            row = [found.get(condition, MISSING) for condition in conditions]
            if str in map(type, row):
                reasons = {outcome for outcome in row if isinstance(outcome, str)}
                dropped.append(Dropped((*task, configuration), tuple(sorted(reasons))))
            else:
                places.append((*task, configuration))
                members.append(position)
                rows.append(row)
    y = np.array(rows, dtype=np.float64).reshape(len(rows), len(conditions))
    return Matrix(
        tuple(places), np.array(members, dtype=np.intp), _binary(y), tasks, tuple(dropped)
    )


def _binary(y: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("an outcome is neither a success nor a failure nor the kind of an error")
    return y
