"""Whether a packed run is whole and sound: what must hold before it is published."""

from __future__ import annotations

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.results_page import run_report
from pytest_vla_shift.rollouts.packs import Pack
from pytest_vla_shift.statistics.integrity_checks import Kind
from pytest_vla_shift.statistics.report import RunReport
from pytest_vla_shift.statistics.run_integrity import audit_run

TOLERATED = frozenset({Kind.RUNTIME, Kind.MISSING})
"""What the audit may find: an infrastructure error is counted and in no rate, and the shifted arm
of a clean one is not run. A cell that nobody reported is refused by :func:`whole`."""


def whole(pack: Pack, name: str) -> RunReport:
    """The aggregates of a pack in which every planned cell has an answer.

    Args:
        pack: the run.
        name: of it, for its report and for messages.

    Raises:
        UsageError: planned cells have none, nothing was planned, or the records contradict the
            plan.
    """
    report = run_report(name, pack)
    if report.missing or not report.planned:
        named = f", such as {report.missing[0].cell}" if report.missing else ""
        raise UsageError(
            f"{name}: {len(report.missing)} of {report.planned} planned cells have no"
            f" record{named}. Run its command again: what is recorded is found, and the rest is run"
        )
    return report


def check_sound(pack: Pack, name: str) -> None:
    """Refuse a pack in which the audit finds anything but infrastructure errors.

    Only before it is published: a later version may read its protocol as another one.

    Raises:
        UsageError: the first problem is named.
    """
    found = audit_run(pack.plan, pack.records, name)
    wrong = [problem for problem in found.problems if problem.kind not in TOLERATED]
    if wrong:
        first = wrong[0]
        raise UsageError(
            f"{name}: the audit finds {len(wrong)} problems, such as {first.kind} of {first.task}"
            f" e{first.episode:02d} {first.condition}: {first.message}"
        )
