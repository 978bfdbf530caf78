"""The terminal table: one line a condition, the flip floor first, at most 80 columns."""

from __future__ import annotations

import textwrap

from pytest_vla_shift.reporting import compounds, numbers, replications
from pytest_vla_shift.statistics.aggregate import ConditionAggregate
from pytest_vla_shift.statistics.floor import FloorContrast
from pytest_vla_shift.statistics.nominal import NominalPass
from pytest_vla_shift.statistics.report import RunReport, SuiteReport

WIDTH = 80
NAMED = 5
"""How many missing cells are named before the rest is counted."""

_HEADER = (
    *("condition", "pairs", "SRc", "SRs", "dSR [95% interval]"),
    *("S>S", "S>F", "F>S", "F>F", "flr", "prog", "g1"),
)
_LEFT = {0, 4}
_LEGEND = (
    "SRc, SRs: success rate clean and shifted, dSR their difference, tasks weighted alike."
    " flr: of the same episodes, pairs that changed under null, when nothing was shifted."
    " prog, g1: mean progress of S>F pairs, and the share that stopped before the first milestone."
)


def render(report: RunReport, width: int = WIDTH) -> str:
    """All suites of a run as plain text, no line longer than ``width`` (at least 76)."""
    blocks = [_suite(suite, report, width) for suite in report.suites]
    if not blocks:
        blocks = ["no pair was planned"]
    blocks.append("\n".join(_wrap(f"note: {note}", width) for note in report.notes))
    return "\n\n".join(block for block in blocks if block)


def _suite(suite: SuiteReport, report: RunReport, width: int) -> str:
    title = f"{suite.suite} · policy {report.facts.policy}"
    lines = [_cut(title, width)]
    if suite.nominal is not None:
        lines += [_wrap(nominal_line(suite.nominal), width)]
    if suite.conditions:
        lines += [*_table(suite, width), *_footer(suite, width)]
        lines += compounds.terminal(suite.compounds, width)
        lines += replications.terminal(suite.replications, width)
    if suite.missing:
        lines.append(_wrap(missing_line(suite), width))
    return "\n".join(lines)


def _table(suite: SuiteReport, width: int) -> list[str]:
    conditions = suite.conditions
    rows = [list(_HEADER)]
    for item, floor in zip(conditions, suite.floors, strict=True):
        rows.append([numbers.label(item), *_cells(item, floor)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    # The name gives way when the numbers need the room.
    widths[0] = max(1, min(widths[0], width - sum(widths[1:]) - len(widths) + 1))
    for row, item in zip(rows[1:], conditions, strict=True):
        row[0] = numbers.label(item, widths[0])
    return [
        " ".join(
            cell.ljust(size) if column in _LEFT else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(item: ConditionAggregate, floor: FloorContrast | None) -> list[str]:
    return [
        f"{item.pairs}({item.errors})" if item.errors else str(item.pairs),
        numbers.rate(item.sr_clean),
        numbers.rate(item.sr_shifted),
        numbers.degradation(item),
        *(str(count) for count in (item.ss, item.sf, item.fs, item.ff)),
        numbers.floor(item, floor),
        numbers.rate(item.depth.progress),
        numbers.percent(item.depth.first_stage),
    ]


def _footer(suite: SuiteReport, width: int) -> list[str]:
    clean = suite.clean
    shifted = sum(item.disagreements for item in suite.conditions)
    parts = [
        f"{numbers.plural(clean.rollouts, 'clean rollout')} served"
        f" {numbers.plural(clean.serves, 'pair')}, SR {numbers.rate(clean.sr)}"
    ]
    if suite.null is not None and suite.null.pairs:
        null = suite.null
        parts.append(f"flip floor {null.changed} of {numbers.plural(null.pairs, 'pair')}")
    if clean.disagreements or shifted:
        parts.append(
            f"milestones disagree with success: {clean.disagreements} clean, {shifted} shifted"
        )
    if suite.errors:
        parts.append(
            f"{numbers.plural(suite.errors, 'pair')} with an infrastructure error"
            f" (in brackets, in no rate): {numbers.kinds(suite.error_kinds)}"
        )
    lines = [_wrap("; ".join(parts) + ".", width), _wrap(_LEGEND, width)]
    if any(item.degenerate for item in suite.conditions):
        star = (
            "* the bootstrap interval has no width here; this is Tango's, of the pooled difference."
        )
        lines.append(_wrap(star, width))
    return lines


def nominal_line(nominal: NominalPass) -> str:
    """Solved against measured initial states, all and by task suite."""
    total = nominal.total
    parts = [f"nominal: {total.successes} of {total.rollouts} solved, SR {numbers.rate(total.sr)}"]
    if len(nominal.task_suites) > 1:
        parts += [f"{found.task_suite} {numbers.rate(found.sr)}" for found in nominal.task_suites]
    if nominal.errors:
        parts.append(f"{nominal.errors} with an infrastructure error, in no rate")
    return "; ".join(parts) + "."


def missing_line(suite: SuiteReport) -> str:
    """Planned against reported cells, with names, for a suite that misses some."""
    named = ", ".join(cell.cell for cell in suite.missing[:NAMED])
    rest = len(suite.missing) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return (
        f"MISSING: {suite.planned} cells planned, {suite.reported} reported."
        f" Not reported: {named}{more}"
    )


def _wrap(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"
