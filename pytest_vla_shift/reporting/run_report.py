"""The end of a run, merged or not, from its plan and its records: aggregates, audit, files."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla_shift import __version__
from pytest_vla_shift.reporting.publish import publish
from pytest_vla_shift.rollouts.manifest import PlannedNode, SessionPlan, kept_plan_path
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.storage import StorageError
from pytest_vla_shift.statistics.integrity import IntegrityReport
from pytest_vla_shift.statistics.pairs import planned_pairs
from pytest_vla_shift.statistics.report import RunFacts, RunReport, build_report
from pytest_vla_shift.statistics.run_integrity import audit_run


@dataclass(slots=True)
class Reported:
    """What was made of a run.

    Attributes:
        report: the aggregates.
        integrity: the audit; None if it could not be made.
        unreported: planned nodes without an answer.
        troubles: what went wrong while all this was made, a text each.
    """

    report: RunReport
    integrity: IntegrityReport | None = None
    unreported: Sequence[PlannedNode] = ()
    troubles: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every planned node has its answer, and nothing is wrong with one."""
        sound = self.integrity is not None and self.integrity.passed
        return sound and not self.unreported and not self.troubles

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """What goes wrong at the end must not take the table away: it is told below it."""
        try:
            yield
        except StorageError as error:
            self.troubles.append(f"{what}: {error}")
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-1:])
            self.troubles.append(f"{what} raised {type(error).__name__}: {error}\n{where}")


def report_run(
    directory: Path | None,
    allure_directory: Path | None,
    plan: SessionPlan,
    records: Mapping[str, RolloutRecord],
    facts: RunFacts,
    unreported: Callable[[RunReport], Sequence[PlannedNode]],
    aggregated: Callable[[RunReport], None] = lambda _: None,
) -> Reported:
    """Compute the aggregates, audit the rollouts and write both.

    Args:
        directory: the run's, where the summary and the audit go; None writes nothing.
        allure_directory: the folder of Allure results; None writes none.
        plan: what was to be run.
        records: key -> record.
        facts: see :func:`run_facts`.
        unreported: the planned nodes without an answer; in Allure they are broken.
        aggregated: called with the report before anything is written.

    Raises:
        ValueError: the plan contradicts itself or the records.
    """
    report = build_report(facts, planned_pairs(plan.nodes), records)
    made = Reported(report, unreported=unreported(report))
    with made.noting("the integrity audit"):
        made.integrity = audit_run(plan, records, kept_plan_path(Path()).name)
    with made.noting("a pytest_vla_aggregate hook"):
        aggregated(report)
    if directory is None:
        return made
    with made.noting("writing the summary and the Allure results"):
        publish(directory, allure_directory, report, made.unreported, made.integrity)
    return made


def run_facts(name: str, plan: SessionPlan, notes: Sequence[str]) -> RunFacts:
    """What a report says of a run apart from its rollouts.

    Args:
        name: the run's.
        plan: of it.
        notes: what is to be known besides; that the plan is a selection is told here.
    """
    return RunFacts(
        run=name,
        policy=str(plan.policy["name"]),
        policy_revision=str(plan.policy["revision"]),
        privileged=bool(plan.policy["privileged"]),
        seeded=bool(plan.policy["seeded"]),
        seedable=bool(plan.policy.get("seedable", True)),
        checkpoint=str(plan.policy.get("checkpoint", "")),
        versions={"pytest-vla-shift": __version__, **plan.versions},
        protocols=plan.protocols,
        notes=(*_selection_notes(plan), *_weights_notes(plan), *notes),
    )


def _weights_notes(plan: SessionPlan) -> Iterator[str]:
    """Two checkpoints behind one server would be mixed by a resumed run, and compared as one."""
    if plan.policy.get("unidentified") and not plan.policy.get("checkpoint"):
        yield (
            "The server does not say which weights it serves, and no --vla-checkpoint names them:"
            " records of another checkpoint would be taken for this one's."
        )


def _selection_notes(plan: SessionPlan) -> Iterator[str]:
    """Rates over cells chosen by ``-k``, ``--lf``, a cut or a shard must not be read as the
    suite's."""
    selected = plan.selection
    for suite, size in sorted(plan.grid.items()):
        whole = len({node.cell for node in selected if node.suite == suite})
        own = len({node.cell for node in plan.nodes if node.suite == suite})
        if plan.shard is not None and own < whole:
            yield (
                f"shard {plan.shard[0]} of {plan.shard[1]}: {own} of the {whole} selected cells of"
                f" {suite}; all figures are over these alone."
            )
        if whole < size:
            yield (
                f"{whole} of the {size} cells of {suite} were selected; all figures are over these"
                " alone."
            )
