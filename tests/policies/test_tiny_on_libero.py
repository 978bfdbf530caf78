"""The shipped network, closed loop, on real episodes that it never learned from."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("libero.libero")
pytest.importorskip("onnxruntime")

from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.simulators.libero import factory
from tests.simulators import libero_support as support
from training.episodes import evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.shifts.protocol import Intervention
    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator

KETCHUP = ("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket")
RAMEKIN = (
    "libero_spatial",
    "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate",
)
ON_THE_STOVE = ("libero_goal", "put_the_bowl_on_the_stove")
ON_THE_PLATE = ("libero_goal", "put_the_bowl_on_the_plate")


@functools.cache
def simulator() -> LiberoSimulator:
    """One with the suites' pictures: tests of the simulator make do with smaller ones."""
    return factory(replace(support.SETTINGS, height=256, width=256))


def rollout(
    episode: Episode,
    sentence: str | None = None,
    interventions: Sequence[Intervention] = (),
    decisions: int | None = None,
) -> tuple[bool, NDArray[np.float64]]:
    """Whether it solved the task, and the actions (T, 7) that it took."""
    sim = simulator()
    prepared, horizon = support.begun(sim, episode, interventions)
    policy, chunk = Tiny(), 8
    said = sentence or prepared.instruction
    limit = horizon if decisions is None else decisions * chunk
    policy.reset(EpisodeInfo(episode, said, horizon), seed=0)
    actions: list[NDArray[np.float64]] = []
    while len(actions) < limit:
        seen = sim.observe(policy.spec.cameras)  # nothing privileged
        for action in policy.act(replace(seen, instruction=said))[:chunk]:
            actions.append(np.asarray(action, dtype=np.float64))
            if sim.step(actions[-1][np.newaxis]).success:
                return True, np.array(actions)
    return False, np.array(actions)


def test_solves_most_of_the_episodes_that_it_is_evaluated_on() -> None:
    episodes = [
        Episode(*task, index)
        for task in (KETCHUP, RAMEKIN, ON_THE_PLATE)
        for index in evaluation(*task)[:2]
    ]
    assert sum(rollout(episode)[0] for episode in episodes) >= 5


def test_what_it_does_is_what_the_sentence_says() -> None:
    # The same scene and the same state: the goal is another place.
    episode = Episode(*ON_THE_STOVE, evaluation(*ON_THE_STOVE)[0])
    assert rollout(episode)[0]
    assert not rollout(episode, sentence="put the bowl on the plate")[0]


@pytest.mark.parametrize("axis", ["illumination", "camera_orientation"])
def test_what_a_camera_sees_reaches_it(axis: str) -> None:
    episode = Episode(*KETCHUP, evaluation(*KETCHUP)[0])
    _, plain = rollout(episode, decisions=2)
    _, again = rollout(episode, decisions=2)
    _, shifted = rollout(episode, interventions=[support.intervention(axis)], decisions=2)
    assert np.array_equal(plain, again)
    assert not np.array_equal(plain, shifted)
