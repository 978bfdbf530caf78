"""StageTracker: ordered, latched, grouped, and never going back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.protocol.stages import Milestone, StageSpec
from pytest_vla_shift.rollouts.stages import StageTracker

NAMES = "abcdef"


def spec(*groups: str) -> StageSpec:
    """``spec("ab|c", "d")``: tracks a-b and c in any order, then d."""
    return StageSpec(
        tuple(
            tuple(tuple(Milestone(f"m-{p}", p) for p in track) for track in group.split("|"))
            for group in groups
        )
    )


def tracked(tracker: StageTracker, *steps: str) -> dict[str, int]:
    """Feed one set of true predicates a step, from step 1; what has latched, and when."""
    for step, true in enumerate(steps, start=1):
        tracker.update(step, {name: name in true for name in NAMES})
    return {name.removeprefix("m-"): at for name, at in tracker.result().completed.items()}


@pytest.mark.parametrize(
    "groups, steps, completed",
    [
        (("abc",), ("", "a", "", "b", "c"), {"a": 2, "b": 4, "c": 5}),
        # Latched: a predicate that flips back stays done.
        (("abc",), ("a", "b", ""), {"a": 1, "b": 2}),
        # A later milestone does not latch before an earlier one, however long it was true.
        (("abc",), ("c", "bc", "b"), {}),
        (("abc",), ("bc", "abc"), {"a": 2, "b": 2, "c": 2}),
        (("abc",), ("ac", "b", "c"), {"a": 1, "b": 2, "c": 3}),
        # Several at one step, in order: the last step of a chunked rollout counts for all.
        (("abc",), ("abc",), {"a": 1, "b": 1, "c": 1}),
        (("abc",), ("ac",), {"a": 1}),
        # Tracks of a group advance in any order.
        (("ab|cd",), ("c", "d", "a", "b"), {"c": 1, "d": 2, "a": 3, "b": 4}),
        (("ab|cd",), ("d", "ca", "bd"), {"a": 2, "c": 2, "b": 3, "d": 3}),
        # Groups wait for each other; the next one may begin at the step that ends the first.
        (("ab", "cd"), ("cd", "a", "cd"), {"a": 2}),
        (("ab", "cd"), ("a", "bc", "d"), {"a": 1, "b": 2, "c": 2, "d": 3}),
        (("a|b", "c"), ("ac", "c", "bc"), {"a": 1, "b": 3, "c": 3}),
    ],
)
def test_milestones_latch_in_order(
    groups: tuple[str, ...], steps: tuple[str, ...], completed: dict[str, int]
) -> None:
    assert tracked(StageTracker(spec(*groups)), *steps) == completed


def test_the_result_says_how_deep_and_what_came_next() -> None:
    tracker = StageTracker(spec("ab|cd"))
    tracked(tracker, "c")
    result = tracker.result()
    assert result.milestones == ("m-a", "m-b", "m-c", "m-d")
    assert (result.progress, result.complete) == (0.25, False)
    assert result.first_incomplete == "m-a", "specification order, not order of completion"
    tracked(tracker, "abd")
    result = tracker.result()
    assert (result.progress, result.complete, result.first_incomplete) == (1.0, True, None)


def test_a_result_does_not_change_afterwards() -> None:
    tracker = StageTracker(spec("ab"))
    before = tracker.result()
    tracked(tracker, "ab")
    assert before.completed == {}


def test_what_was_true_after_settling_is_no_milestone() -> None:
    tracker = StageTracker(spec("abc", "d"), initially_true=("b", "d", "f"))
    assert tracker.result().milestones == ("m-a", "m-c")
    assert tracked(tracker, "c", "a", "c") == {"a": 2, "c": 3}
    assert tracker.result().complete


def test_a_task_without_milestones_left_is_complete() -> None:
    tracker = StageTracker(spec("ab"), initially_true=("a", "b"))
    tracked(tracker, "", "ab")
    result = tracker.result()
    assert result.milestones == ()
    assert (result.progress, result.complete, result.first_incomplete) == (1.0, True, None)


specs = st.sampled_from([("abcdef",), ("abc|def",), ("ab|c", "d|ef"), ("a", "b", "c|d|e", "f")])
steps = st.lists(st.frozensets(st.sampled_from(NAMES)), min_size=1, max_size=8)


@given(specs, steps, st.data())
def test_more_true_predicates_never_lower_the_progress(
    groups: tuple[str, ...], true: list[frozenset[str]], data: st.DataObject
) -> None:
    more = [now | data.draw(st.frozensets(st.sampled_from(NAMES))) for now in true]
    few, many = StageTracker(spec(*groups)), StageTracker(spec(*groups))
    before = tracked(few, *("".join(sorted(now)) for now in true))
    after = tracked(many, *("".join(sorted(now)) for now in more))
    assert set(before) <= set(after)
    assert all(after[name] <= before[name] for name in before)
    assert many.result().progress >= few.result().progress


@given(specs, steps)
def test_steps_of_a_track_and_of_groups_never_decrease(
    groups: tuple[str, ...], true: list[frozenset[str]]
) -> None:
    completed = tracked(StageTracker(spec(*groups)), *("".join(sorted(now)) for now in true))
    done_before = 0
    for group in groups:
        for track in group.split("|"):
            reached = [completed.get(name) for name in track]
            latched = [step for step in reached if step is not None]
            assert latched == sorted(latched)
            assert all(step >= done_before for step in latched)
            # Nothing is skipped: after the first that is missing, all are missing.
            assert reached[: len(latched)] == latched
        of_group = [completed.get(name) for name in group.replace("|", "")]
        if None in of_group:
            later = "".join(groups[groups.index(group) + 1 :]).replace("|", "")
            assert not set(later) & set(completed)
            break
        done_before = max(step for step in of_group if step is not None)


@given(specs, steps)
def test_progress_never_falls_and_the_first_incomplete_is_the_first_missing(
    groups: tuple[str, ...], true: list[frozenset[str]]
) -> None:
    tracker = StageTracker(spec(*groups))
    last = 0.0
    for step, now in enumerate(true, start=1):
        tracker.update(step, {name: name in now for name in NAMES})
        result = tracker.result()
        assert result.progress >= last
        last = result.progress
        missing = [name for name in result.milestones if name not in result.completed]
        assert result.first_incomplete == (missing[0] if missing else None)
        assert result.complete == (not missing)
