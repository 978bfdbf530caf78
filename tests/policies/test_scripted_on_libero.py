"""The scripted expert solves real episodes, milestone after milestone, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("libero.libero")

from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.rollouts.stages import StageTracker
from tests.simulators import libero_support as support

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.stages import StageSpec
    from pytest_vla_shift.rollouts.record import StageResult
    from pytest_vla_shift.shifts.protocol import Intervention

KETCHUP = ("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket")
CREAM_CHEESE = ("libero_object", "pick_up_the_cream_cheese_and_place_it_in_the_basket")
FROM_CABINET = (
    "libero_spatial",
    "pick_up_the_black_bowl_on_the_wooden_cabinet_and_place_it_on_the_plate",
)
INTO_DRAWER = ("libero_goal", "open_the_top_drawer_and_put_the_bowl_inside")
PUSH = ("libero_goal", "push_the_plate_to_the_front_of_the_stove")
STOVE = ("libero_goal", "turn_on_the_stove")


@dataclass(frozen=True)
class Outcome:
    """How a rollout of the expert ended."""

    success: bool
    actions: bytes
    stages: StageResult
    spec: StageSpec


def rollout(episode: Episode, interventions: Sequence[Intervention] = ()) -> Outcome:
    sim = support.simulator()
    prepared, horizon = support.begun(sim, episode, interventions)
    policy = Scripted()
    assert policy.unsupported(episode.task_suite, episode.task) is None
    policy.reset(EpisodeInfo(episode, prepared.instruction, horizon, prepared.goal), seed=0)
    tracker = StageTracker(prepared.stages, [k for k, true in sim.predicates().items() if true])
    actions = []
    success = False
    for step in range(1, horizon + 1):
        actions.append(policy.act(sim.observe(policy.spec.cameras, privileged=True)))
        result = sim.step(actions[-1])
        last = dict(zip(prepared.predicates, result.predicates[-1], strict=True))
        tracker.update(step, last)
        if success := result.success:
            break
    everything = np.concatenate(actions).tobytes()
    return Outcome(success, everything, tracker.result(), prepared.stages)


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize(
    "task", [KETCHUP, CREAM_CHEESE, FROM_CABINET, INTO_DRAWER, PUSH, STOVE], ids=lambda t: t[1]
)
def test_solves_the_episode_through_every_milestone_in_order(
    task: tuple[str, str], index: int
) -> None:
    outcome = rollout(Episode(*task, index))
    assert outcome.success
    assert outcome.stages.complete
    assert len(outcome.stages.milestones) >= 2
    for group in outcome.spec.groups:
        for track in group:
            steps = [outcome.stages.completed[milestone.name] for milestone in track]
            assert steps == sorted(steps)
            # One that holds only because the last step counts for all would say nothing.
            assert len(set(steps)) > 1


@pytest.mark.parametrize("task", [KETCHUP, STOVE], ids=lambda t: t[1])
def test_a_moved_robot_base_is_corrected(task: tuple[str, str]) -> None:
    shifted = rollout(Episode(*task, 1), [support.intervention("base")])
    assert shifted.success
    assert shifted.actions != rollout(Episode(*task, 1)).actions


def test_a_visual_shift_cannot_touch_it() -> None:
    episode = Episode(*STOVE, 2)
    visual = [support.intervention(s) for s in ("illumination", "camera_orientation")]
    assert rollout(episode, visual).actions == rollout(episode).actions
