"""LIBERO-CTRL's tables: a compound against its single axes, in the terminal and in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.markup import code, escape, table
from pytest_vla_shift.statistics.cluster import Estimate
from pytest_vla_shift.statistics.compound import CompoundRates, CompoundReport
from pytest_vla_shift.statistics.outcomes import Place
from pytest_vla_shift.statistics.suite_compounds import CompoundLevel

LISTED = 40
"""Configurations named one by one before the rest is counted; all are in summary.json."""

_HEADER = (
    *("compound", "N", "Sind", "Scnj", "Ssim", "D", "I [95% interval]"),
    *("Re", "Rc", "Rd"),
)
_LEFT = {0, 6}
_LEGEND = (
    "Sind, Scnj: success expected of the single axes if independent, and of all of them on one"
    " configuration. Ssim: success of the compound. D = Scnj - Sind, I = Ssim - Scnj = Rc - Re."
    " Re: emergent failures (each axis alone succeeds, the compound fails). Rc: compensated"
    " successes (some axis alone fails, the compound succeeds). Rd = Re + Rc. Rates are over all"
    " configurations alike. Intervals resample whole tasks."
)
_BOUNDARY = (
    "! Scnj or Ssim is within 5 points of 0 or 1: few further changes are possible in one"
    " direction, and small rates are no evidence of their absence."
)


_STAR = "* No width in the bootstrap: the tasks do not differ, which is not certainty."


def label(item: CompoundLevel) -> str:
    """``simultaneous L2``, ``camera+lighting L1 r1``."""
    return f"{item.axis} {item.level}" + (f" r{item.replicate}" if item.replicate else "")


def terminal(items: Sequence[CompoundLevel], width: int) -> list[str]:
    """The table and what its columns mean; nothing without a compound."""
    if not items:
        return []
    rows = [list(_HEADER), *([label(item), *_cells(item.report.all)] for item in items)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    # The name gives way when the numbers need the room, and keeps its level.
    widths[0] = max(4, min(widths[0], width - sum(widths[1:]) - len(widths) + 1))
    for row, item in zip(rows[1:], items, strict=True):
        row[0] = _short(item, widths[0])
    lines = [
        " ".join(
            cell.ljust(size) if column in _LEFT else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    notes = [_LEGEND]
    if any(item.report.all.i.degenerate for item in items):
        notes.append(_STAR)
    if any(item.report.all.tasks == 1 for item in items):
        notes.append("A single task cannot be resampled: no interval.")
    if any(item.report.all.near_boundary for item in items):
        notes.append(_BOUNDARY)
    notes += [dropped_line(item) for item in items if item.report.dropped]
    return ["", *lines] + [textwrap.fill(note, width, subsequent_indent="  ") for note in notes]


def dropped_line(item: CompoundLevel) -> str:
    """Which configurations are in no rate of a compound, and why."""
    report = item.report
    return (
        f"{label(item)}: {len(report.dropped)} of {report.planned} configurations are incomplete"
        f" and in no rate of it: {numbers.kinds(report.dropped_kinds)}."
    )


def _short(item: CompoundLevel, width: int) -> str:
    tail = label(item).removeprefix(item.axis)
    if len(item.axis) + len(tail) <= width:
        return item.axis + tail
    return item.axis[: max(1, width - len(tail) - 1)] + "~" + tail


def _cells(rates: CompoundRates) -> list[str]:
    return [
        f"{rates.n}{'!' if rates.near_boundary else ''}",
        numbers.rate(rates.s_indep.value),
        numbers.rate(rates.s_conj.value),
        numbers.rate(rates.s_sim.value),
        numbers.signed(rates.d.value),
        signed_estimate(rates.i),
        *(numbers.rate(rate.value) for rate in (rates.r_e, rates.r_c, rates.r_d)),
    ]


def signed_estimate(estimate: Estimate) -> str:
    """``-.070 [-.135,-.005]``."""
    return f"{numbers.signed(estimate.value)} {_interval(estimate, numbers.signed)}".rstrip()


def plain_estimate(estimate: Estimate) -> str:
    """``.203 [.150,.258]``."""
    return f"{numbers.rate(estimate.value)} {_interval(estimate, numbers.rate)}".rstrip()


def _interval(estimate: Estimate, form: Callable[[float], str]) -> str:
    """Nothing without an interval; a star for one without width, which would read as certainty."""
    if estimate.low is None or estimate.high is None:
        return ""
    if estimate.degenerate:
        return "*"
    return f"[{form(estimate.low)},{form(estimate.high)}]"


def markdown(items: Sequence[CompoundLevel]) -> Iterator[str]:
    """Every statistic with its interval, by compound and level."""
    if not items:
        return
    yield "### Compounds"
    yield rates_table((label(item), item.report.all) for item in items)
    yield (
        "S_indep is the product of the single axes' success rates, S_conj the share of"
        " configurations that succeed under every axis alone, S_sim the success rate of the"
        " compound; D = S_conj - S_indep, I = S_sim - S_conj = R_c - R_e. R_e = b / N: emergent"
        " failures; R_c = c / N: compensated successes; R_d = R_e + R_c. Intervals: 95 %,"
        f" percentile, {items[0].report.replicates:,} resamples of whole tasks, seed"
        f" {items[0].report.seed}. Rates are over complete configurations. {escape(_STAR)}"
    )
    if any(item.report.all.near_boundary for item in items):
        yield escape(_BOUNDARY)
    for item in items:
        if item.report.dropped:
            yield escape(dropped_line(item))
    yield "### Single axes of the compounds"
    yield singles_table(items)
    restricted = [(label(i), i.report.nominal) for i in items if i.report.nominal is not None]
    if restricted:
        yield "### Compounds on nominally successful configurations"
        yield rates_table((name, rates) for name, rates in restricted if rates is not None)
    if any(item.report.losses is not None for item in items):
        yield "### Success lost against clean"
        yield losses_table(items)
    for item in items:
        yield from _listed(item)


def rates_table(rows: Iterable[tuple[str, CompoundRates]]) -> str:
    """One row a compound: N, the three success rates, D, I, the transitions, each with its
    interval."""
    header = (
        *("compound", "N", "tasks", "S_indep", "S_conj", "S_sim", "D", "I"),
        *("b", "c", "R_e", "R_c", "R_d", "emergent of failures"),
    )
    return table(
        header,
        (
            (
                name,
                f"{rates.n}{' !' if rates.near_boundary else ''}",
                str(rates.tasks),
                *(plain_estimate(r) for r in (rates.s_indep, rates.s_conj, rates.s_sim)),
                *(signed_estimate(r) for r in (rates.d, rates.i)),
                *(str(count) for count in (rates.b, rates.c)),
                *(plain_estimate(r) for r in (rates.r_e, rates.r_c, rates.r_d)),
                f"{rates.b} of {rates.failures}: {plain_estimate(rates.emergent_share)}",
            )
            for name, rates in rows
        ),
    )


def singles_table(items: Sequence[CompoundLevel]) -> str:
    """S_a of every axis over the configurations of the compound."""
    axes = list(dict.fromkeys(s.axis for item in items for s in item.report.all.singles))
    found = [{s.axis: s for s in item.report.all.singles} for item in items]
    return table(
        ("compound", *(f"S {axis}" for axis in axes)),
        (
            (
                label(item),
                *(plain_estimate(here[axis].s) if axis in here else numbers.NONE for axis in axes),
            )
            for item, here in zip(items, found, strict=True)
        ),
    )


def losses_table(items: Sequence[CompoundLevel]) -> str:
    """Points and share of clean success that each condition loses."""
    rows = [
        (
            label(item),
            loss.condition,
            f"{item.report.losses.reference} {numbers.rate(item.report.losses.s.value)}",
            signed_estimate(loss.points),
            signed_estimate(loss.relative),
        )
        for item in items
        if item.report.losses is not None
        for loss in item.report.losses.conditions
    ]
    return table(("compound", "condition", "reference", "S_ref - S", "1 - S / S_ref"), rows)


def _listed(item: CompoundLevel) -> Iterator[str]:
    """The configurations behind b and c."""
    report = item.report
    for name, places in (
        ("Emergent failures", report.emergent),
        ("Compensated successes", report.compensated),
    ):
        if places:
            yield f"{name} of {escape(label(item))}: {_places(places)}."


def _places(places: Sequence[Place]) -> str:
    named = ", ".join(
        code(f"{suite}-{task}-e{index:02d}") for suite, task, index in places[:LISTED]
    )
    rest = len(places) - LISTED
    return named + (f" and {rest} more" if rest > 0 else "")


def sentence(report: CompoundReport) -> str:
    """One line for people: what the compound did beyond its single axes."""
    rates = report.all
    if not rates.n:
        return f"no complete configuration of {report.planned}"
    return (
        f"I {signed_estimate(rates.i)}: R_e {plain_estimate(rates.r_e)} ({rates.b} emergent"
        f" failures), R_c {plain_estimate(rates.r_c)} ({rates.c} compensated successes);"
        f" {numbers.plural(rates.n, 'configuration')}"
    )
