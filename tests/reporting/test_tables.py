"""The terminal table: 80 columns, the right numbers in the right columns, nothing hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_vla_shift.reporting import numbers
from pytest_vla_shift.reporting.tables import render
from pytest_vla_shift.statistics.report import build_report
from tests.reporting.runs import FACTS, FS, SF, SS, clean_run, odd_run
from tests.statistics.build import add, record, world


def line(text: str, start: str) -> list[str]:
    (found,) = [row for row in text.splitlines() if row.startswith(start)]
    return found.removeprefix(start).split()


def test_a_row_holds_the_condition_in_the_order_of_the_header() -> None:
    text = render(odd_run())
    header = line(text, "condition")
    assert " ".join(header) == "pairs SRc SRs dSR [95% interval] S>S S>F F>S F>F flr prog g1"
    pairs, clean, shifted, dsr, _, ss, sf, fs, ff, floor, progress, first = line(text, "camera L2")
    assert (pairs, ss, sf, fs, ff) == ("6(1)", "3", "2", "0", "1")
    # pick: 3 of 4 clean, 1 of 4 shifted; place, without its error and its gap: 2 of 2 in both.
    assert (clean, shifted, dsr) == (".875", ".625", "+.250")
    assert (floor, progress, first) == ("0", ".500", "50%")


def test_the_flip_floor_comes_first_and_is_called_so() -> None:
    rows = render(odd_run()).splitlines()
    assert rows[1].startswith("condition")
    assert rows[2].startswith("null (floor)")
    assert "flip floor 0 of 8 pairs" in render(odd_run())


def test_beside_the_counts_stands_how_many_of_the_same_episodes_change_without_a_shift() -> None:
    outcomes = {
        "null": {"pick": [SF, FS, SS, SS]},
        "camera-L1": {"pick": [SF, FS, SF, SS]},
        "camera-L2": {"pick": [SF, FS]},
        "camera-L3": {"pick": [SS, SF, SS, SS, SS]},
    }
    cells, records = world(outcomes)
    for episode, was in enumerate((True, False, True, True, True)):
        add(records, record("pick", episode, "clean", was))
    text = render(build_report(FACTS, cells, records, resamples=50))
    floors = {name: line(text, name)[9] for name in ("null (floor)", "camera L1", "camera L2")}
    assert floors == {"null (floor)": "2", "camera L1": "2", "camera L2": "2"}
    # The fifth episode has no null pair: the floor is over the other four, and says so.
    assert "/4" in line(text, "camera L3")[9]
    alone = build_report(FACTS, *world({"camera-L1": {"pick": [SF]}}), resamples=50)
    assert line(render(alone), "camera L1")[9] == "-"


def test_errors_gaps_and_disagreements_are_told() -> None:
    text = " ".join(render(odd_run()).split())
    assert "1 pair with an infrastructure error (in brackets, in no rate): worker lost 1" in text
    assert "MISSING: 24 cells planned, 23 reported. Not reported: demo-place-e02-camera-L2" in text
    assert "milestones disagree with success: 0 clean, 1 shifted" in text
    calm = render(clean_run())
    for word in ("MISSING", "error", "disagree"):
        assert word not in calm


def test_an_interval_without_width_is_replaced_and_starred() -> None:
    text = render(odd_run())
    null = line(text, "null (floor)")
    assert null[4].endswith("]*")
    assert "Tango" in text
    assert "Tango" not in render(clean_run())


def test_what_a_reader_must_know_of_the_policy_is_a_note() -> None:
    text = " ".join(render(odd_run(replace(FACTS, privileged=True, seeded=False))).split())
    assert "note: The policy is privileged" in text
    assert "note: Policy seed inert" in text
    remote = replace(FACTS, seeded=False, seedable=False)
    assert "note: Policy seed not supported" in " ".join(render(odd_run(remote)).split())
    assert "note" not in render(odd_run())


def test_a_run_without_null_says_that_the_floor_is_unknown() -> None:
    report = build_report(FACTS, *world({"camera-L1": {"pick": [SS, SF]}}), resamples=100)
    assert "the flip floor is unknown" in " ".join(render(report).split())


@pytest.mark.parametrize("axis", ["camera", "an_axis_with_a_name_that_goes_on_and_on_and_on"])
def test_no_line_is_longer_than_80_columns(axis: str) -> None:
    outcomes = {
        "null": {"pick": [SS] * 1200},
        f"{axis}-L3": {"pick": [SF] * 1200},
    }
    cells, records = world(outcomes)
    for cell in cells[-200:]:
        del records[cell.shifted_key]
    report = build_report(FACTS, cells, records, resamples=50)
    text = render(report)
    assert max(map(len, text.splitlines())) <= 80
    (row,) = [r for r in text.splitlines() if " L3 " in r[:24]]
    assert row.split()[-1] == "0%"
    assert ("~ L3" in row) is (axis != "camera")


def test_every_suite_has_a_table_of_its_own() -> None:
    first, second = world({"null": {"pick": [SS]}}), world({"null": {"pick": [SF]}}, "other")
    cells, records = [*first[0], *second[0]], {**first[1], **second[1]}
    text = render(build_report(FACTS, cells, records, resamples=50))
    assert text.index("demo · policy scripted") < text.index("other · policy scripted")
    assert text.count("null (floor)") == 2


def test_a_run_without_a_plan_says_so() -> None:
    assert "no pair was planned" in render(build_report(FACTS, [], {}))


@pytest.mark.parametrize(
    "value, shown",
    [
        (0.0, ".000"),
        (1.0, "1.00"),
        (41 / 80, ".513"),
        (0.59 - 0.02, ".570"),
        (0.9996, "1.00"),
        (None, "-"),
    ],
)
def test_rates_round_halves_up_as_papers_do(value: float | None, shown: str) -> None:
    assert numbers.rate(value) == shown


@pytest.mark.parametrize(
    "value, shown", [(-0.1375, "-.138"), (0.0, "+.000"), (-0.0001, "+.000"), (-1.0, "-1.00")]
)
def test_signs_are_printed_and_zero_has_one_face(value: float, shown: str) -> None:
    assert numbers.signed(value) == shown
