"""The plan: sorted, the same every time, cut as asked, and quick to make."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vla_shift.protocol.conditions import Condition
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import Cell, Cut, CutCheck, cost, episode_of, plan
from pytest_vla_shift.protocol.suite import Suite, load_suite, parse_suite
from tests.protocol.test_suite import SUITE


@pytest.fixture
def suite() -> Suite:
    return parse_suite(SUITE, "s.toml")


def test_cells_come_by_task_episode_and_condition(suite: Suite) -> None:
    conditions = ["null", "blur-L1", "blur-L2", "camera-L1", "camera-L2", "camera-L3"]
    assert [cell.id for cell in plan(suite)] == [
        f"toy-{task}-e0{episode}-{condition}"
        for task in ("left", "right")
        for episode in range(3)
        for condition in conditions
    ]


def test_the_same_suite_written_in_another_order_is_the_same_plan(suite: Suite) -> None:
    text = SUITE.replace('["left", "right"]', '["right", "left"]').replace('"0:3"', "[2, 1, 0]")
    assert plan(parse_suite(text, "s.toml")) == plan(suite)


def test_ids_are_unique_and_never_of_clean() -> None:
    cells = plan(load_suite("quickstart"))
    assert len({cell.id for cell in cells}) == len(cells) == 78
    assert all(cell.condition.name != "clean" for cell in cells)


AXIS = st.from_regex(r"[a-z0-9_]+", fullmatch=True)
NAMED = st.text(min_size=1) | st.sampled_from(["a-e07-null", "e01-L2", "-e00-blur-L1-r1", "a\nb"])


@given(
    task_suite=NAMED,
    task=NAMED,
    index=st.integers(0, 20_000),
    axes=st.lists(AXIS, max_size=3) | st.just(["e08"]),
    level=st.integers(1, 9),
    replicate=st.integers(0, 1),
)
@example("s", "x-e07", 8, [], 1, 1)
@example("s", "x-e07", 8, ["e09"], 1, 0)
def test_the_episode_is_read_back_from_the_id_of_any_cell(
    task_suite: str, task: str, index: int, axes: list[str], level: int, replicate: int
) -> None:
    names = [f"{'+'.join(axes)}-L{level}"] if axes else ["null", "nominal"]
    for name in names:
        cell = Cell("any", Episode(task_suite, task, index), Condition(name), replicate)
        assert episode_of(cell.id) == cell.episode_id
        assert episode_of(f"{cell.id}-7") == cell.episode_id, "with a further parameter"


@pytest.mark.parametrize(
    "text", ["", "no-policy", "camera-L2", "toy-left-e1-null", "a-e07-b", "e07"]
)
def test_an_id_of_something_else_has_no_episode(text: str) -> None:
    assert episode_of(text) is None


@pytest.mark.parametrize(
    "cut, count, all_of_them",
    [
        (Cut(), 36, ""),
        (Cut(tasks=("left",)), 18, "-left-"),
        (Cut(tasks=("toy-ri",)), 18, "-right-"),
        (Cut(tasks=("left", "right")), 36, ""),
        (Cut(episodes=(1,)), 12, "-e01-"),
        (Cut(episodes=(0, 9)), 12, "-e00-"),
        (Cut(axes=("null",)), 6, "-null"),
        (Cut(axes=("camera",)), 18, "-camera-"),
        (Cut(axes=("camera",), levels=("L3",)), 6, "-camera-L3"),
        (Cut(axes=("blur",), levels=("L3",)), 0, ""),
        (Cut(tasks=("left",), episodes=(2,), axes=("blur",), levels=("L1",)), 1, "left-e02-blur"),
    ],
)
def test_a_cut_keeps_what_it_names(suite: Suite, cut: Cut, count: int, all_of_them: str) -> None:
    cells = plan(suite, cut)
    assert len(cells) == count
    assert all(all_of_them in cell.id for cell in cells)


def test_levels_do_not_cut_the_null_arm(suite: Suite) -> None:
    names = {cell.condition.name for cell in plan(suite, Cut(levels=("L1",)))}
    assert names == {"null", "blur-L1", "camera-L1"}


def test_the_cost_counts_a_shared_cell_and_a_shared_clean_rollout_once(suite: Suite) -> None:
    cells = plan(suite)
    once, twice = cost(cells), cost([*cells, *cells])
    assert (once.nodes, once.shifted, once.clean, once.rollouts, once.saved) == (36, 36, 6, 42, 30)
    assert twice == replace(once, nodes=72)
    assert cost([]).rollouts == 0


@pytest.mark.parametrize(
    "cut, words",
    [
        (Cut(tasks=("left", "juggle")), "--vla-task: no suite of this run has 'juggle'; there are"),
        (Cut(axes=("camra",)), "--vla-axis: no suite of this run has 'camra'; there are blur, nul"),
        (Cut(levels=("L7",)), "--vla-level: no suite of this run has 'L7'; there are L1, L2, L3"),
        (Cut(episodes=(0, 9)), "--vla-episodes: no suite of this run has '9'; there are 0, 1, 2"),
        (Cut(axes=("blur",), levels=("L3",)), "together leave nothing of any suite"),
    ],
)
def test_a_cut_that_would_silently_run_nothing_is_told(suite: Suite, cut: Cut, words: str) -> None:
    check = CutCheck(cut)
    check.see(suite)
    problem = check.problem()
    assert problem is not None
    assert words in problem


def test_a_word_is_good_if_any_suite_of_the_run_knows_it(suite: Suite) -> None:
    other = parse_suite(
        SUITE.replace('"small"', '"other"')
        .replace('["left", "right"]', '["up"]')
        .replace("[axes.blur]", "[axes.soft]"),
        "o.toml",
    )
    check = CutCheck(Cut(tasks=("up",), axes=("soft",)))
    check.see(suite)
    assert check.problem() is not None
    check.see(other)
    assert check.problem() is None


def test_nothing_is_said_before_any_suite_is_loaded() -> None:
    assert CutCheck(Cut(axes=("camra",))).problem() is None


def test_ten_thousand_cells_are_planned_in_well_under_a_second(suite: Suite) -> None:
    large = parse_suite(SUITE.replace('"0:3"', '"0:850"'), "s.toml")
    began = time.process_time()
    cells = plan(large)
    ids = {cell.id for cell in cells}
    assert time.process_time() - began < 0.5
    assert len(ids) == len(cells) == 10_200
