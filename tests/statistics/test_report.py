"""The run report: clean rollouts counted once, gaps named, notes where the numbers need them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_vla_shift.statistics.report import SCHEMA, RunFacts, SuiteReport, build_report
from tests.statistics.build import add, planned, record, world

FACTS = RunFacts("night", "policy", "r1", privileged=False, seeded=True)
SS, SF, FF = (True, True), (True, False), (False, False)


def suite_of(
    outcomes: dict[str, dict[str, list[tuple[bool, bool]]]], *, lost: tuple[str, ...] = ()
) -> SuiteReport:
    cells, records = world(outcomes)
    for name in lost:
        del records[name]
    (suite,) = build_report(FACTS, cells, records, resamples=50).suites
    return suite


def test_a_clean_rollout_is_counted_once_however_many_conditions_it_serves() -> None:
    conditions = ("null", "camera-L1", "camera-L2")
    suite = suite_of({c: {"pick": [SS, SF, FF, FF]} for c in conditions})
    assert (suite.clean.rollouts, suite.clean.serves) == (4, 12)
    assert suite.clean.sr == 0.5


def test_the_clean_success_rate_weighs_tasks_alike() -> None:
    suite = suite_of({"null": {"a": [SS] * 9, "b": [FF]}})
    assert suite.clean.sr == 0.5


def test_a_clean_rollout_with_an_error_is_no_failure() -> None:
    cells, records = world({"null": {"pick": [SS, SS, FF]}})
    add(records, record("pick", 2, "clean", error="simulator"))
    (suite,) = build_report(FACTS, cells, records, resamples=50).suites
    assert (suite.clean.rollouts, suite.clean.errors, suite.clean.sr) == (2, 1, 1.0)
    assert (suite.planned, suite.reported, suite.errors) == (3, 3, 1)
    assert suite.error_kinds == (("simulator", 1),)


def test_a_clean_rollout_counts_even_where_its_shifted_arm_is_missing() -> None:
    suite = suite_of({"camera-L1": {"pick": [SS, FF]}}, lost=(planned("pick", 1).shifted_key,))
    assert (suite.clean.rollouts, suite.clean.sr, suite.clean.serves) == (2, 0.5, 1)
    assert (suite.planned, suite.reported) == (2, 1)
    (gap,) = suite.missing
    assert (gap.cell, gap.arms, gap.axis) == ("demo-pick-e01-camera-L1", ("shifted",), "camera")


def test_disagreements_of_clean_rollouts_are_counted() -> None:
    cells, records = world({"null": {"pick": [SS, SS]}, "camera-L1": {"pick": [SS, SS]}})
    add(records, record("pick", 0, "clean", True, disagreement=True))
    (suite,) = build_report(FACTS, cells, records, resamples=50).suites
    assert suite.clean.disagreements == 1


def test_records_of_an_earlier_plan_change_nothing() -> None:
    cells, records = world({"null": {"pick": [SS, FF]}})
    before = build_report(FACTS, cells, records, resamples=50)
    add(records, record("pick", 7, "clean", True), record("pick", 7, "blur-L1", False))
    assert build_report(FACTS, cells, records, resamples=50) == before


def test_the_same_cell_id_in_two_suites_is_two_cells() -> None:
    one, other = world({"null": {"pick": [SS]}}), world({"null": {"pick": [FF]}}, "other")
    cells = [replace(cell, cell="pick-e00-null") for cell in (*one[0], *other[0])]
    report = build_report(FACTS, cells, {**one[1], **other[1]}, resamples=50)
    assert [(s.suite, s.planned, s.clean.sr) for s in report.suites] == [
        ("demo", 1, 1.0),
        ("other", 1, 0.0),
    ]
    assert (report.planned, report.reported, report.errors, report.missing) == (2, 2, 0, ())


@pytest.mark.parametrize(
    "facts, outcomes, words",
    [
        (replace(FACTS, privileged=True), {"null": {"a": [SS]}}, "policy is privileged"),
        (replace(FACTS, seeded=False), {"null": {"a": [SS]}}, "Policy seed inert"),
        (
            replace(FACTS, seeded=False, seedable=False),
            {"null": {"a": [SS]}},
            "Policy seed not supported",
        ),
        (FACTS, {"camera-L1": {"a": [SS]}}, "flip floor is unknown"),
    ],
)
def test_notes_say_what_the_numbers_cannot(
    facts: RunFacts, outcomes: dict[str, dict[str, list[tuple[bool, bool]]]], words: str
) -> None:
    (note,) = build_report(facts, *world(outcomes), resamples=50).notes
    assert words in note


def test_a_task_outside_the_average_is_noted_by_name() -> None:
    cells, records = world({"null": {"a": [SS], "b": [SS]}})
    add(records, record("b", 0, "null", error="simulator"))
    report = build_report(replace(FACTS, notes=("as given",)), cells, records, resamples=50)
    assert report.notes[0] == "as given"
    assert "demo null: no measured pair of b" in report.notes[1]


def test_a_condition_without_a_measured_pair_promises_no_average() -> None:
    cells, records = world({"null": {"a": [SS]}, "base-L1": {"a": [SS], "b": [SS]}})
    for task in "ab":
        add(records, record(task, 0, "base-L1", error="simulator"))
    (note,) = build_report(FACTS, cells, records, resamples=50).notes
    assert note == "demo base-L1: no pair was measured."


def test_json_is_plain_and_carries_its_schema() -> None:
    report = build_report(FACTS, *world({"null": {"a": [SS, FF]}}), resamples=50)
    summary = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (summary["kind"], summary["schema"], summary["resamples"]) == ("summary", SCHEMA, 50)
    assert summary["suites"][0]["clean"]["rollouts"] == 2
