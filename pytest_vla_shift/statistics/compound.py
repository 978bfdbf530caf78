"""LIBERO-CTRL's statistics of a compound shift at one level (sections 3.3 to 3.5 and 4).

For configurations x = 1 ... N, Y_a(x) is the outcome with axis a shifted alone and Y_sim(x) the
one with all of them shifted at once, by the same values. Rates are over configurations, not macro
averages over tasks: in the paper all tasks have ten, so that both agree there.

Configurations that are not complete leave, and are counted (see :mod:`.outcomes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.conditions import SIMULTANEOUS
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.cluster import (
    REPLICATES,
    SEED,
    Estimate,
    Sums,
    estimates,
    ratio,
    task_sums,
)
from pytest_vla_shift.statistics.outcomes import (
    Dropped,
    Matrix,
    Outcomes,
    Place,
    complete_cases,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BOUNDARY = 20
"""One twentieth: within 5 points of 0 or 1."""


@dataclass(frozen=True, slots=True)
class Single:
    """One axis shifted alone: its successes and S_a."""

    axis: str
    successes: int
    s: Estimate


@dataclass(frozen=True, slots=True)
class CompoundRates:
    """Equations 1 to 3 over one set of configurations.

    Attributes:
        n: configurations, N.
        tasks: tasks that have one of them.
        singles: S_a, in the order of the axes.
        conjunction: configurations that succeed with every axis alone.
        simultaneous: configurations that succeed with all axes at once.
        failures: ``n - simultaneous``.
        b: emergent failures: every axis alone succeeds, all at once fail.
        c: compensated successes: some axis alone fails, all at once succeed.
        s_indep: S_indep, the product of all S_a; in a replicate, of the replicate's S_a.
        s_conj: S_conj, ``conjunction / n``.
        s_sim: S_sim.
        d: D = S_conj - S_indep.
        i: I = S_sim - S_conj = R_c - R_e.
        r_e: R_e = b / N.
        r_c: R_c = c / N.
        r_d: R_d = R_e + R_c.
        emergent_share: b / failures, the share of simultaneous failures that are emergent.
        near_boundary: S_conj or S_sim is within 5 points of 0 or 1, so that few further
            transitions of one direction are possible: small rates are no evidence there.
    """

    n: int
    tasks: int
    singles: tuple[Single, ...]
    conjunction: int
    simultaneous: int
    failures: int
    b: int
    c: int
    s_indep: Estimate
    s_conj: Estimate
    s_sim: Estimate
    d: Estimate
    i: Estimate
    r_e: Estimate
    r_c: Estimate
    r_d: Estimate
    emergent_share: Estimate
    near_boundary: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """Success lost against the clean reference.

    The paper's "clean-relative loss in success rate" has no formula: both readings are here.

    Attributes:
        condition: an axis, or the compound.
        points: S_clean - S.
        relative: 1 - S / S_clean, the share of clean success that is lost.
    """

    condition: str
    points: Estimate
    relative: Estimate


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses against one reference.

    Attributes:
        reference: ``clean`` (the same configurations) or ``nominal`` (the nominal pass).
        successes, rollouts: of the reference.
        s: its success rate.
        n: configurations whose shifted rates are compared with it.
        conditions: the axes in order, then the compound.
    """

    reference: str
    successes: int
    rollouts: int
    s: Estimate
    n: int
    conditions: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class CompoundReport:
    """A compound of some axes at one level.

    Attributes:
        axes: the axes, in the order given.
        simultaneous: the compound's name.
        planned: configurations; ``complete + len(dropped)``.
        complete: those that every rate is over.
        dropped: the others, in sorted order.
        dropped_kinds: reason -> configurations that met it. A configuration can meet two.
        all: the rates over complete configurations.
        clean_known: complete configurations with a clean outcome; None without a clean arm.
        nominal: the rates over those that succeed without any shift; None without a clean arm.
        losses: None without a clean arm or a nominal pass.
        emergent, compensated: the configurations behind b and c, in sorted order.
        replicates, seed: of the bootstrap.
    """

    axes: tuple[str, ...]
    simultaneous: str
    planned: int
    complete: int
    dropped: tuple[Dropped, ...]
    dropped_kinds: tuple[tuple[str, int], ...]
    all: CompoundRates
    clean_known: int | None
    nominal: CompoundRates | None
    losses: Losses | None
    emergent: tuple[Place, ...]
    compensated: tuple[Place, ...]
    replicates: int
    seed: int

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return asdict(self)


