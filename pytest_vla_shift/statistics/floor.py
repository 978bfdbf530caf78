"""Sensitivity to a shift, held against the flip floor instead of against zero.

The null condition runs the clean one again. Outcomes that change there are the floor: what changes
when nothing is shifted. The excess is P(changed | shift) - P(changed | null), paired over the
episodes that were measured in both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.bootstrap import RESAMPLES, Differences, TaskName
from pytest_vla_shift.statistics.bootstrap import SEED as PAIR_SEED
from pytest_vla_shift.statistics.cluster import REPLICATES, SEED
from pytest_vla_shift.statistics.estimands import MacroInterval, new_tasks, these_tasks
from pytest_vla_shift.statistics.exact import mcnemar_p, tango_interval


@dataclass(frozen=True, slots=True)
class FloorContrast:
    """How much more changes under a shift than when nothing is shifted.

    Attributes:
        pairs: episodes with an outcome in all three arms: clean, null and shifted.
        changed: of those, changed under the shift.
        floor: of those, changed under null.
        only_shift: changed under the shift and not under null.
        only_null: changed under null and not under the shift.
        these_tasks: macro excess, for other episodes of these tasks; None without a pair.
        new_tasks: macro excess, for new tasks; None without a pair.
        tango: Tango's interval of the pooled excess; None without a pair.
        mcnemar: exact p of ``only_shift`` against ``only_null``; None without a pair.
    """

    pairs: int
    changed: int
    floor: int
    only_shift: int
    only_null: int
    these_tasks: MacroInterval | None
    new_tasks: MacroInterval | None
    tango: tuple[float, float] | None
    mcnemar: float | None

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return asdict(self)


def against_floor(
    shifted: Differences,
    null: Differences,
    *,
    resamples: int = RESAMPLES,
    pair_seed: int = PAIR_SEED,
    replicates: int = REPLICATES,
    task_seed: int = SEED,
) -> FloorContrast:
    """Changed outcomes of a shifted condition against those of the null condition.

    Args:
        shifted, null: task -> episode -> clean success minus success under the condition.
        resamples, pair_seed: of the bootstrap of pairs within tasks.
        replicates, task_seed: of the bootstrap of tasks.
    """
    excess: dict[TaskName, dict[int, int]] = {}
    changed = floor = only_shift = only_null = 0
    for task in sorted(set(shifted) & set(null)):
        for episode in sorted(set(shifted[task]) & set(null[task])):
            moved, flipped = shifted[task][episode] != 0, null[task][episode] != 0
            excess.setdefault(task, {})[episode] = int(moved) - int(flipped)
            changed += moved
            floor += flipped
            only_shift += moved and not flipped
            only_null += flipped and not moved
    pairs = sum(len(found) for found in excess.values())
    return FloorContrast(
        pairs=pairs,
        changed=changed,
        floor=floor,
        only_shift=only_shift,
        only_null=only_null,
        these_tasks=these_tasks(excess, resamples=resamples, seed=pair_seed) if pairs else None,
        new_tasks=new_tasks(excess, replicates=replicates, seed=task_seed) if pairs else None,
        tango=tango_interval(only_shift, only_null, pairs) if pairs else None,
        mcnemar=mcnemar_p(only_shift, only_null) if pairs else None,
    )
