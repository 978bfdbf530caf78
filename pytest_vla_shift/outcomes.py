"""Outcome words and letters: a transition is told apart from an ordinary pass or failure."""

from __future__ import annotations

from typing import TypedDict

import pytest

WORDS: dict[str, tuple[str, str, str]] = {
    "S>S": ("robust", ".", "ROBUST"),
    "S>F": ("degraded", "D", "DEGRADED"),
    "F>S": ("recovered", "R", "RECOVERED"),
    "F>F": ("unsolved", "x", "UNSOLVED"),
    "S": ("solved", ".", "SOLVED"),
    "F": ("unsolved", "x", "UNSOLVED"),
}
"""Transition, or outcome of a nominal cell -> category of the last line, letter, and word of -v."""


class Degraded(pytest.fail.Exception):  # type: ignore[misc,name-defined]
    """The clean arm succeeded and the shifted arm failed."""


class Unsolved(pytest.skip.Exception):  # type: ignore[misc,name-defined]
    """Neither arm succeeded: there is nothing to compare."""


class ReportFacts(TypedDict):
    """What a node's report carries from the process that ran it to the one that prints.

    Attributes:
        suite, cell: which cell.
        transition: ``S`` or ``F`` of a nominal cell; None with an infrastructure error.
        told: the outcome is the transition's own, not that of an assertion of the user's.
        error: kind of an infrastructure error, or None.
        executed: rollouts run for it.
        explanation: the text for people.
    """

    suite: str
    cell: str
    transition: str | None
    told: bool
    error: str | None
    executed: int
    explanation: str


def facts_of(report: pytest.TestReport) -> ReportFacts | None:
    """The facts on a report, or None if it is not a cell's."""
    facts: ReportFacts | None = getattr(report, "vla", None)
    return facts


def told_by_transition(
    transition: str, report: pytest.TestReport, raised: BaseException | None
) -> bool:
    """Whether the node's outcome is the transition's own.

    A test that fails for another reason, or skips itself, keeps pytest's own word.
    """
    if hasattr(report, "wasxfail"):
        return False
    if report.passed:
        return True
    return isinstance(raised, Degraded if transition == "S>F" else Unsolved)


def status_of(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Category, letter and word of a cell's call; None leaves it to pytest."""
    facts = facts_of(report)
    if facts is None or report.when != "call" or not facts["told"]:
        return None
    return WORDS.get(facts["transition"] or "")
