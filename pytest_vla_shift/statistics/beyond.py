"""Beyond the papers, by condition: new tasks, p values read together, the flip floor.

Every one is under a name of its own, and none replaces a published estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_vla_shift.statistics.aggregate import ConditionAggregate
from pytest_vla_shift.statistics.bootstrap import RESAMPLES, Differences
from pytest_vla_shift.statistics.bootstrap import SEED as PAIR_SEED
from pytest_vla_shift.statistics.cluster import REPLICATES, SEED
from pytest_vla_shift.statistics.estimands import MacroInterval, new_tasks
from pytest_vla_shift.statistics.floor import FloorContrast, against_floor
from pytest_vla_shift.statistics.multiple import benjamini_hochberg, holm


@dataclass(frozen=True, slots=True)
class Beyond:
    """One condition.

    Attributes:
        condition, replicate: which.
        new_tasks: the macro dSR for new tasks; None without a pair.
        holm, benjamini_hochberg: adjusted exact McNemar p, over all shifted conditions that were
            read together; None for null and without a pair.
        floor: changed outcomes against those of the null condition; None without one.
    """

    condition: str
    replicate: int
    new_tasks: MacroInterval | None
    holm: float | None
    benjamini_hochberg: float | None
    floor: FloorContrast | None


def beyond(
    rates: Sequence[ConditionAggregate],
    differences: Mapping[str, Differences],
    *,
    resamples: int = RESAMPLES,
    pair_seed: int = PAIR_SEED,
    replicates: int = REPLICATES,
    task_seed: int = SEED,
) -> tuple[Beyond, ...]:
    """What is beyond the papers, in the order of ``rates``.

    Args:
        rates: conditions of one suite and one replicate: they are one family of tests.
        differences: condition -> task -> episode -> clean success minus shifted success.
        resamples, pair_seed: of the bootstrap of pairs within tasks.
        replicates, task_seed: of the bootstrap of tasks.
    """
    family = [
        (item.condition, item.mcnemar)
        for item in rates
        if not item.is_null and item.mcnemar is not None
    ]
    p_values = [p for _, p in family]
    adjusted = dict(
        zip(
            (name for name, _ in family),
            zip(holm(p_values), benjamini_hochberg(p_values), strict=True),
            strict=True,
        )
    )
    null = next((differences[item.condition] for item in rates if item.is_null), None)
    out: list[Beyond] = []
    for item in rates:
        found = differences[item.condition]
        p = adjusted.get(item.condition)
        out.append(
            Beyond(
                condition=item.condition,
                replicate=item.replicate,
                new_tasks=new_tasks(found, replicates=replicates, seed=task_seed)
                if found
                else None,
                holm=p[0] if p else None,
                benjamini_hochberg=p[1] if p else None,
                floor=against_floor(
                    found,
                    null,
                    resamples=resamples,
                    pair_seed=pair_seed,
                    replicates=replicates,
                    task_seed=task_seed,
                )
                if null is not None and not item.is_null
                else None,
            )
        )
    return tuple(out)
