"""Milestones of LIBERO's tasks and the catalogue; no simulator is built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.protocol.observation import Goal
from pytest_vla_shift.simulators.libero_stages import instruction_of, specification, subgoals


def tracks(*predicates: tuple[str, ...], instruction: str = "put it there") -> list[list[str]]:
    """Milestone names by track."""
    spec = specification(subgoals(Goal(predicates), instruction))
    assert len(spec.groups) == 1, "no order between the goals of a task"
    return [[milestone.name for milestone in track] for track in spec.groups[0]]


def test_placing_an_object_is_reached_grasped_lifted_brought_and_done() -> None:
    assert tracks(("in", "milk_1", "basket_1_contain_region")) == [
        [
            "reached milk_1",
            "grasped milk_1",
            "lifted milk_1",
            "at target milk_1",
            "in milk_1 basket_1_contain_region",
        ]
    ]


def test_a_fixture_is_reached_and_done_whatever_order_bddl_lists() -> None:
    assert tracks(
        ("close", "white_cabinet_1_bottom_region"),
        ("in", "akita_black_bowl_1", "white_cabinet_1_bottom_region"),
    ) == [
        ["reached white_cabinet_1_bottom_region", "close white_cabinet_1_bottom_region"],
        [
            "reached akita_black_bowl_1",
            "grasped akita_black_bowl_1",
            "lifted akita_black_bowl_1",
            "at target akita_black_bowl_1",
            "in akita_black_bowl_1 white_cabinet_1_bottom_region",
        ],
    ]


def test_pushing_needs_no_grasp() -> None:
    goal = ("on", "plate_1", "main_table_stove_front_region")
    assert tracks(goal, instruction="push the plate to the front of the stove") == [
        ["reached plate_1", "at target plate_1", " ".join(goal)]
    ]


@pytest.mark.parametrize("predicate", [("up", "milk_1"), ("in", "milk_1"), ("open", "a", "b")])
def test_a_goal_that_nothing_is_known_of_is_refused(predicate: tuple[str, ...]) -> None:
    with pytest.raises(SimulatorError, match="no milestones are known"):
        subgoals(Goal((predicate,)), "do it")


def test_two_goals_for_one_object_are_refused_rather_than_merged() -> None:
    with pytest.raises(SimulatorError, match="two goals ask the same"):
        subgoals(Goal((("on", "cup_1", "plate_1"), ("on", "cup_1", "tray_1"))), "do it")


@pytest.mark.parametrize(
    "task, sentence",
    [
        ("turn_on_the_stove", "turn on the stove"),
        ("KITCHEN_SCENE10_put_the_bowl_on_it", "put the bowl on it"),
        ("LIVING_ROOM_SCENE2_put_both_in", "put both in"),
    ],
)
def test_the_instruction_is_the_tasks_name_without_its_scene(task: str, sentence: str) -> None:
    assert instruction_of(task) == sentence


@pytest.mark.parametrize("name", catalog.task_suites("libero"))
def test_the_catalogue_is_the_installed_packages(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("libero.libero")
    from libero.libero import get_libero_path
    from libero.libero.benchmark import get_benchmark

    suite = catalog.find(name)
    assert suite is not None
    benchmark = get_benchmark(name)()
    capsys.readouterr()  # the benchmark announces its task order
    assert suite.tasks == tuple(benchmark.get_task_names())
    assert [instruction_of(task) for task in suite.tasks] == [
        benchmark.get_task(i).language for i in range(benchmark.n_tasks)
    ]
    for task in suite.tasks:
        states = Path(get_libero_path("init_states"), name, f"{task}.pruned_init.npz")
        assert len(np.load(states, allow_pickle=False)["states"]) == suite.initial_states
        assert Path(get_libero_path("bddl_files"), name, f"{task}.bddl").is_file()


def test_horizons_are_the_customary_ones() -> None:
    horizons = {}
    for name in catalog.task_suites("libero"):
        suite = catalog.find(name)
        assert suite is not None
        horizons[name.removeprefix("libero_")] = suite.horizon
    assert horizons == {"spatial": 220, "object": 280, "goal": 300, "10": 520, "90": 400}


def test_every_released_task_has_milestones() -> None:
    """All 130 goals, read by LIBERO's own parser."""
    pytest.importorskip("libero.libero")
    from pytest_vla_shift.simulators.libero_world import import_environments

    import_environments()
    from libero.libero import get_libero_path
    from libero.libero.envs.bddl_utils import robosuite_parse_problem

    counts = []
    for name in catalog.task_suites("libero"):
        suite = catalog.find(name)
        assert suite is not None
        for task in suite.tasks:
            problem = robosuite_parse_problem(
                str(Path(get_libero_path("bddl_files"), name, f"{task}.bddl"))
            )
            goal = Goal(tuple(tuple(part) for part in problem["goal_state"]))
            assert all(word == word.lower() for part in goal.predicates for word in part)
            counts.append(
                len(list(specification(subgoals(goal, instruction_of(task))).milestones()))
            )
    assert len(counts) == 130
    assert set(counts) <= {2, 3, 4, 5, 7, 10, 12}
