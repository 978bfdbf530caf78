"""A screening runs exactly what the rule asks for, and finds it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.screening import ScreeningState, Verdict
from pytest_vla_shift.protocol.suite import Suite, parse_suite
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.screening import as_json, pool_of, run_screening
from tests.fakes.toy_policies import Expert, Flaky, Raises
from tests.plugin.toy_project import SUITE
from tests.rollouts.toy import ToyEngine, toy_suite

SCREENING = """
[screening]
schedule = [2, 1]
minimum_tasks = 2
first_rollouts = 4
excluded_at_most = 1
extended_rollouts = 8
retained_at_least = 5
candidates = ["toy/reach_left", "toy/reach_left_unsettled", "toy/reach_right"]
"""


def suite_with(candidates: str = "") -> Suite:
    text = SCREENING
    if candidates:
        text = text[: text.index("candidates")] + f"candidates = [{candidates}]\n"
    return parse_suite(SUITE + text, "toy.toml")


class OnlyRight(Expert):
    """Offers one task."""

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None if task == "reach_right" else "an arm that only goes right"


def screen(
    directory: Path, policy: Policy, suite: Suite
) -> tuple[ScreeningState, list[tuple[RolloutRecord, bool]]]:
    made = ToyEngine(directory, suite, policy)
    seen: list[tuple[RolloutRecord, bool]] = []
    state = run_screening(made.engine, suite, lambda record, ran: seen.append((record, ran)))
    return state, seen


def test_it_runs_clean_episodes_and_retains_by_the_rule(tmp_path: Path) -> None:
    suite = suite_with('"toy/reach_left", "toy/reach_right", "toy/reach_left_early"')
    state, seen = screen(tmp_path, Expert(), suite)
    assert state.retained == (("toy", "reach_left"), ("toy", "reach_right"))
    assert state.complete
    assert state.enough
    assert [(r.task, r.episode) for r, _ in seen] == [
        (task, n) for task in ("reach_left", "reach_right") for n in range(8)
    ]
    assert {r.condition for r, _ in seen} == {"clean"}
    assert all(ran for _, ran in seen)
    again, found = screen(tmp_path, Expert(), suite)
    assert again == state
    assert len(found) == 16
    assert not any(ran for _, ran in found)


def test_a_policy_below_the_gate_is_extended_or_not_by_its_first_rollouts(tmp_path: Path) -> None:
    suite = suite_with('"toy/reach_left", "toy/reach_right", "toy/reach_left_early"')
    state, seen = screen(tmp_path, Flaky("0.6"), suite)
    for item in state.candidates:
        rows = [r for r, _ in seen if r.task == item.candidate[1]]
        assert item.first == sum(bool(r.success) for r in rows[:4])
        assert len(rows) == (4 if item.first <= 1 else 8)
        if item.first > 1:
            assert item.extended == sum(bool(r.success) for r in rows)
            assert item.verdict is (
                Verdict.RETAINED if item.extended >= 5 else Verdict.NOT_RETAINED
            )
        else:
            assert item.verdict is Verdict.EXCLUDED


def test_an_infrastructure_error_leaves_the_verdict_open_until_it_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_with('"toy/reach_left", "toy/reach_right", "toy/reach_left_early"')
    monkeypatch.setenv("TOY_FAULTS", "reach_right/2=simerror")
    state, seen = screen(tmp_path, Expert(), suite)
    assert state.undecided == (("toy", "reach_right"),)
    assert not state.complete
    assert state.activated == 1  # it may yet pass, and then two suffice
    assert len([r for r, _ in seen if r.task == "reach_right"]) == 4
    monkeypatch.delenv("TOY_FAULTS")
    state, seen = screen(tmp_path, Expert(), suite)
    assert state.complete
    assert ("toy", "reach_right") in state.retained
    ran = [(r.task, r.episode) for r, executed in seen if executed]
    assert ran == [("reach_right", n) for n in (2, 4, 5, 6, 7)]


def test_a_run_in_which_nothing_works_stops_after_three(tmp_path: Path) -> None:
    state, seen = screen(tmp_path, Raises(), suite_with())
    assert len(seen) == 3
    assert not state.complete
    assert state.candidates[0].verdict is Verdict.OPEN
    assert state.candidates[0].errors == 3


def test_tasks_that_the_policy_does_not_offer_take_no_rollouts(tmp_path: Path) -> None:
    state, seen = screen(tmp_path, OnlyRight(), suite_with())
    assert [item.verdict for item in state.candidates] == [
        Verdict.INCOMPATIBLE,
        Verdict.INCOMPATIBLE,
        Verdict.RETAINED,
    ]
    assert {r.task for r, _ in seen} == {"reach_right"}
    assert state.complete
    assert not state.enough
    found = as_json(suite_with(), OnlyRight().spec, {}, state)
    assert found["retained"] == [["toy", "reach_right"]]
    assert found["enough"] is False


def test_clean_rollouts_of_a_screening_are_those_of_the_suites_pairs(tmp_path: Path) -> None:
    suite = suite_with('"toy/reach_left", "toy/reach_right", "toy/reach_left_early"')
    made = ToyEngine(tmp_path, suite)
    run_screening(made.engine, suite)
    from tests.rollouts.toy import cell_of

    assert made.engine.pair(suite, cell_of(suite, "base-L1")).executed == 1


def test_a_suite_without_candidates_cannot_be_screened() -> None:
    with pytest.raises(UsageError, match=r"toy\.toml has no \[screening\] table"):
        pool_of(toy_suite())
