"""The statistics beyond the papers, in Markdown: each under its own name."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.markup import escape, table
from pytest_vla_shift.statistics.estimands import MacroInterval
from pytest_vla_shift.statistics.report import SuiteReport


def markdown(suite: SuiteReport) -> Iterator[str]:
    """New tasks, Tango, adjusted p, and changes against the flip floor."""
    if not suite.beyond:
        return
    yield "### Beyond the papers"
    rows = list(zip(suite.conditions, suite.beyond, strict=True))
    yield table(
        (
            *("condition", "ΔSR new tasks [95 %]", "Tango, pooled [95 %]"),
            *("McNemar p", "Holm", "Benjamini-Hochberg", "changed over floor [95 %]"),
        ),
        (
            (
                numbers.label(rates),
                macro(found.new_tasks),
                numbers.interval(rates.tango) or numbers.NONE,
                numbers.p_value(rates.mcnemar),
                numbers.p_value(found.holm),
                numbers.p_value(found.benjamini_hochberg),
                numbers.NONE if found.floor is None else macro(found.floor.these_tasks),
            )
            for rates, found in rows
        ),
    )
    methods = dict.fromkeys(b.new_tasks.method for b in suite.beyond if b.new_tasks is not None)
    family = sum(found.holm is not None and not found.replicate for found in suite.beyond)
    yield escape(
        "New tasks: what other tasks, of which these are a sample, would give"
        f" ({'; '.join(methods) or 'no pair'}); the table above is about these tasks. Tango: score"
        " interval of the pooled (not macro) difference. Holm and Benjamini-Hochberg: exact McNemar"
        f" p over the {numbers.plural(family, 'shifted condition')} read together. Changed over"
        " floor: share of pairs changed under the shift less that under null."
    )


def macro(found: MacroInterval | None) -> str:
    """A value with its interval; a star for one without width, which is not certainty."""
    if found is None:
        return numbers.NONE
    if found.low is None or found.high is None:
        return numbers.signed(found.value)
    bounds = "*" if found.degenerate else numbers.interval((found.low, found.high))
    return f"{numbers.signed(found.value)} {bounds}"
