"""``summary.md`` for people and ``summary.json`` for programs, from one report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_vla_shift.reporting import beyond, compounds, numbers, replications
from pytest_vla_shift.reporting.markup import code, escape, table
from pytest_vla_shift.reporting.tables import missing_line, nominal_line
from pytest_vla_shift.rollouts.storage import writing
from pytest_vla_shift.statistics.aggregate import ConditionAggregate
from pytest_vla_shift.statistics.report import RunReport, SuiteReport


def write_summary(directory: Path, report: RunReport) -> tuple[Path, Path]:
    """Write both files, each replaced in one step, so that a reader never sees half of one.

    Args:
        directory: the run's directory; made if it is not there.
        report: the run.

    Returns:
        The paths of ``summary.md`` and ``summary.json``.

    Raises:
        StorageError: one of them cannot be written; it is named.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
    paths = directory / "summary.md", directory / "summary.json"
    for path, content in zip(paths, (markdown(report), text + "\n"), strict=True):
        with writing(path):
            replace_file(path, content)
    return paths


def replace_file(path: Path, text: str) -> Path:
    """Write ``text`` in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def markdown(report: RunReport) -> str:
    """The report as GitHub-flavoured Markdown."""
    facts = report.facts
    kind = f"{'privileged, ' if facts.privileged else ''}{facts.seeding}"
    weights = f", checkpoint {code(facts.checkpoint)}" if facts.checkpoint else ""
    parts = [
        f"# Robustness of {escape(facts.policy)}",
        "\n".join(
            (
                f"- run: {escape(facts.run)}",
                f"- policy: {escape(facts.policy)} ({kind}),"
                f" revision {code(facts.policy_revision)}{weights}",
                f"- cells: {report.planned} planned, {report.reported} reported,"
                f" {len(report.missing)} missing, {report.errors} with an infrastructure error",
                f"- intervals: 95 %, percentile, {report.resamples:,} resamples of pairs within"
                f" tasks, seed {report.seed}",
            )
        ),
    ]
    if report.notes:
        parts.append("\n".join(f"> - {escape(note)}" for note in report.notes))
    for suite in report.suites:
        parts.extend(_suite(suite))
    if facts.versions:
        parts.append("## Versions")
        parts.append(table(("distribution", "version"), sorted(facts.versions.items())))
    return "\n\n".join(parts) + "\n"


def _suite(suite: SuiteReport) -> Iterable[str]:
    yield f"## {escape(suite.suite)}"
    clean = suite.clean
    protocol = f"protocol {code(suite.protocol)}; " if suite.protocol else ""
    yield (
        f"{protocol}{numbers.plural(clean.rollouts, 'clean rollout')} served"
        f" {numbers.plural(clean.serves, 'pair')}; clean success rate {numbers.rate(clean.sr)}."
    )
    if suite.nominal is not None:
        yield escape(nominal_line(suite.nominal))
    if suite.missing:
        yield f"**{escape(missing_line(suite))}**"
    yield condition_table(suite)
    yield (
        f"{_broken(suite.conditions)}"
        "Success rates and ΔSR = SR clean - SR shifted weigh tasks alike; a positive ΔSR is a"
        " degradation. Over S→F pairs: mean progress, g1 (the share that stopped before the first"
        " milestone), and pairs with all milestones latched and yet no official success. The null"
        " row is the clean condition run again: the flip floor. Floor: of the same episodes, pairs"
        " that changed in it, when nothing was shifted. F→S is a changed outcome, not an"
        " improvement."
        + (
            " \\* No width in the bootstrap: Tango's score interval of the pooled difference."
            if any(item.degenerate for item in suite.conditions)
            else ""
        )
    )
    if suite.errors:
        yield (
            f"{numbers.plural(suite.errors, 'pair')} with an infrastructure error, in no rate:"
            f" {escape(numbers.kinds(suite.error_kinds))}."
        )
    shifted = sum(item.disagreements for item in suite.conditions)
    yield (
        "Milestones and official success disagree in"
        f" {numbers.plural(clean.disagreements, 'clean rollout')} and in the shifted arm of"
        f" {numbers.plural(shifted, 'pair')}."
    )
    yield "### ΔSR by task"
    yield task_table(suite.conditions)
    yield from compounds.markdown(suite.compounds)
    yield from replications.markdown(suite.replications)
    yield from beyond.markdown(suite)
    incomplete = incomplete_table(suite.conditions)
    if incomplete:
        yield "### First incomplete milestone of S→F pairs"
        yield incomplete


def _broken(conditions: Sequence[ConditionAggregate]) -> str:
    """S>F over all shifted conditions, as RoboCasa-Shift counts its cohort."""
    shifted = [item for item in conditions if not item.is_null and not item.replicate]
    if not shifted:
        return ""
    total = sum(item.sf for item in shifted)
    return f"{total} S→F over {numbers.plural(len(shifted), 'shifted condition')}. "


def condition_table(suite: SuiteReport) -> str:
    """One row a condition; beside its changed pairs, how many change without a shift."""
    header = (
        *("condition", "pairs", "errors", "SR clean", "SR shifted", "ΔSR [95 %]"),
        *("S→S", "S→F", "F→S", "F→F", "changed", "floor"),
        *("McNemar p", "progress", "g1", "all latched"),
    )
    return table(
        header,
        (
            (
                numbers.label(item),
                str(item.pairs),
                f"{item.errors} (+{item.missing} missing)" if item.missing else str(item.errors),
                numbers.rate(item.sr_clean),
                numbers.rate(item.sr_shifted),
                numbers.degradation(item),
                *(str(n) for n in (item.ss, item.sf, item.fs, item.ff, item.changed)),
                numbers.floor(item, floor),
                numbers.p_value(item.mcnemar),
                numbers.rate(item.depth.progress),
                numbers.percent(item.depth.first_stage),
                str(item.depth.complete) if item.depth.pairs else numbers.NONE,
            )
            for item, floor in zip(suite.conditions, suite.floors, strict=True)
        ),
    )


def task_table(conditions: Sequence[ConditionAggregate]) -> str:
    """Tasks by conditions: ΔSR, a dash where no pair was measured."""
    tasks = sorted({(t.task_suite, t.task) for item in conditions for t in item.tasks})
    found = {
        (t.task_suite, t.task, numbers.label(item)): t.dsr
        for item in conditions
        for t in item.tasks
    }
    names = [numbers.label(item) for item in conditions]
    return table(
        ("task", *names),
        (
            (task, *(numbers.signed(found.get((suite, task, name))) for name in names))
            for suite, task in tasks
        ),
    )


def incomplete_table(conditions: Sequence[ConditionAggregate]) -> str:
    """Where S>F pairs stopped, by condition, task and milestone; empty without such pairs."""
    rows = [
        (
            numbers.label(item),
            cell.task,
            "all complete, no official success"
            if cell.milestone is None
            else cell.milestone + (" (first)" if cell.first else ""),
            str(cell.pairs),
        )
        for item in conditions
        for cell in item.depth.first_incomplete
    ]
    return table(("condition", "task", "first incomplete milestone", "pairs"), rows) if rows else ""
