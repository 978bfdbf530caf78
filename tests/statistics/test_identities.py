"""An axis that changed nothing is told, and is not read as one that the policy withstood."""

from __future__ import annotations

from dataclasses import replace

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.tables import render
from pytest_vla_shift.statistics.report import build_report
from tests.reporting.runs import FACTS
from tests.statistics.build import add, planned, record, world

WHY = "identity: the policy is given no instruction"


def test_a_condition_of_identities_alone_is_marked_and_explained() -> None:
    cells, records = world(
        {c: {"pick": [(True, True)] * 3} for c in ("camera-L1", "language-L1", "null")}
    )
    for episode in range(3):
        item = record("pick", episode, "language-L1")
        add(records, replace(item, identities={"language": WHY}))
    report = build_report(FACTS, cells, records, resamples=10)
    labels = {c.condition: numbers.label(c) for c in report.suites[0].conditions}
    assert labels == {
        **{"null": "null (floor)", "camera-L1": "camera L1", "language-L1": "language L1="}
    }
    (note,) = [n for n in report.notes if "language" in n]
    assert note.startswith(f"demo: axis language changed nothing in 3 pairs ({WHY})")
    assert "language L1=" in render(report)


def test_a_compound_that_lacks_one_axis_is_noted_and_not_marked() -> None:
    axes = ("camera", "language")
    cells = [planned("pick", 0, "simultaneous-L1", axes=axes)]
    records = {r.key: r for r in (record("pick", 0), record("pick", 0, "simultaneous-L1"))}
    add(records, replace(record("pick", 0, "simultaneous-L1"), identities={"language": WHY}))
    report = build_report(FACTS, cells, records, resamples=10)
    assert numbers.label(report.suites[0].conditions[0]) == "simultaneous L1"
    assert any("axis language changed nothing in 1 pairs" in note for note in report.notes)
