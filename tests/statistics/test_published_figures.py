"""The arithmetic of the RoboCasa-Shift paper, on records that have its published counts.

The paper prints three decimals, so agreement is to half a unit of the third. Its per-episode
outcomes are not published: the ones here are chosen to have its counts, per task where it gives
them, with three or four milestones a task. Where it prints no count of S>F pairs, there is one
that its fractions admit: 14, 19 and 24 under base, 16 under camera L3, and 24 under illumination
make its total of 247.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.aggregate import ConditionAggregate, aggregate
from pytest_vla_shift.statistics.pairs import PlannedPair, pair_rows
from tests.statistics.build import add, planned, record

PUBLISHED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("published_robocasa_shift.toml").read_text()
)
TASKS: list[str] = PUBLISHED["tasks"]
CLEAN = dict(zip(TASKS, (14, 15, 14, 16), strict=True))
# Milestones of the four tasks; the first half of the tasks has three, the other half four.
STAGES = dict(zip(TASKS, (3, 3, 4, 4), strict=True))

# Per condition and task: S>F, F>S, and the milestones that the S>F pairs had latched.
COUNTS: dict[str, dict[str, tuple[int, int, list[int]]]] = {
    # 7 + 7 pairs with progress 10/3 + 18/4, and 8 that stop before g1.
    "blur-L1": {
        "PreSoakPan": (5, 2, [0, 1, 1, 1, 2]),
        "RinseSinkBasin": (6, 1, [0, 0, 0, 1, 2, 2]),
        "StackBowlsCabinet": (5, 2, [0, 0, 2, 2, 3]),
        "WashLettuce": (6, 2, [0, 0, 2, 3, 3, 3]),
    },
    # 9 + 9 pairs with progress 16/3 + 18/4, and 26 that stop before g1.
    "blur-L2": {
        "PreSoakPan": (11, 1, [0] * 7 + [2, 2, 2, 2]),
        "RinseSinkBasin": (11, 1, [0] * 6 + [1, 1, 2, 2, 2]),
        "StackBowlsCabinet": (11, 1, [0] * 6 + [1, 2, 2, 2, 2]),
        "WashLettuce": (11, 0, [0] * 7 + [2, 2, 2, 3]),
    },
    "blur-L3": {task: (clean, 0, [0] * clean) for task, clean in CLEAN.items()},
    "camera-L1": {
        "PreSoakPan": (1, 1, [2]),
        "RinseSinkBasin": (1, 1, [2]),
        "StackBowlsCabinet": (1, 1, [1]),
        "WashLettuce": (1, 1, [1]),
    },
    # 21 S>F of which 4 stop before g1; 6 F>S.
    "camera-L2": {
        "PreSoakPan": (6, 1, [2, 2, 2, 2, 1, 1]),
        "RinseSinkBasin": (5, 1, [2] * 5),
        "StackBowlsCabinet": (5, 2, [0] + [2] * 4),
        "WashLettuce": (5, 2, [0, 0, 0, 1, 1]),
    },
    "camera-L3": {
        "PreSoakPan": (8, 1, [1] * 7 + [2]),
        "RinseSinkBasin": (2, 2, [1] * 2),
        "StackBowlsCabinet": (3, 1, [2] * 3),
        "WashLettuce": (3, 1, [2] * 3),
    },
    # 14 S>F of which 2 stop before g1.
    "base-L1": {
        "PreSoakPan": (3, 2, [1, 2, 3]),
        "RinseSinkBasin": (6, 1, [0, 1, 1, 1, 1, 2]),
        "StackBowlsCabinet": (2, 2, [2, 2]),
        "WashLettuce": (3, 3, [0, 3, 3]),
    },
    # 19 S>F of which 6 stop before g1.
    "base-L2": {
        "PreSoakPan": (5, 1, [0, 1, 2, 2, 3]),
        "RinseSinkBasin": (9, 1, [0, 0] + [2] * 7),
        "StackBowlsCabinet": (3, 3, [0, 0, 3]),
        "WashLettuce": (2, 2, [0, 3]),
    },
    # 24 S>F of which 8 stop before g1.
    "base-L3": {
        "PreSoakPan": (2, 1, [1, 2]),
        "RinseSinkBasin": (12, 1, [0] * 5 + [1, 1, 1, 2, 2, 2, 2]),
        "StackBowlsCabinet": (5, 1, [0, 2, 2, 2, 2]),
        "WashLettuce": (5, 0, [0, 0, 2, 2, 2]),
    },
    "illumination-L1": {
        "PreSoakPan": (3, 2, [1, 1, 1]),
        "RinseSinkBasin": (2, 2, [1, 1]),
        "StackBowlsCabinet": (2, 2, [1, 1]),
        "WashLettuce": (2, 2, [1, 1]),
    },
    "illumination-L2": {
        "PreSoakPan": (1, 2, [1]),
        "RinseSinkBasin": (1, 2, [1]),
        "StackBowlsCabinet": (2, 2, [1, 1]),
        "WashLettuce": (1, 1, [1]),
    },
    "illumination-L3": {
        "PreSoakPan": (3, 2, [1, 1, 1]),
        "RinseSinkBasin": (3, 2, [1, 1, 1]),
        "StackBowlsCabinet": (2, 2, [1, 1]),
        "WashLettuce": (2, 2, [1, 1]),
    },
}


def _paper() -> tuple[list[PlannedPair], dict[str, RolloutRecord]]:
    cells: list[PlannedPair] = []
    records: dict[str, RolloutRecord] = {}
    for condition, tasks in COUNTS.items():
        for task, (broken, appeared, latched) in tasks.items():
            total, clean = STAGES[task], CLEAN[task]
            assert len(latched) == broken
            for episode in range(PUBLISHED["episodes_per_task"]):
                was = episode < clean
                # S>F are the first of the clean successes, F>S the first of the clean failures.
                now = (episode >= broken) if was else (episode < clean + appeared)
                depth = (total, total) if now else (latched[episode] if was else 0, total)
                cells.append(planned(task, episode, condition))
                add(
                    records,
                    record(task, episode, "clean", was, depth=(total if was else 0, total)),
                    record(task, episode, condition, now, depth=depth),
                )
    return cells, records


@pytest.fixture(scope="module")
def paper() -> dict[str, ConditionAggregate]:
    table = pair_rows(*_paper())
    assert not table.missing
    return {item.condition: item for item in aggregate(table.rows)}


def printed(value: float | None, published: float) -> bool:
    """Whether ``published`` is ``value`` rounded to three decimals, either way at a half."""
    return value is not None and abs(value - published) <= 0.0005 + 1e-12


@pytest.mark.parametrize("level", [1, 2, 3])
def test_blur_success_rate_and_macro_degradation(
    paper: dict[str, ConditionAggregate], level: int
) -> None:
    blur, facts = paper[f"blur-L{level}"], PUBLISHED["blur"]
    assert blur.pairs == 80
    assert printed(blur.sr_clean, PUBLISHED["clean_macro_sr"])
    assert printed(blur.sr_shifted, facts["sr"][level - 1])
    assert printed(blur.dsr, facts["delta_sr"][level - 1])
    assert blur.sf == facts["S_to_F"][level - 1]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_blur_failures_stop_as_deep_as_published(
    paper: dict[str, ConditionAggregate], level: int
) -> None:
    depth, facts = paper[f"blur-L{level}"].depth, PUBLISHED["blur"]
    assert printed(depth.progress, facts["mean_progress"][level - 1])
    assert printed(depth.first_stage, facts["first_stage_fraction"][level - 1])


def test_blur_at_its_strongest_breaks_every_success_and_mends_none(
    paper: dict[str, ConditionAggregate],
) -> None:
    blur = paper["blur-L3"]
    assert (blur.ss, blur.sf, blur.fs, blur.ff) == (0, 59, PUBLISHED["blur"]["L3_F_to_S"], 21)
    task_level = [task.dsr for task in blur.tasks if task.dsr is not None]
    assert (min(task_level), max(task_level)) == (0.70, 0.80)


def test_mildest_camera_shift_cancels_in_the_rate_and_shows_in_the_pairs(
    paper: dict[str, ConditionAggregate],
) -> None:
    camera, facts = paper["camera-L1"], PUBLISHED["camera"]
    assert (camera.sf, camera.fs) == (facts["L1_S_to_F"], facts["L1_F_to_S"])
    assert camera.changed == facts["L1_changed"]
    assert camera.dsr == 0.0


@pytest.mark.parametrize("axis", ["base", "blur", "camera", "illumination"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_macro_and_task_level_degradation(
    paper: dict[str, ConditionAggregate], axis: str, level: int
) -> None:
    found, facts = paper[f"{axis}-L{level}"], PUBLISHED[axis]
    assert printed(found.dsr, facts["delta_sr"][level - 1])
    tasks = {task.task: task.dsr for task in found.tasks}
    for task, published in facts.get("task_delta_sr", {}).items():
        assert tasks[task] == pytest.approx(published[level - 1])


@pytest.mark.parametrize("axis", ["base", "blur", "camera"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_mean_progress_of_the_pairs_that_broke(
    paper: dict[str, ConditionAggregate], axis: str, level: int
) -> None:
    depth, facts = paper[f"{axis}-L{level}"].depth, PUBLISHED[axis]
    assert printed(depth.progress, facts["mean_progress"][level - 1])
    if "first_stage_fraction" in facts:
        assert printed(depth.first_stage, facts["first_stage_fraction"][level - 1])


def test_a_small_net_change_of_illumination_hides_twelve_changed_pairs(
    paper: dict[str, ConditionAggregate],
) -> None:
    found = paper["illumination-L2"]
    assert found.changed == PUBLISHED["illumination"]["L2_changed"]
    assert (found.sf, found.fs) == (5, 7)


def test_all_conditions_break_as_many_pairs_as_published(
    paper: dict[str, ConditionAggregate],
) -> None:
    assert len(paper) == 12
    assert sum(item.sf for item in paper.values()) == PUBLISHED["S_to_F_of_all_conditions"]


def test_camera_share_of_failures_before_the_first_milestone(
    paper: dict[str, ConditionAggregate],
) -> None:
    depth = paper["camera-L2"].depth
    assert depth.pairs == 21
    assert printed(depth.first_stage, PUBLISHED["camera"]["L2_first_stage_fraction"])


@pytest.mark.parametrize("axis", ["base", "blur", "camera", "illumination"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_intervals_exclude_zero_where_the_paper_says_so(
    paper: dict[str, ConditionAggregate], axis: str, level: int
) -> None:
    interval = paper[f"{axis}-L{level}"].interval
    assert interval is not None
    assert (interval[0] > 0) is PUBLISHED[axis]["intervals_exclude_zero"][level - 1]
