"""The integrity audit of a run, from the plan that it keeps and its records."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.suite import parse_suite
from pytest_vla_shift.rollouts.manifest import SessionPlan
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.integrity import IntegrityReport, audit_integrity
from pytest_vla_shift.statistics.pairs import planned_pairs


def audit_run(
    plan: SessionPlan, records: Mapping[str, RolloutRecord], source: str
) -> IntegrityReport:
    """Audit every rollout of ``plan``.

    Args:
        plan: of the run's latest session.
        records: key -> record.
        source: what messages call the plan.

    Raises:
        UsageError: a suite of the plan is read as another protocol than it was then.
    """
    suites = {name: parse_suite(text, f"{source}: {name}") for name, text in plan.suites.items()}
    changed = [n for n, suite in suites.items() if suite.protocol_digest != plan.protocols.get(n)]
    if changed:
        raise UsageError(
            f"{source}: suite {changed[0]!r} is now read as another protocol; audit the run with"
            " the version that made it"
        )
    cells = planned_pairs(plan.nodes)
    return audit_integrity(cells, records, suites, selection=len(cells) < sum(plan.grid.values()))
