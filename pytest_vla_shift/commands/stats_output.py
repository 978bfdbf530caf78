"""What ``vla-shift stats`` prints: plain tables, at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pytest_vla_shift.protocol.conditions import SIMULTANEOUS
from pytest_vla_shift.reporting import compounds, numbers
from pytest_vla_shift.statistics.compound import CompoundRates, CompoundReport
from pytest_vla_shift.statistics.estimands import MacroInterval
from pytest_vla_shift.statistics.suite_compounds import CompoundLevel, ReplicationLevel
from pytest_vla_shift.statistics.table_report import (
    BlockStatistics,
    ConditionStatistics,
    TableReport,
)

WIDTH = 80
SIDE_BY_SIDE = 3
"""Levels of a compound in one table."""

_LEFT = {
    *("condition", "dSR [95% these tasks]", "dSR new tasks [95%]", "Tango [95%]"),
    *("excess [95% these tasks]", "new tasks [95%]"),
}


def render(report: TableReport) -> str:
    """The whole report as plain text; what its columns mean stands once, at the end."""
    head = f"{report.source}: {numbers.plural(report.rows, 'row')}"
    if report.errors:
        head += f", {report.errors} with an infrastructure error and in no rate"
    top = [_wrap(head), *(_wrap(f"note: {note}") for note in report.notes)]
    parts = ["\n".join(top), *("\n".join(_block(block)) for block in report.blocks)]
    legend = "\n".join(_legend(report))
    return "\n\n".join([*parts, legend] if legend else parts)


def _block(block: BlockStatistics) -> Iterator[str]:
    who = f"policy {block.policy} · " if block.policy else ""
    again = f" · replicate {block.replicate}" if block.replicate else ""
    title = f"== {who}{' + '.join(block.suites)}{again}"
    size = f"{numbers.plural(block.tasks, 'task')}, {numbers.plural(block.episodes, 'episode')}"
    yield _wrap(f"{title} · {size}")
    if block.clean_rate is not None and not block.conditions:
        clean = block.clean_rate
        yield _wrap(
            f"clean: SR {numbers.rate(clean.sr)} (tasks weigh alike),"
            f" {clean.successes} of {clean.rollouts} rollouts{_lost(clean.errors)}"
        )
    if block.nominal is not None:
        nominal = block.nominal
        yield _wrap(
            f"nominal pass: SR {numbers.rate(nominal.sr)},"
            f" {nominal.successes} of {nominal.rollouts} rollouts{_lost(nominal.errors)}"
        )
    if block.clean == "nominal":
        yield _wrap("the clean arm is the nominal rollout of each episode")
    if block.clean is None and block.compounds:
        yield _wrap("no clean rows: success against clean is not known here")
    for note in block.notes:
        yield _wrap(f"note: {note}")
    for title, section in _SECTIONS:
        lines = list(section(block.conditions))
        if lines:
            yield from ("", f"-- {title}", *lines)
    for name in dict.fromkeys(item.axis for item in block.compounds):
        levels = [item for item in block.compounds if item.axis == name]
        for start in range(0, len(levels), SIDE_BY_SIDE):
            yield ""
            yield from _compound(levels[start : start + SIDE_BY_SIDE])
    for line in block.no_compound:
        yield _wrap(f"no compound table: {line}")
    for item in block.replications:
        yield ""
        yield from _replication(item)


def _lost(errors: int) -> str:
    return f", {errors} with an error" if errors else ""


def _pairs(conditions: Sequence[ConditionStatistics]) -> Iterator[str]:
    if not conditions:
        return
    header = (
        *("condition", "pairs", "SRc", "SRs", "dSR [95% these tasks]"),
        *("S>S", "S>F", "F>S", "F>F", "chg"),
    )
    rates = [item.rates for item in conditions]
    yield from _table(
        header,
        (
            (
                numbers.label(item),
                f"{item.pairs}({item.errors})" if item.errors else str(item.pairs),
                numbers.rate(item.sr_clean),
                numbers.rate(item.sr_shifted),
                numbers.degradation(item),
                *(str(n) for n in (item.ss, item.sf, item.fs, item.ff, item.changed)),
            )
            for item in rates
        ),
    )
    for item in rates:
        if not item.pairs:
            yield _wrap(f"{numbers.label(item)}: no pair was measured")
        elif item.unmeasured_tasks:
            yield _wrap(
                f"{numbers.label(item)}: no measured pair of {', '.join(item.unmeasured_tasks)};"
                " the averages are over the other tasks."
            )


def _depth(conditions: Sequence[ConditionStatistics]) -> Iterator[str]:
    if not any(item.rates.depth.pairs or item.rates.disagreements for item in conditions):
        return
    yield from _table(
        ("condition", "S>F", "progress", "none latched", "all latched", "disagree"),
        (
            (
                numbers.label(item.rates),
                f"{item.rates.depth.pairs} of {item.rates.sf}",
                numbers.rate(item.rates.depth.progress),
                numbers.percent(item.rates.depth.first_stage),
                str(item.rates.depth.complete),
                str(item.rates.disagreements),
            )
            for item in conditions
        ),
    )


def _beyond(conditions: Sequence[ConditionStatistics]) -> Iterator[str]:
    if not conditions:
        return
    yield from _table(
        ("condition", "dSR new tasks [95%]", "Tango [95%]", "p", "Holm", "BH"),
        (
            (
                numbers.label(item.rates),
                _macro(item.new_tasks),
                numbers.interval(item.rates.tango),
                numbers.p_value(item.rates.mcnemar),
                numbers.p_value(item.holm),
                numbers.p_value(item.benjamini_hochberg),
            )
            for item in conditions
        ),
    )
    methods = dict.fromkeys(i.new_tasks.method for i in conditions if i.new_tasks is not None)
    family = sum(item.holm is not None for item in conditions)
    yield _wrap(
        f"New tasks: {'; '.join(methods) or 'no pair'}. Holm and BH: over the"
        f" {numbers.plural(family, 'shifted condition')} here."
    )


def _floor(conditions: Sequence[ConditionStatistics]) -> Iterator[str]:
    held = [(item.rates, item.floor) for item in conditions if item.floor is not None]
    if not held:
        return
    yield from _table(
        ("condition", "chg", "floor", "of", "excess [95% these tasks]", "new tasks [95%]", "p"),
        (
            (
                numbers.label(rates),
                str(floor.changed),
                str(floor.floor),
                str(floor.pairs),
                _macro(floor.these_tasks),
                _bounds(floor.new_tasks),
                numbers.p_value(floor.mcnemar),
            )
            for rates, floor in held
        ),
    )


_SECTIONS = (
    ("matched pairs (RoboCasa-Shift)", _pairs),
    ("depth of S>F pairs (RoboCasa-Shift)", _depth),
    ("beyond the papers", _beyond),
    ("beyond the papers: changed outcomes against the flip floor", _floor),
)


def _compound(items: Sequence[CompoundLevel]) -> Iterator[str]:
    """Every statistic of a compound, its levels beside each other."""
    first = items[0].report
    yield _wrap(f"-- compound {items[0].axis} (LIBERO-CTRL) = {' + '.join(first.axes)}")
    if items[0].axis == SIMULTANEOUS:
        yield _wrap(
            f"{SIMULTANEOUS} is taken to shift exactly these axes; name another compound a+b"
        )
    columns = [dict(_statistics(item.report)) for item in items]
    yield from _table(
        ("", *(item.level for item in items)),
        ((name, *(column.get(name, "") for column in columns)) for name in columns[0]),
        left=True,
    )
    for item in items:
        if item.report.dropped:
            yield _wrap(compounds.dropped_line(item))


def _statistics(report: CompoundReport) -> Iterator[tuple[str, str]]:
    """Every line of one level: its name and its text."""
    yield "N of planned", f"{report.complete} of {report.planned}"
    yield "tasks", str(report.all.tasks)
    for single in report.all.singles:
        yield f"S {single.axis}", compounds.plain_estimate(single.s)
    yield from _rates(report.all, "")
    if report.nominal is not None:
        yield "clean> N", f"{report.nominal.n} of {report.clean_known}"
        yield from _rates(report.nominal, "clean> ")
    if report.losses is not None:
        losses = report.losses
        yield "S_ref", compounds.plain_estimate(losses.s)
        yield "S_ref is", f"{losses.reference}, {losses.successes}/{losses.rollouts}"
        for loss in losses.conditions:
            yield f"loss {loss.condition}", compounds.signed_estimate(loss.points)
        for loss in losses.conditions:
            yield f"lost {loss.condition}", compounds.signed_estimate(loss.relative)


def _rates(rates: CompoundRates, mark: str) -> Iterator[tuple[str, str]]:
    yield f"{mark}S_indep", compounds.plain_estimate(rates.s_indep)
    yield f"{mark}S_conj", compounds.plain_estimate(rates.s_conj)
    yield f"{mark}S_sim", compounds.plain_estimate(rates.s_sim)
    yield f"{mark}near 0 or 1", "yes" if rates.near_boundary else "no"
    yield f"{mark}D", compounds.signed_estimate(rates.d)
    yield f"{mark}I", compounds.signed_estimate(rates.i)
    yield f"{mark}b, c", f"{rates.b}, {rates.c}"
    yield f"{mark}R_e", compounds.plain_estimate(rates.r_e)
    yield f"{mark}R_c", compounds.plain_estimate(rates.r_c)
    yield f"{mark}R_d", compounds.plain_estimate(rates.r_d)
    yield f"{mark}b/failures", compounds.plain_estimate(rates.emergent_share)
    yield f"{mark}failures", str(rates.failures)


def _legend(report: TableReport) -> Iterator[str]:
    """What the columns mean, for the sections that are there."""
    conditions = [item for block in report.blocks for item in block.conditions]
    reports = [item.report for block in report.blocks for item in block.compounds]
    if conditions:
        yield _wrap(
            "SRc, SRs: success rate clean and shifted; dSR: their difference; tasks weigh alike."
            f" these tasks: for other episodes of them; {report.resamples:,} resamples of pairs"
            " within tasks. chg: changed, S>F and F>S; F>S is no improvement. pairs in brackets:"
            " with an error in either arm, in no rate."
        )
        if any(item.rates.degenerate for item in conditions):
            yield _wrap(
                "dSR *: no width in the bootstrap; this is Tango's interval, of the pooled"
                " difference."
            )
        yield _wrap(
            "new tasks: for tasks of which these are a sample. Tango: score interval of the pooled"
            " (not macro) difference. p: exact McNemar, adjusted by Holm and by Benjamini and"
            " Hochberg (BH)."
        )
    if any(item.rates.depth.pairs or item.rates.disagreements for item in conditions):
        yield _wrap(
            "progress: mean of milestones done over milestones. none latched: share of S>F pairs"
            " that stopped before any milestone; with milestones in one order, as in"
            " RoboCasa-Shift, the share whose first incomplete one is g1; where several goals"
            " advance beside each other, a lower bound of it. all latched: every milestone done"
            " and yet no success. disagree: shifted rollouts of any outcome whose milestones and"
            " success disagree."
        )
    if any(item.floor is not None for item in conditions):
        yield _wrap(
            "floor: outcomes that change under null, which is clean run again; excess: share"
            " changed under the shift less that under null, over the episodes with all three"
            " outcomes."
        )
    if reports:
        yield _wrap(
            "Compounds: rates are pooled over configurations, while SRc and SRs weigh tasks"
            " alike; only complete configurations; intervals 95 %, percentile,"
            f" {report.replicates:,} resamples of whole tasks (a star: no width, the tasks do not"
            " differ). S: success rate; S_indep: product of the single axes'; S_conj: of all"
            " single axes on one configuration; S_sim: of the compound. D = S_conj - S_indep,"
            " I = S_sim - S_conj. b: emergent failures (each axis alone succeeds, the compound"
            " fails); c: compensated successes (some axis alone fails, the compound succeeds);"
            " R_e = b/N, R_c = c/N, R_d = R_e + R_c; b/failures: share of the compound's failures"
            " that are emergent. near 0 or 1: S_conj or S_sim within 5 points of it, where few"
            " further changes are possible and small rates are no evidence of their absence."
        )
    if any(item.nominal is not None for item in reports):
        yield _wrap("clean>: only configurations that succeed without a shift.")
    if any(item.losses is not None for item in reports):
        yield _wrap("loss: S_ref - S; lost: 1 - S / S_ref.")
    if reports:
        yield _wrap("With --json: rates by task, names of emergent and compensated configurations.")


def _replication(item: ReplicationLevel) -> Iterator[str]:
    """What another policy seed changes (LIBERO-CTRL 4.3)."""
    report = item.report
    yield _wrap(
        f"{item.axis} {item.level}: replicate 0 > replicate {item.replicate}, over the"
        f" {report.complete} of {report.planned} configurations that are complete in both"
    )
    yield from _table(
        ("rate", "first", "second", "change [95%]"),
        (
            (
                change.rate,
                *(_either(change.rate, value) for value in (change.first, change.second)),
                compounds.signed_estimate(change.change),
            )
            for change in report.changes
        ),
        left=True,
    )
    same = ", ".join(f"{a.condition} {numbers.rate(a.share.value)}" for a in report.agreement)
    yield _wrap(f"same outcome both times: {same}")
    yield _wrap(
        f"emergent both times: {report.emergent_both} (b {report.first.b} and {report.second.b});"
        f" compensated both times: {report.compensated_both}"
        f" (c {report.first.c} and {report.second.c})"
    )


def _either(rate: str, value: float | None) -> str:
    return numbers.signed(value) if rate in ("d", "i") else numbers.rate(value)


def _macro(found: MacroInterval | None) -> str:
    return numbers.NONE if found is None else f"{numbers.signed(found.value)} {_bounds(found)}"


def _bounds(found: MacroInterval | None) -> str:
    """The interval; a star for one without width, a dash where there is none."""
    if found is None or found.low is None or found.high is None:
        return numbers.NONE
    return "*" if found.degenerate else numbers.interval((found.low, found.high))


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: bool = False
) -> Iterator[str]:
    """Columns of equal width; the first gives way to the others and keeps its last word."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    widths[0] = max(4, min(widths[0], WIDTH - sum(widths[1:]) - len(widths) + 1))
    for row in cells:
        row[0] = _short(row[0], widths[0])
        yield " ".join(
            cell.ljust(size) if left or name in _LEFT else cell.rjust(size)
            for cell, size, name in zip(row, widths, header, strict=True)
        ).rstrip()


def _short(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    name, _, tail = text.rpartition(" ")
    if not name or len(tail) + 3 > width:
        return text[: width - 1] + "~"
    return f"{name[: width - len(tail) - 2]}~ {tail}"


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
