"""What a reader of a run's numbers must know beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_vla_shift.statistics.aggregate import NULL

if TYPE_CHECKING:
    from pytest_vla_shift.statistics.report import RunFacts, SuiteReport


def notes_of(facts: RunFacts, suites: Sequence[SuiteReport]) -> list[str]:
    """One sentence for each of them, the policy's first."""
    notes: list[str] = []
    if facts.privileged:
        notes.append(
            "The policy is privileged: it is given ground truth, so a shift of what the cameras"
            " see cannot affect it. Rows of visual axes check the machinery, not robustness."
        )
    if not facts.seeded and not facts.seedable:
        notes.append(
            "Policy seed not supported: its server cannot be given a seed, so that no rollout is"
            " repeatable unless the policy is deterministic, and arms differ by its randomness as"
            " well as by the shift. Hold changed outcomes against the flip floor beside them."
        )
    elif not facts.seeded:
        notes.append(
            "Policy seed inert: the policy says that no seed decides its answers. It is"
            " deterministic, or all arms run with whatever randomness it has. If null pairs"
            " changed, it is not deterministic."
        )
    for suite in suites:
        if suite.null is None and suite.conditions:
            notes.append(f"{suite.suite}: no {NULL} condition was run, the flip floor is unknown.")
        for condition in suite.conditions:
            again = f" r{condition.replicate}" if condition.replicate else ""
            where = f"{suite.suite} {condition.condition}{again}"
            if not condition.pairs:
                notes.append(f"{where}: no pair was measured.")
            elif condition.unmeasured_tasks:
                tasks = ", ".join(condition.unmeasured_tasks)
                notes.append(
                    f"{where}: no measured pair of {tasks};"
                    " the macro average is over the other tasks."
                )
    return notes
