"""The teacher and its corrections, on the real simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("libero.libero")

from pytest_vla_shift.policies.scripted_grasps import GRASPS
from pytest_vla_shift.policies.scripted_room import rim_hold
from pytest_vla_shift.policies.scripted_world import World
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import Prepared, Simulator, SimulatorSettings
from training import correct
from training.correct import begin
from training.demonstrate import Noise, holds, roll, settled
from training.episodes import training
from training.expert import Teacher, least_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOUP = Episode("libero_object", "pick_up_the_alphabet_soup_and_place_it_in_the_basket", 10)
HORIZON = 280


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    made = factory(SimulatorSettings("libero", 101, ("agentview", "robot0_eye_in_hand"), 256, 256))
    yield made
    made.close()


def tried(simulator: Simulator, found: Prepared, grasped: bool) -> NDArray[np.float64] | None:
    world = World()
    world.update(least_turn(simulator.observe(privileged=True)))
    return correct.tried(simulator, found, world, grasped)


def taught_until(simulator: Simulator, note: str) -> Prepared:
    """Let the teacher drive until it says that it does ``note``."""
    found = settled(simulator, SOUP)
    teacher = Teacher({})
    teacher.reset(EpisodeInfo(SOUP, found.instruction, HORIZON, found.goal), seed=0)
    for _ in range(HORIZON):
        action = teacher.act(simulator.observe(privileged=True))
        if teacher.note.startswith(note):
            return found
        simulator.step(action)
    raise AssertionError(f"the teacher never said {note!r}")


def test_the_teacher_turns_its_hand_to_no_can(simulator: Simulator) -> None:
    taught_until(simulator, "grip")
    world = World()
    world.update(simulator.observe(privileged=True))
    assert abs(world.hand[1, 0]) < 0.05  # about the vertical, in radians


def test_a_bowl_is_held_at_the_same_point_of_its_rim_wherever_it_stands(
    simulator: Simulator,
) -> None:
    # From some of these states the expert itself takes the one side, from others the other.
    task = "pick_up_the_black_bowl_next_to_the_ramekin_and_place_it_on_the_plate"
    rims = holds(simulator, "libero_spatial", task)
    (bowl,) = rims
    assert bowl == "akita_black_bowl_1"
    taken = set()
    for index in training("libero_spatial", task)[:12:2]:
        settled(simulator, Episode("libero_spatial", task, index))
        for world in (World(), World(rims)):
            world.update(least_turn(simulator.observe(privileged=True)))
            taken.add((bool(world.rims), rim_hold(world, bowl, GRASPS["akita_black_bowl"])))
    assert len({hold for told, hold in taken if not told}) > 1
    assert {hold for told, hold in taken if told} == set(rims.values())
    assert not holds(simulator, SOUP.task_suite, SOUP.task)


def test_asking_the_expert_moves_nothing(simulator: Simulator) -> None:
    found = taught_until(simulator, "down")
    before = simulator.observe(privileged=True)
    actions = tried(simulator, found, grasped=False)
    after = simulator.observe(privileged=True)
    assert actions is not None
    assert actions.shape[1] == 7
    assert np.array_equal(before.proprio["joint_pos"], after.proprio["joint_pos"])
    assert before.step == after.step


def test_over_its_object_the_expert_goes_on_down_and_closes(simulator: Simulator) -> None:
    found = taught_until(simulator, "down")
    actions = tried(simulator, found, grasped=False)
    assert actions is not None
    assert actions[0, 2] < 0
    for _ in range(4):
        simulator.step(actions)
        actions = tried(simulator, found, grasped=simulator.predicates()["grasped alphabet_soup_1"])
        assert actions is not None
    assert simulator.predicates()["lifted alphabet_soup_1"] or actions[0, 2] > 0


def test_with_its_object_in_the_hand_it_never_opens_to_begin_again(simulator: Simulator) -> None:
    found = taught_until(simulator, "carry")
    actions = tried(simulator, found, grasped=True)
    assert actions is not None
    assert (actions[:, 6] > 0).all()


def test_a_gripper_that_closed_on_nothing_is_opened_again(simulator: Simulator) -> None:
    found = settled(simulator, SOUP)
    simulator.step(np.tile([0, 0, 0, 0, 0, 0, 1.0], (12, 1)))
    actions = tried(simulator, found, grasped=False)
    assert actions is not None
    assert (actions[:, 6] < 0).all()


def test_at_a_drawers_handle_it_is_not_asked(simulator: Simulator) -> None:
    task = Episode("libero_goal", "open_the_middle_drawer_of_the_cabinet", 10)
    found = simulator.prepare(task)
    world = World()
    world.update(least_turn(simulator.observe(privileged=True)))
    assert begin(world, found, grasped=False) is not None
    world.eef = world.position(found.goal.predicates[0][1])
    assert begin(world, found, grasped=False) is None


def test_a_demonstration_is_solved_labelled_and_the_same_again(simulator: Simulator) -> None:
    once, again = (
        roll(simulator, SOUP, HORIZON, np.random.default_rng([0, 0, 10]), noisy=True, rims={})
        for _ in range(2)
    )
    assert once is not None
    assert again is not None
    assert len(once.actions) == len(once.pictures) == len(once.valid) > 10
    assert np.array_equal(once.actions, again.actions)
    assert np.array_equal(once.pictures, again.pictures)
    assert once.valid[0].all()
    assert not once.valid[-1].all() or once.step[-1] + 8 <= HORIZON


def test_noise_leaves_what_is_kept_alone_for_long_enough() -> None:
    noise = Noise(np.random.default_rng(0), noisy=True)
    pushed = [noise(True) is not None for _ in range(2000)]
    assert 0.05 < np.mean(pushed) < 0.5
    ends = [i for i in range(1, len(pushed)) if pushed[i - 1] and not pushed[i]]
    assert all(not any(pushed[i : i + 16]) for i in ends)
    gripping = Noise(np.random.default_rng(0), noisy=True)
    assert all(gripping(False) is None for _ in range(500))
