"""Counts, rates, errors, gaps and depth, as functions of the records alone."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.statistics.aggregate import ConditionAggregate, aggregate
from pytest_vla_shift.statistics.pairs import Transition, pair_rows
from tests.statistics.build import add, by_key, planned, record, world

ALL_FOUR = [(True, True), (True, False), (False, True), (False, False)]


def only(items: tuple[ConditionAggregate, ...]) -> ConditionAggregate:
    (item,) = items
    return item


def test_each_pair_of_outcomes_has_its_transition() -> None:
    table = pair_rows(*world({"camera-L1": {"pick": ALL_FOUR}}))
    assert [row.transition for row in table.rows] == list(Transition)
    found = only(aggregate(table.rows))
    assert (found.ss, found.sf, found.fs, found.ff, found.changed) == (1, 1, 1, 1, 2)


def test_errors_leave_every_rate_and_are_counted() -> None:
    # 400 pairs, 20 with an errored arm: rates over 380, both numbers kept.
    cells, records = world({"camera-L1": {"pick": [(True, i % 2 == 0) for i in range(400)]}})
    for episode in range(0, 20, 2):
        add(records, record("pick", episode, "camera-L1", error="worker lost"))
        add(records, record("pick", episode + 1, "clean", error="simulator"))
    found = only(aggregate(pair_rows(cells, records).rows))
    assert (found.planned, found.pairs, found.errors, found.missing) == (400, 380, 20, 0)
    assert found.error_kinds == (("simulator", 10), ("worker lost", 10))
    assert found.sr_clean == 1.0
    assert found.sr_shifted == 190 / 380
    assert found.ss + found.sf + found.fs + found.ff == 380


def test_an_errored_pair_changes_no_rate_at_all() -> None:
    cells, records = world({"camera-L1": {"pick": ALL_FOUR * 5}})
    before = only(aggregate(pair_rows(cells, records).rows))
    cells.append(planned("pick", 20))
    add(records, record("pick", 20, "clean", True), record("pick", 20, "camera-L1", error="policy"))
    after = only(aggregate(pair_rows(cells, records).rows))
    assert after.errors == before.errors + 1
    assert (after.pairs, after.dsr, after.interval) == (before.pairs, before.dsr, before.interval)
    assert (after.sr_clean, after.sr_shifted) == (before.sr_clean, before.sr_shifted)


def test_a_missing_record_is_named_and_not_called_an_error() -> None:
    cells, records = world({"camera-L1": {"pick": ALL_FOUR}})
    del records[cells[2].shifted_key]
    table = pair_rows(cells, records)
    (gap,) = table.missing
    assert (gap.planned, gap.arms) == (cells[2], ("shifted",))
    found = only(aggregate(table.rows, table.missing))
    assert (found.planned, found.pairs, found.errors, found.missing) == (4, 3, 0, 1)


def test_a_condition_that_nobody_reported_is_still_listed() -> None:
    cells, _ = world({"camera-L1": {"pick": ALL_FOUR}})
    table = pair_rows(cells, {})
    found = only(aggregate(table.rows, table.missing))
    assert (found.planned, found.missing, found.pairs) == (4, 4, 0)
    assert (found.sr_clean, found.dsr, found.interval, found.mcnemar) == (None, None, None, None)
    assert found.unmeasured_tasks == ("pick",)


def test_an_arm_that_was_not_run_after_an_error_is_an_error_not_a_gap() -> None:
    table = pair_rows([planned()], by_key([record(error="missing asset")]))
    assert not table.missing
    (row,) = table.rows
    assert row.error_kinds == ("missing asset",)
    assert row.transition is None


def test_arms_that_started_differently_are_no_pair() -> None:
    arms = [record(), record(condition="camera-L1", success=False, fingerprint="moved")]
    (row,) = pair_rows([planned()], by_key(arms)).rows
    assert row.pair_error == ("not a pair", "fingerprint")
    assert row.transition is None


def test_policy_seeds_must_agree_except_in_the_null_arm() -> None:
    clean = record()
    other = record(condition="camera-L1", policy_seed=8)
    (row,) = pair_rows([planned()], by_key([clean, other])).rows
    assert row.pair_error == ("not a pair", "policy_seed")
    null = record(condition="null", policy_seed=8, seed_note="other")
    (row,) = pair_rows([planned(condition="null")], by_key([clean, null])).rows
    assert row.transition is Transition.SS


def test_a_record_of_another_place_under_the_key_is_refused() -> None:
    records = {planned().clean_key: record(episode=3), planned().shifted_key: record()}
    with pytest.raises(ValueError, match="its record is of"):
        pair_rows([planned()], records)


def test_a_cell_planned_twice_and_an_episode_measured_twice_are_refused() -> None:
    cells, records = world({"camera-L1": {"pick": ALL_FOUR}})
    with pytest.raises(ValueError, match="planned twice"):
        pair_rows([*cells, cells[0]], records)
    rows = pair_rows(cells, records).rows
    with pytest.raises(ValueError, match="two pairs of pick episode 0"):
        aggregate([*rows, rows[0]])


def test_macro_average_weighs_tasks_alike_whatever_their_pairs() -> None:
    cells, records = world(
        {"camera-L1": {"big": [(True, False)] * 30, "small": [(True, True)] * 10}}
    )
    found = only(aggregate(pair_rows(cells, records).rows))
    assert found.dsr == 0.5
    assert [task.dsr for task in found.tasks] == [1.0, 0.0]


def test_a_task_that_lost_all_its_pairs_is_named() -> None:
    cells, records = world({"camera-L1": {"a": [(True, False)], "b": [(True, True)]}})
    add(records, record("b", 0, "camera-L1", error="simulator"))
    found = only(aggregate(pair_rows(cells, records).rows))
    assert found.unmeasured_tasks == ("b",)
    assert found.dsr == 1.0


def test_no_discordant_pair_is_flagged_and_tango_stands_in() -> None:
    cells, records = world({"camera-L1": {"pick": [(True, True)] * 80}})
    found = only(aggregate(pair_rows(cells, records).rows))
    assert found.degenerate
    assert found.interval == (0.0, 0.0)
    assert found.tango == pytest.approx((-0.046, 0.046), abs=0.0005)


def test_depth_is_read_over_broken_pairs_only() -> None:
    cells = [planned("pick", e) for e in range(5)]
    records = by_key(record("pick", e, "clean", True) for e in range(4))
    add(records, record("pick", 4, "clean", False, depth=(3, 4)))
    add(
        records,
        record("pick", 0, "camera-L1", False, depth=(0, 4)),
        record("pick", 1, "camera-L1", False, depth=(3, 4)),
        # Every milestone latched and the official check says no: kept apart.
        record("pick", 2, "camera-L1", False, depth=(4, 4), disagreement=True),
        record("pick", 3, "camera-L1", True),
        record("pick", 4, "camera-L1", False, depth=(0, 4)),
    )
    found = only(aggregate(pair_rows(cells, records).rows))
    assert found.depth.pairs == 3
    assert found.depth.progress == pytest.approx((0 + 0.75 + 1) / 3)
    assert found.depth.first_stage == pytest.approx(1 / 3)
    assert found.depth.complete == 1
    assert [(c.milestone, c.first, c.pairs) for c in found.depth.first_incomplete] == [
        ("g1", True, 1),
        ("g4", False, 1),
        (None, False, 1),
    ]
    assert found.disagreements == 1


def test_a_task_without_milestones_stays_out_of_the_depth_and_in_the_rates() -> None:
    clean = record()
    broken = record(condition="camera-L1", success=False, depth=(0, 0))
    found = only(aggregate(pair_rows([planned()], by_key([clean, broken])).rows))
    assert (found.sf, found.dsr) == (1, 1.0)
    depth = found.depth
    assert (depth.pairs, depth.progress, depth.first_stage, depth.complete) == (0, None, None, 0)


def test_null_comes_first_then_axes_by_level_and_suites_apart() -> None:
    cells, records = world(
        {c: {"pick": ALL_FOUR} for c in ("camera-L2", "blur-L1", "null", "camera-L1")}
    )
    more, extra = world({"base-L1": {"pick": ALL_FOUR}}, suite="another")
    found = aggregate(pair_rows([*cells, *more], {**records, **extra}).rows)
    assert [(f.suite, f.condition) for f in found] == [
        ("another", "base-L1"),
        ("demo", "null"),
        ("demo", "blur-L1"),
        ("demo", "camera-L1"),
        ("demo", "camera-L2"),
    ]


outcome = st.tuples(st.booleans(), st.booleans())


@st.composite
def balanced(draw: st.DrawFn) -> dict[str, list[tuple[bool, bool]]]:
    tasks, episodes = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    some = st.lists(outcome, min_size=episodes, max_size=episodes)
    return {f"task{t}": draw(some) for t in range(tasks)}


@settings(max_examples=60, deadline=None)
@given(balanced(), st.randoms(use_true_random=False))
def test_what_holds_for_every_balanced_run(
    tasks: dict[str, list[tuple[bool, bool]]], shuffle: random.Random
) -> None:
    cells, records = world({"camera-L1": tasks})
    rows = list(pair_rows(cells, records).rows)
    found = only(aggregate(rows, resamples=200))
    assert found.ss + found.sf + found.fs + found.ff == found.pairs == len(cells)
    assert found.dsr == pytest.approx((found.sf - found.fs) / found.pairs)
    assert found.dsr == pytest.approx((found.sr_clean or 0) - (found.sr_shifted or 0))
    assert found.interval is not None
    assert -1 <= found.interval[0] <= found.interval[1] <= 1
    if found.changed == 0:
        assert found.degenerate
    shuffle.shuffle(rows)
    shuffle.shuffle(cells)
    assert only(aggregate(rows, resamples=200)) == found
    again = pair_rows(cells, dict(shuffle.sample(sorted(records.items()), len(records))))
    assert only(aggregate(again.rows, resamples=200)) == found


def test_to_json_survives_a_round_trip_through_text() -> None:
    cells, records = world({"null": {"pick": ALL_FOUR}, "camera-L1": {"pick": ALL_FOUR}})
    for item in aggregate(pair_rows(cells, records).rows):
        text = json.dumps(item.to_json(), allow_nan=False)
        assert json.loads(text)["changed"] == 2
