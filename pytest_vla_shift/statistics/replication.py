"""The same configurations with a second policy seed (LIBERO-CTRL 3.5 and 4.3).

The paper recomputes its rates from an independent evaluation and compares the two by eye. Here
the change of every rate has an interval as well: both evaluations are over the same
configurations and share the resampled tasks, so that the change is paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.conditions import SIMULTANEOUS
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.cluster import (
    REPLICATES,
    SEED,
    Estimate,
    estimates,
    ratio,
    task_sums,
)
from pytest_vla_shift.statistics.compound import (
    RATES,
    CompoundRates,
    check_compound,
    compound_sums,
    rates,
    statistics,
    transitions,
)
from pytest_vla_shift.statistics.outcomes import (
    Dropped,
    Matrix,
    Outcome,
    Outcomes,
    complete_cases,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AGAIN = "\nagain"
"""Marks a condition of the second evaluation; no condition's name has a line break."""


@dataclass(frozen=True, slots=True)
class Change:
    """One rate in both evaluations.

    Attributes:
        rate: a field of :class:`CompoundRates`; ``s_camera`` for a single axis.
        first, second: its values; None where it is not defined.
        change: second - first.
    """

    rate: str
    first: float | None
    second: float | None
    change: Estimate


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often both evaluations of a configuration came to the same outcome.

    Attributes:
        condition: an axis, or the compound.
        same: configurations with the same outcome.
        share: of all.
    """

    condition: str
    same: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class ReplicationReport:
    """Two evaluations of a compound at one level.

    Attributes:
        axes, simultaneous: as in :class:`~.compound.CompoundReport`.
        planned: configurations of either evaluation.
        complete: those that are complete in both; everything here is over them.
        dropped, dropped_kinds: the others.
        first, second: the rates of each evaluation.
        changes: of every rate, the compound's first, then those of single axes.
        agreement: by condition, the axes first.
        emergent_both, compensated_both: configurations that are so in both; compare with the b
            and c of either.
        replicates, seed: of the bootstrap.
    """

    axes: tuple[str, ...]
    simultaneous: str
    planned: int
    complete: int
    dropped: tuple[Dropped, ...]
    dropped_kinds: tuple[tuple[str, int], ...]
    first: CompoundRates
    second: CompoundRates
    changes: tuple[Change, ...]
    agreement: tuple[Agreement, ...]
    emergent_both: int
    compensated_both: int
    replicates: int
    seed: int

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return asdict(self)


def replication(
    first: Outcomes,
    second: Outcomes,
    axes: Sequence[str],
    simultaneous: str = SIMULTANEOUS,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> ReplicationReport:
    """What changes when the policy is given another seed, and nothing else is.

    Args:
        first, second: outcomes of one policy and level, each with its own policy seed.
        axes: the axes that the compound shifts.
        simultaneous: the compound's name.
        replicates: bootstrap replicates.
        seed: base seed of the bootstrap.

    Raises:
        ValueError: fewer than two axes, one twice, the compound among them, or no task.
    """
    check_compound(axes, simultaneous)
    both = _merged(first, second)
    if not both.tasks:
        raise ValueError("no task")
    conditions = [*axes, simultaneous]
    found = complete_cases(both, [*conditions, *(name + _AGAIN for name in conditions)])
    one = replace(found, y=found.y[:, : len(conditions)])
    two = replace(found, y=found.y[:, len(conditions) :])
    everyone = np.ones(len(found.places), dtype=bool)
    first_rates = rates(one, axes, everyone, replicates, seed)
    second_rates = rates(two, axes, everyone, replicates, seed)
    was, now = transitions(one.y), transitions(two.y)
    kinds = Counter(kind for item in found.dropped for kind in item.kinds)
    return ReplicationReport(
        axes=tuple(axes),
        simultaneous=simultaneous,
        planned=both.configurations,
        complete=len(found.places),
        dropped=found.dropped,
        dropped_kinds=tuple(sorted(kinds.items())),
        first=first_rates,
        second=second_rates,
        changes=_changes(one, two, first_rates, second_rates, replicates, seed),
        agreement=_agreement(one, two, conditions, replicates, seed),
        emergent_both=int(np.sum(was.emergent & now.emergent)),
        compensated_both=int(np.sum(was.compensated & now.compensated)),
        replicates=replicates,
        seed=seed,
    )


def _changes(
    one: Matrix,
    two: Matrix,
    first: CompoundRates,
    second: CompoundRates,
    replicates: int,
    seed: int,
) -> tuple[Change, ...]:
    axes = [single.axis for single in first.singles]
    everyone = np.ones(len(one.places), dtype=bool)
    before, after = compound_sums(one, everyone), compound_sums(two, everyone)
    old, new = (statistics(sums.total, len(axes)) for sums in (before, after))
    drawn_old, drawn_new = (
        statistics(sums.resampled(replicates, seed), len(axes)) for sums in (before, after)
    )
    changed = estimates(
        {name: new[name] - old[name] for name in old},
        {name: drawn_new[name] - drawn_old[name] for name in old},
        first.tasks,
    )
    values: dict[str, tuple[Estimate, Estimate, Estimate]] = {
        name: (getattr(first, name), getattr(second, name), changed[name]) for name in RATES
    }
    for k, (a, b) in enumerate(zip(first.singles, second.singles, strict=True)):
        values[f"s_{a.axis}"] = (a.s, b.s, changed[f"s_{k}"])
    return tuple(Change(name, a.value, b.value, c) for name, (a, b, c) in values.items())


def _agreement(
    one: Matrix, two: Matrix, conditions: Sequence[str], replicates: int, seed: int
) -> tuple[Agreement, ...]:
    same = (one.y == two.y).astype(np.float64)
    columns = np.column_stack([np.ones(len(same)), same])
    sums = task_sums(one.members, columns, len(one.tasks))

    def shares(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        found = ratio(sums[:, 1:], sums[:, :1])
        return {condition: found[:, k] for k, condition in enumerate(conditions)}

    tasks = int(np.count_nonzero(sums.per_task[:, 0]))
    share = estimates(shares(sums.total), shares(sums.resampled(replicates, seed)), tasks)
    return tuple(
        Agreement(condition, int(sums.total[0, 1 + k]), share[condition])
        for k, condition in enumerate(conditions)
    )


def _merged(first: Outcomes, second: Outcomes) -> Outcomes:
    """One table with the conditions of both; a configuration of only one lacks the others."""
    tasks: dict[TaskName, dict[int, dict[str, Outcome]]] = {}
    for outcomes, mark in ((first, ""), (second, _AGAIN)):
        for task, rows in outcomes.tasks.items():
            for configuration, found in rows.items():
                row = tasks.setdefault(task, {}).setdefault(configuration, {})
                row |= {name + mark: outcome for name, outcome in found.items()}
    return Outcomes(tasks)
