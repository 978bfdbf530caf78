"""Screening decides by the pre-registered rule and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import cost, plan
from pytest_vla_shift.protocol.screening import (
    Candidate,
    Outcomes,
    Screening,
    ScreeningState,
    Verdict,
    decide,
)
from pytest_vla_shift.protocol.suite import load_suite, parse_suite
from tests.protocol.test_suite import SUITE

POOL: tuple[Candidate, ...] = tuple(("pool", f"t{number:02}") for number in range(16))
RULE = Screening(POOL, (12, 4), 4)


def run(successes: int, of: int, errors: int = 0) -> tuple[bool | None, ...]:
    """``of`` rollouts with their successes first and their errors last."""
    measured = of - errors
    return (*(i < successes for i in range(measured)), *(None for _ in range(errors)))


def screened(truth: dict[Candidate, tuple[bool | None, ...]], rule: Screening = RULE):  # type: ignore[no-untyped-def]
    """Run what the machine wants until it wants nothing; returns the state and what ran."""
    outcomes: dict[Candidate, Outcomes] = {}
    ran: list[Episode] = []
    while (state := decide(rule, outcomes)).wanted:
        for episode in state.wanted:
            candidate = (episode.task_suite, episode.task)
            before = outcomes.get(candidate, Outcomes()).rollouts
            assert episode.index == len(before)
            outcomes[candidate] = Outcomes((*before, truth[candidate][episode.index]))
            ran.append(episode)
    return state, ran


def verdict(state: ScreeningState, number: int = 0) -> Verdict:
    return state.candidates[number].verdict


def test_the_papers_story_three_of_twelve_then_one_of_four() -> None:
    """VI-A: the first 12 yield three, so the other four are activated, of which one passes."""
    good = {1, 5, 9, 15}
    truth = {task: run(18 if n in good else 2, 20) for n, task in enumerate(POOL)}
    state, ran = screened(truth)
    assert state.complete
    assert state.activated == 2
    assert state.retained == tuple(POOL[n] for n in sorted(good))
    assert state.enough
    # 12 excluded after 10 rollouts, 4 extended to 20.
    assert len(ran) == 12 * 10 + 4 * 20
    assert [e for e in ran if e.task == "t00"] == [Episode("pool", "t00", i) for i in range(10)]


def test_the_second_batch_is_not_run_where_the_first_suffices() -> None:
    truth = {task: run(20 if n < 5 else 0, 20) for n, task in enumerate(POOL)}
    state, ran = screened(truth)
    assert state.activated == 1
    assert state.complete
    # All and only: the fifth is retained although four would do.
    assert state.retained == POOL[:5]
    assert {verdict(state, n) for n in range(12, 16)} == {Verdict.NOT_ACTIVATED}
    assert not {episode.task for episode in ran} & {task for _, task in POOL[12:]}


@pytest.mark.parametrize(
    "successes,expected", [(0, Verdict.EXCLUDED), (3, Verdict.EXCLUDED), (4, Verdict.OPEN)]
)
def test_three_of_ten_is_excluded_and_four_is_extended(successes: int, expected: Verdict) -> None:
    state = decide(RULE, {POOL[0]: Outcomes(run(successes, 10))})
    assert verdict(state) is expected
    assert state.candidates[0].first == successes
    if expected is Verdict.OPEN:
        assert state.wanted == tuple(Episode(*POOL[0], i) for i in range(10, 20))


@pytest.mark.parametrize(
    "successes,expected",
    [(11, Verdict.NOT_RETAINED), (12, Verdict.RETAINED), (20, Verdict.RETAINED)],
)
def test_twelve_of_twenty_is_retained_and_eleven_is_not(successes: int, expected: Verdict) -> None:
    state = decide(RULE, {POOL[0]: Outcomes(run(successes, 20))})
    assert verdict(state) is expected
    assert state.candidates[0].extended == successes


def test_the_gate_is_over_all_twenty_and_not_over_the_second_ten() -> None:
    late = (*run(4, 10), *run(8, 10))
    assert verdict(decide(RULE, {POOL[0]: Outcomes(late)})) is Verdict.RETAINED
    assert verdict(decide(RULE, {POOL[0]: Outcomes((*run(4, 10), *run(7, 10)))})) is (
        Verdict.NOT_RETAINED
    )


@pytest.mark.parametrize(
    "runs", [run(9, 10, errors=1), run(0, 10, errors=1), run(19, 20, errors=1)]
)
def test_an_infrastructure_error_leaves_a_candidate_undecided(
    runs: tuple[bool | None, ...],
) -> None:
    state = decide(RULE, {POOL[0]: Outcomes(runs)})
    assert verdict(state) is Verdict.UNDECIDED
    assert state.undecided == (POOL[0],)
    assert state.candidates[0].errors == 1
    assert not any(episode.task == "t00" for episode in state.wanted)


def test_an_undecided_candidate_holds_the_next_batch_back_only_if_it_matters() -> None:
    bad = {task: Outcomes(run(0, 10)) for task in POOL[1:12]}
    one_unknown = decide(RULE, {POOL[0]: Outcomes(run(9, 10, errors=1)), **bad})
    assert one_unknown.activated == 2  # even if it passed there would be one of four
    assert not one_unknown.complete
    three = {task: Outcomes(run(20, 20)) for task in POOL[1:4]}
    decisive = decide(RULE, {POOL[0]: Outcomes(run(9, 10, errors=1)), **bad, **three})
    assert decisive.activated == 1
    assert decisive.wanted == ()
    assert not decisive.complete


def test_a_task_that_the_policy_cannot_be_asked_for_takes_no_rollouts() -> None:
    told = {POOL[0]: Outcomes(incompatible="no such embodiment")}
    state = decide(RULE, told)
    assert verdict(state) is Verdict.INCOMPATIBLE
    assert state.candidates[0].reason == "no such embodiment"
    assert {episode.task for episode in state.wanted} == {"t01"}
    with pytest.raises(ValueError, match="has 1 rollouts; the rule asks for 0"):
        decide(RULE, {POOL[0]: Outcomes((True,), "no such embodiment")})


@pytest.mark.parametrize(
    "outcomes,message",
    [
        ({("pool", "other"): Outcomes()}, "pool/other is no candidate"),
        ({POOL[0]: Outcomes(run(3, 11))}, "has 11 rollouts; the rule asks for 10"),
        ({POOL[0]: Outcomes(run(20, 21))}, "has 21 rollouts; the rule asks for 20"),
        (
            {
                **{task: Outcomes(run(20, 20)) for task in POOL[:12]},
                POOL[12]: Outcomes((True,)),
            },
            "t12 was run, and its batch is not activated",
        ),
    ],
)
def test_looking_further_than_the_rule_allows_is_refused(
    outcomes: dict[Candidate, Outcomes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decide(RULE, outcomes)


@given(st.lists(st.integers(0, 20), min_size=16, max_size=16), st.randoms(use_true_random=False))
def test_all_and_only_tasks_that_pass_are_retained_in_frozen_order(counts, random) -> None:  # type: ignore[no-untyped-def]
    truth: dict[Candidate, tuple[bool | None, ...]] = {}
    for task, count in zip(POOL, counts, strict=True):
        row = [i < count for i in range(20)]
        random.shuffle(row)
        truth[task] = tuple(row)
    state, ran = screened(truth)
    passes = [task for task in POOL if sum(truth[task][:10]) > 3 and sum(truth[task]) >= 12]  # type: ignore[arg-type]
    first = [task for task in passes if task in POOL[:12]]
    assert state.activated == (1 if len(first) >= 4 else 2)
    assert list(state.retained) == (first if state.activated == 1 else passes)
    assert state.complete
    order = [POOL.index((e.task_suite, e.task)) for e in ran]
    assert order == sorted(order)


SCREENING = """
[screening]
schedule = [1, 1]
minimum_tasks = 1
first_rollouts = 10
excluded_at_most = 3
extended_rollouts = 20
retained_at_least = 12
candidates = ["toy/right", "toy/left"]
"""


def test_a_suite_may_have_a_screening_and_its_digest_sees_it() -> None:
    suite = parse_suite(SUITE + SCREENING, "s.toml")
    assert suite.screening is not None
    assert suite.screening.candidates == (("toy", "right"), ("toy", "left"))
    assert suite.screening.horizons == {"toy": 60}
    assert suite.screening.batch(1) == (("toy", "left"),)
    digests = {parse_suite(SUITE, "s.toml").protocol_digest, suite.protocol_digest}
    for before, after in (
        ('"toy/right", "toy/left"', '"toy/left", "toy/right"'),
        ("[1, 1]", "[2]"),
        ("minimum_tasks = 1", "minimum_tasks = 2"),
        ("first_rollouts = 10", "first_rollouts = 9"),
        ("most = 3", "most = 2"),
        ("rollouts = 20", "rollouts = 21"),
        ("least = 12", "least = 13"),
    ):
        text = SUITE + SCREENING.replace(before, after)
        digests.add(parse_suite(text, "s.toml").protocol_digest)
    assert len(digests) == 9


@pytest.mark.parametrize(
    "before,after,message",
    [
        ("[1, 1]", "[1, 2]", r"schedule \[1, 2\] is of 3 candidates, but 2 are listed"),
        ("[1, 1]", "[2, 0]", "'schedule' must be a list of batch sizes"),
        ("toy/left", "toy/right", "without repetition"),
        ("toy/left", "left", "candidate 'left' is not like"),
        ("toy/left", "libero_goal/fly", "libero_goal has no task 'fly'"),
        ("toy/left", "other/left", "no horizon is known for 'other'"),
        ("minimum_tasks = 1", "minimum_tasks = 3", "'minimum_tasks' must be an integer"),
        ("rollouts = 20", "rollouts = 9", "'extended_rollouts' must be an integer of at least 10"),
        ("schedule", "shedule", "'schedule' is missing"),
        ("least = 12", "least = 12\nseed = 3", "unknown key 'seed'"),
    ],
)
def test_a_malformed_screening_is_refused(before: str, after: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_suite(SUITE + SCREENING.replace(before, after), "s.toml")


def test_robocasa_shift_on_libero_is_960_nodes_and_1040_rollouts() -> None:
    suite = load_suite("robocasa_shift_on_libero")
    counted = cost(plan(suite))
    assert (counted.nodes, counted.shifted, counted.clean, counted.rollouts) == (960, 960, 80, 1040)
    assert not suite.null
    assert [len(found) for found in suite.episodes.values()] == [20] * 4
    rule = suite.screening
    assert rule is not None
    assert (len(rule.candidates), rule.schedule, rule.minimum_tasks) == (16, (12, 4), 4)
    assert (rule.first_rollouts, rule.excluded_at_most) == (10, 3)
    assert (rule.extended_rollouts, rule.retained_at_least) == (20, 12)


def test_its_tasks_are_those_candidates_of_the_first_batch_that_the_expert_can_do() -> None:
    suite = load_suite("robocasa_shift_on_libero")
    assert suite.screening is not None
    able = [c for c in suite.screening.batch(0) if Scripted().unsupported(*c) is None]
    assert sorted(able) == sorted(suite.tasks)
    assert len(able) == suite.screening.minimum_tasks
