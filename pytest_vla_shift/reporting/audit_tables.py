"""Screening and audits as plain text, 80 columns: a task's name, and its figures under it."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from pytest_vla_shift.protocol.screening import Screening, ScreeningState
from pytest_vla_shift.rollouts.pairing_audit import PairingReport, task_counts
from pytest_vla_shift.rollouts.severity_audit import SeverityRecord, SeverityReport
from pytest_vla_shift.statistics.integrity import IntegrityReport, TaskIntegrity
from pytest_vla_shift.statistics.integrity_checks import Kind

WIDTH = 80
TOLD = 20
"""Problems that are printed; all are in the JSON file."""


def screening_table(rule: Screening, state: ScreeningState) -> str:
    """The paper's Table IV: candidate, successes of the first and of all rollouts, verdict."""
    first, extended = rule.first_rollouts, rule.extended_rollouts
    lines = [f"{'':4}{f'of {first}':>8}{f'of {extended}':>8}  verdict"]
    for number, item in enumerate(state.candidates, start=1):
        if number == 1 or item.batch != state.candidates[number - 2].batch:
            told = "activated" if item.batch < state.activated else "not activated"
            lines.append(f"batch {item.batch + 1}, {told}")
        lines += [f"{number:>2}. {part}" for part in _name(item.candidate, WIDTH - 4)[:1]]
        lines += [f"    {part}" for part in _name(item.candidate, WIDTH - 4)[1:]]
        figures = "".join(f"{'-' if n is None else n:>8}" for n in (item.first, item.extended))
        errors = f" ({item.errors} of {item.rollouts})" if item.errors else ""
        lines.append(f"    {figures}  {item.verdict}{errors}")
    lines += wrap(
        f"{len(state.retained)} retained; the formal suite needs {state.minimum_tasks}."
        f" Retained: at least {rule.retained_at_least} of {extended}. Excluded: at most"
        f" {rule.excluded_at_most} of {first}. Cannot be asked: the policy does not offer it."
    )
    return "\n".join(lines)


def severity_table(report: SeverityReport) -> str:
    """A row a condition: records, those that passed, mean pixel change by camera."""
    rows: defaultdict[str, list[SeverityRecord]] = defaultdict(list)
    for record in report.records:
        rows[record.condition].append(record)
    cameras = sorted({name for record in report.records for name in record.pixel_change})
    room = (WIDTH - 38) // max(1, len(cameras))
    head = "".join(f"{_cut(camera, room - 1):>{room}}" for camera in cameras)
    passed = sum(record.passed for record in report.records)
    lines = [
        f"severity audit of {report.suite}: {passed} of {len(report.records)} records passed",
        f"{'condition':<22}{'records':>8}{'passed':>8}{head}",
    ]
    for condition, records in rows.items():
        changes = []
        for camera in cameras:
            found = [r.pixel_change[camera] for r in records if camera in r.pixel_change]
            changes.append(f"{sum(found) / len(found):.2f}" if found else "-")
        figures = "".join(f"{change:>{room}}" for change in changes)
        good = sum(record.passed for record in records)
        lines.append(f"{_cut(condition, 21):<22}{len(records):>8}{good:>8}{figures}")
    growing = [axis for axis, promised in sorted(report.axes.items()) if promised]
    lines.append("pixel change: mean absolute difference from clean after settling, 0 to 255")
    shrinking = any("does not grow" in problem for problem in report.across_levels)
    if growing:
        told = "it does not" if shrinking else "it does"
        lines += wrap(f"must grow with the level on {', '.join(growing)}: {told}")
    wrong = [
        f"{record.task} e{record.episode:02d} {record.condition}: {problem}"
        for record in report.records
        for problem in record.problems
    ]
    return "\n".join([*lines, *_told([*wrong, *report.across_levels])])


def pairing_table(report: PairingReport) -> str:
    """The paper's Table II, a row a task: what was the same, of how many."""
    seeded = "declares a seed" if report.seeded else "declares no seed"
    lines = [
        *wrap(f"pairing audit of {report.suite}, policy {report.policy} ({seeded})"),
        f"{'':4}{'same start':>14}{'actions: same seed':>22}{'other seed':>18}",
    ]
    starts, seeds = task_counts(report.starts), task_counts(report.seeds)
    for task in sorted({*starts, *seeds}):
        lines += _name(task, WIDTH)
        others = [s for s in report.seeds if (s.task_suite, s.task) == task and s.error is None]
        same = sum(record.other_seed for record in others)
        lines.append(
            f"{'':4}{_of(*starts.get(task, (0, 0))):>14}{_of(*seeds.get(task, (0, 0))):>22}"
            f"{_of(same, len(others)):>18}"
        )
    lines.append("same start: fingerprint of an episode restored again after other work")
    lines.append("actions: the same sequence, bit for bit, with the shared seed and with another")
    wrong = [
        f"{s.task} e{s.episode:02d} after {s.between}: {s.error or ', '.join(s.differing[:6])}"
        for s in report.starts
        if not s.passed
    ]
    wrong += [
        f"{s.task} e{s.episode:02d}: {s.error or 'the shared seed does not repeat the actions'}"
        for s in report.seeds
        if not s.passed
    ]
    notes = [line for note in report.notes() for line in wrap(f"note: {note}")]
    return "\n".join([*lines, *notes, *_told(wrong)])


