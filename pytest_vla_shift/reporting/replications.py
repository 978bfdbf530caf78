"""What another policy seed changes (LIBERO-CTRL 4.3), in the terminal and in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.compounds import signed_estimate
from pytest_vla_shift.reporting.markup import escape, table
from pytest_vla_shift.statistics.suite_compounds import ReplicationLevel

SHOWN = {"r_e": "Re", "r_c": "Rc", "r_d": "Rd", "i": "I"}
"""The rates that the paper compares, with their words in the terminal."""

NAMES = {
    **{"s_indep": "S_indep", "s_conj": "S_conj", "s_sim": "S_sim", "d": "D", "i": "I"},
    **{"r_e": "R_e", "r_c": "R_c", "r_d": "R_d", "emergent_share": "emergent of failures"},
}


def terminal(items: Sequence[ReplicationLevel], width: int) -> list[str]:
    """A line a compound: the paper's four rates in both evaluations."""
    lines = []
    for item in items:
        changes = {change.rate: change for change in item.report.changes}
        told = ", ".join(
            f"{word} {_value(rate, changes[rate].first)} > {_value(rate, changes[rate].second)}"
            for rate, word in SHOWN.items()
        )
        lines.append(f"run again (replicate {item.replicate}), {item.axis} {item.level}: {told}")
    filled = [textwrap.fill(line, width, subsequent_indent="  ") for line in lines]
    return ["", *filled] if filled else []


def markdown(items: Sequence[ReplicationLevel]) -> Iterator[str]:
    """Every rate in both evaluations, the change with its interval, and self-agreement."""
    for item in items:
        report = item.report
        name = escape(f"{item.axis} {item.level}")
        yield f"### Run again (replicate {item.replicate}): {name}"
        yield table(
            ("rate", "first", "second", "change [95 %]"),
            (
                (
                    NAMES.get(change.rate, "S " + change.rate.removeprefix("s_")),
                    _value(change.rate, change.first),
                    _value(change.rate, change.second),
                    signed_estimate(change.change),
                )
                for change in report.changes
            ),
        )
        same = ", ".join(
            f"{escape(found.condition)} {numbers.rate(found.share.value)}"
            for found in report.agreement
        )
        yield (
            f"Over the {report.complete} of {report.planned} configurations that are complete in"
            f" both. Same outcome both times: {same}. Emergent both times:"
            f" {report.emergent_both} (of {report.first.b} and {report.second.b}); compensated both"
            f" times: {report.compensated_both} (of {report.first.c} and {report.second.c})."
        )


def _value(rate: str, value: float | None) -> str:
    return numbers.signed(value) if rate in ("d", "i") else numbers.rate(value)
