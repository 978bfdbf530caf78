"""The nominal pass: the policy on every released initial state, with nothing shifted.

It is what a checkpoint is compared with its published score by (LIBERO-CTRL 3.6), before anything
is said about its robustness.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.pairs import PlannedPair


@dataclass(frozen=True, slots=True)
class NominalRate:
    """A task suite's, or with an empty name all of them together.

    Attributes:
        task_suite: its name; empty for the sum.
        tasks: with a measured rollout.
        rollouts: measured.
        successes: of those.
        sr: successes over rollouts, as published nominal scores are; None without a rollout.
    """

    task_suite: str
    tasks: int
    rollouts: int
    successes: int
    sr: float | None


@dataclass(frozen=True, slots=True)
class NominalPass:
    """All nominal cells of a suite.

    Attributes:
        planned: cells; ``total.rollouts + errors + missing``.
        errors: with an infrastructure error, in no rate.
        missing: planned and not reported.
        error_kinds: kind -> cells.
        task_suites: by name.
        total: over all of them.
    """

    planned: int
    errors: int
    missing: int
    error_kinds: tuple[tuple[str, int], ...]
    task_suites: tuple[NominalRate, ...]
    total: NominalRate


def nominal_pass(
    cells: Iterable[PlannedPair], records: Mapping[str, RolloutRecord]
) -> NominalPass | None:
    """The nominal pass of one suite's nominal cells; None without such a cell."""
    planned = list(cells)
    if not planned:
        return None
    kinds: Counter[str] = Counter()
    done: defaultdict[str, list[RolloutRecord]] = defaultdict(list)
    missing = 0
    for cell in planned:
        record = records.get(cell.clean_key)
        if record is None:
            missing += 1
        elif record.status == "error":
            kinds[record.error[0] if record.error is not None else "unknown"] += 1
        else:
            done[cell.task_suite].append(record)
    rates = tuple(_rate(name, found) for name, found in sorted(done.items()))
    return NominalPass(
        planned=len(planned),
        errors=kinds.total(),
        missing=missing,
        error_kinds=tuple(sorted(kinds.items())),
        task_suites=rates,
        total=_rate("", [record for found in done.values() for record in found]),
    )


def _rate(name: str, records: list[RolloutRecord]) -> NominalRate:
    successes = sum(bool(record.success) for record in records)
    return NominalRate(
        task_suite=name,
        tasks=len({(record.task_suite, record.task) for record in records}),
        rollouts=len(records),
        successes=successes,
        sr=successes / len(records) if records else None,
    )