_COLUMNS = (
    ("base", Kind.BASE_STATE),
    ("seed", Kind.POLICY_SEED),
    ("rend", Kind.RENDERER),
    ("shift", Kind.INTERVENTION),
    ("run", Kind.RUNTIME),
    ("stage", Kind.STAGES),
    ("trunc", Kind.TRUNCATION),
)


def integrity_table(report: IntegrityReport) -> str:
    """The paper's Table VII: a row a task, rollouts with a problem of each kind."""
    heads = "".join(f"{name:>6}" for name, _ in _COLUMNS)
    lines = [f"{'':2}{'rollouts':>12}{'episodes':>10}{heads}{'other':>6}"]
    for task in report.tasks:
        lines += _name((task.task_suite, task.task), WIDTH)
        lines.append(_integrity_row(task))
    errors = sum((Counter(task.errors) for task in report.tasks), Counter[str]())
    disagreements = sum(task.disagreements for task in report.tasks)
    lines += [
        "rollouts, episodes: valid of expected. Then rollouts with a problem: base state,",
        "policy seed, renderer, shift (parameters, draw, receipts), runtime failure,",
        "StageTracker, truncation; other: missing, misplaced, versions, contract.",
        f"Milestones and official success disagree in {disagreements} (counted, no fault).",
    ]
    if errors:
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
        lines += wrap(f"runtime failures: {told}")
    lines += [line for note in report.notes for line in wrap(f"note: {note}")]
    wrong = [
        f"{p.task} e{p.episode:02d} {p.condition}: {p.kind}: {p.message}" for p in report.problems
    ]
    return "\n".join([*lines, *_told(wrong)])


def integrity_lines(report: IntegrityReport) -> list[str]:
    """For the end of a run: one line if all is well; else what no other part of the report tells.

    Missing rollouts and infrastructure errors are in every table already.
    """
    valid = sum(task.valid for task in report.tasks)
    expected = sum(task.expected for task in report.tasks)
    kinds = sum((Counter(task.problems) for task in report.tasks), Counter[str]())
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    lines = wrap(f"integrity: {valid} of {expected} rollouts valid" + (f"; {told}" if told else ""))
    wrong = [
        f"{p.task} e{p.episode:02d} {p.condition}: {p.kind}: {p.message}"
        for p in report.problems
        if p.kind not in (Kind.MISSING, Kind.RUNTIME)
    ]
    return [*lines, *(_told(wrong) if wrong else ())]


def _integrity_row(task: TaskIntegrity) -> str:
    shown = {str(kind) for _, kind in _COLUMNS}
    other = sum(count for kind, count in task.problems.items() if kind not in shown)
    figures = "".join(f"{task.problems.get(str(kind), 0):>6}" for _, kind in _COLUMNS)
    rollouts = f"{task.valid}/{task.expected}"
    episodes = f"{task.episodes}/{task.planned_episodes}"
    return f"{'':2}{rollouts:>12}{episodes:>10}{figures}{other:>6}"


def _name(task: tuple[str, str], width: int) -> list[str]:
    """``task suite/task``, broken hard where it is too long: names have no spaces."""
    text = "/".join(task)
    return [text[i : i + width] for i in range(0, len(text), width)]


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"


def _told(problems: Sequence[str]) -> Iterable[str]:
    """``FAILED`` and what is wrong, or ``passed``."""
    if not problems:
        yield "passed"
        return
    yield f"FAILED: {len(problems)} problem{'s' * (len(problems) > 1)}"
    for problem in problems[:TOLD]:
        yield from wrap(f"  {problem}")
    if len(problems) > TOLD:
        yield f"  ... and {len(problems) - TOLD} more; all are in the JSON file"


def wrap(text: str) -> list[str]:
    """``text`` in lines of at most 80 columns, the later ones indented."""
    return textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent="    ",
        break_on_hyphens=False,
        drop_whitespace=True,
    )