def compound(
    outcomes: Outcomes,
    axes: Sequence[str],
    simultaneous: str = SIMULTANEOUS,
    *,
    clean: str | None = None,
    nominal: Mapping[TaskName, tuple[int, int]] | None = None,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> CompoundReport:
    """Every statistic of a compound at one level, each with its interval.

    Args:
        outcomes: of one level and one policy.
        axes: the axes that the compound shifts: all six, or any subset.
        simultaneous: the compound's name in ``outcomes``.
        clean: the clean condition's name in ``outcomes``, if it was run on these configurations.
            It decides the restriction to nominally successful ones. An error in it costs a
            configuration only what needs it.
        nominal: task -> (successes, rollouts) of a nominal pass over more initial states: the
            reference of the losses instead of ``clean``. Its tasks are resampled with the others.
        replicates: bootstrap replicates.
        seed: base seed of the bootstrap.

    Raises:
        ValueError: fewer than two axes, one twice, the compound among them, no task at all, or a
            nominal pass over other tasks.
    """
    check_compound(axes, simultaneous)
    if not outcomes.tasks:
        raise ValueError("no task")
    found = complete_cases(outcomes, [*axes, simultaneous])
    known = np.ones(len(found.places), dtype=bool)
    was_clean = np.zeros(len(found.places))
    if clean is not None:
        was_clean, known = found.under(outcomes, clean)
    moved = transitions(found.y)
    kinds = Counter(kind for item in found.dropped for kind in item.kinds)
    everyone = np.ones(len(found.places), dtype=bool)
    restricted = rates(found, axes, was_clean > 0, replicates, seed) if clean is not None else None
    losses = None
    if nominal is not None:
        reference = _nominal_sums(found.tasks, nominal)
        losses = _losses(
            "nominal", found, everyone, reference, axes, simultaneous, replicates, seed
        )
    elif clean is not None:
        counted = np.stack([was_clean, np.ones(len(was_clean))], axis=1) * known[:, None]
        reference = task_sums(found.members, counted, len(found.tasks))
        losses = _losses("clean", found, known, reference, axes, simultaneous, replicates, seed)
    return CompoundReport(
        axes=tuple(axes),
        simultaneous=simultaneous,
        planned=outcomes.configurations,
        complete=len(found.places),
        dropped=found.dropped,
        dropped_kinds=tuple(sorted(kinds.items())),
        all=rates(found, axes, everyone, replicates, seed),
        clean_known=int(known.sum()) if clean is not None else None,
        nominal=restricted,
        losses=losses,
        emergent=tuple(found.places[k] for k in np.flatnonzero(moved.emergent)),
        compensated=tuple(found.places[k] for k in np.flatnonzero(moved.compensated)),
        replicates=replicates,
        seed=seed,
    )


def check_compound(axes: Sequence[str], simultaneous: str) -> None:
    """Raise ValueError for fewer than two axes, one twice, or the compound among them."""
    if len(set(axes)) != len(axes) or len(axes) < 2 or simultaneous in axes:
        raise ValueError(f"no compound: {simultaneous!r} of {list(axes)}")


def rates(
    found: Matrix,
    axes: Sequence[str],
    chosen: NDArray[np.bool_],
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> CompoundRates:
    """The rates over the configurations that are ``chosen``; tasks are resampled before that."""
    sums = compound_sums(found, chosen)
    total = sums.total[0]
    tasks = int(np.count_nonzero(sums.per_task[:, 0]))
    count = len(axes)
    value = statistics(sums.total, count)
    estimate = estimates(value, statistics(sums.resampled(replicates, seed), count), tasks)
    n, conj, sim, b, c = (int(total[k]) for k in (0, -4, -3, -2, -1))
    return CompoundRates(
        n=n,
        tasks=tasks,
        singles=tuple(
            Single(axis, int(total[1 + k]), estimate[f"s_{k}"]) for k, axis in enumerate(axes)
        ),
        conjunction=conj,
        simultaneous=sim,
        failures=n - sim,
        b=b,
        c=c,
        **{name: estimate[name] for name in RATES},
        near_boundary=n > 0 and any(_BOUNDARY * min(k, n - k) <= n for k in (conj, sim)),
    )


RATES = ("s_indep", "s_conj", "s_sim", "d", "i", "r_e", "r_c", "r_d", "emergent_share")
"""Names of the estimates of :class:`CompoundRates`, but for those of single axes."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """(N,) each: every axis alone succeeds; and with what happens with all of them at once."""

    conjunction: NDArray[np.bool_]
    emergent: NDArray[np.bool_]
    compensated: NDArray[np.bool_]


def transitions(y: NDArray[np.float64]) -> Transitions:
    """Emergent failures and compensated successes of (N, A + 1) outcomes (section 3.4)."""
    conjunction: NDArray[np.bool_] = y[:, :-1].min(axis=1) > 0
    simultaneous = y[:, -1] > 0
    return Transitions(conjunction, conjunction & ~simultaneous, ~conjunction & simultaneous)


def compound_sums(found: Matrix, chosen: NDArray[np.bool_]) -> Sums:
    """(T, A + 5) by task: N, successes of each axis, conjunction, simultaneous, b, c."""
    moved = transitions(found.y)
    columns = np.column_stack(
        [
            np.ones(len(found.y)),
            found.y[:, :-1],
            moved.conjunction,
            found.y[:, -1],
            moved.emergent,
            moved.compensated,
        ]
    )
    return task_sums(found.members, columns * chosen[:, None], len(found.tasks))


def statistics(sums: NDArray[np.float64], axes: int) -> dict[str, NDArray[np.float64]]:
    """Equations 1 to 3 from sums: for the estimate and for each replicate alike.

    Args:
        sums: (R, A + 5), as :func:`compound_sums` orders them.
        axes: A.

    Returns:
        Name -> (R,): ``s_0`` ... for single axes, and :data:`RATES`.
    """
    n, conj, sim, b, c = (sums[:, k] for k in (0, -4, -3, -2, -1))
    single = ratio(sums[:, 1 : 1 + axes], n[:, None])
    out = {f"s_{k}": single[:, k] for k in range(axes)}
    out["s_indep"] = single.prod(axis=1)
    out["s_conj"] = ratio(conj, n)
    out["s_sim"] = ratio(sim, n)
    out["d"] = out["s_conj"] - out["s_indep"]
    out["i"] = ratio(sim - conj, n)
    out["r_e"] = ratio(b, n)
    out["r_c"] = ratio(c, n)
    out["r_d"] = ratio(b + c, n)
    out["emergent_share"] = ratio(b, n - sim)
    return out


def _nominal_sums(tasks: Sequence[TaskName], nominal: Mapping[TaskName, tuple[int, int]]) -> Sums:
    if set(nominal) != set(tasks):
        odd = sorted(set(nominal) ^ set(tasks))[0]
        raise ValueError(f"the nominal pass is over other tasks: {odd[1]!r}")
    return Sums(np.array([nominal[task] for task in tasks], dtype=np.float64))


def _losses(
    name: str,
    found: Matrix,
    chosen: NDArray[np.bool_],
    reference: Sums,
    axes: Sequence[str],
    simultaneous: str,
    replicates: int,
    seed: int,
) -> Losses:
    """Losses of ``chosen`` configurations against ``reference``: (T, 2) successes, rollouts."""
    columns = np.column_stack([np.ones(len(found.y)), found.y]) * chosen[:, None]
    shifted = task_sums(found.members, columns, len(found.tasks)).per_task
    sums = Sums(np.column_stack([reference.per_task, shifted]))

    def both(sums: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        s = ratio(sums[:, 0], sums[:, 1])
        after = ratio(sums[:, 3:], sums[:, 2:3])
        out = {"s": s}
        for k in range(after.shape[1]):
            out[f"points_{k}"] = s - after[:, k]
            out[f"relative_{k}"] = 1 - ratio(after[:, k], s)
        return out

    tasks = int(np.count_nonzero(sums.per_task[:, 2]))
    estimate = estimates(both(sums.total), both(sums.resampled(replicates, seed)), tasks)
    return Losses(
        reference=name,
        successes=int(sums.total[0, 0]),
        rollouts=int(sums.total[0, 1]),
        s=estimate["s"],
        n=int(sums.total[0, 2]),
        conditions=tuple(
            Loss(condition, estimate[f"points_{k}"], estimate[f"relative_{k}"])
            for k, condition in enumerate([*axes, simultaneous])
        ),
    )
