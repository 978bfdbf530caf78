"""Predicates against the simulator's own answers, on a real grasp and on thousands of poses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("libero.libero")

import mujoco

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
from pytest_vla_shift.simulators.libero_world import World
from tests.simulators import libero_support as support
from tests.simulators.libero_support import BOWL, MILK

CABINET = Episode("libero_goal", "put_the_bowl_on_top_of_the_cabinet", 0)
STOVE = Episode("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it", 0)


def place(world: World, name: str, position: NDArray[np.float64]) -> None:
    """Teleport an object, keeping its orientation, and bring everything derived up to date."""
    start, _ = world.env.sim.model.get_joint_qpos_addr(world.env.objects_dict[name].joints[-1])
    world.data.qpos[start : start + 3] = position
    mujoco.mj_forward(world.model, world.data)


def settled(episode: Episode) -> tuple[LiberoSimulator, World]:
    """The run's simulator with an episode at rest."""
    sim = support.simulator()
    sim.prepare(episode)
    assert support.settle(sim).object_speed < 1e-3
    return sim, support.world_of(sim)


class Pick:
    """A waypoint script that puts the milk into the basket: enough to pass every milestone."""

    def __init__(self, sim: LiberoSimulator) -> None:
        self.sim = sim
        self.rows: list[dict[str, bool]] = []

    def go(self, target: NDArray[np.float64], grip: float, steps: int) -> None:
        for _ in range(steps):
            hand = self.sim.observe().proprio["eef_pos"]
            action = np.concatenate([np.clip((target - hand) * 10, -1, 1), np.zeros(3), [grip]])
            result = self.sim.step(action[None])
            names = self.sim.predicates()
            assert result.predicates[0].tolist() == list(names.values())
            self.rows.append(dict(names))
            self.check()
            if result.success:
                return

    def check(self) -> None:
        """Every step: ours against robosuite's and LIBERO's."""
        env = support.world_of(self.sim).env
        now, gripper, milk = self.rows[-1], env.robots[0].gripper, env.objects_dict["milk_1"]
        assert now["grasped milk_1"] == env._check_grasp(gripper, milk)
        goal = env.parsed_problem["goal_state"][0]
        assert now["in milk_1 basket_1_contain_region"] == env._eval_predicate(goal)
        if env.check_contact(gripper, milk):
            assert now["reached milk_1"]

    def run(self) -> None:
        state = self.sim.observe(privileged=True).privileged
        assert state is not None
        milk, basket = state.positions["milk_1"], state.positions["basket_1"]
        up = np.array([0.0, 0.0, 0.25])
        self.go(milk + up, -1, 30)
        self.go(milk + np.array([0.0, 0.0, 0.01]), -1, 30)
        self.go(milk + np.array([0.0, 0.0, 0.01]), 1, 12)
        self.go(milk + up, 1, 20)
        self.go(basket + up, 1, 40)
        self.go(basket + up, -1, 20)


def test_a_real_grasp_reaches_every_milestone_in_order_and_success_ends_the_chunk() -> None:
    sim, _ = settled(MILK)
    assert not any(sim.predicates().values())
    pick = Pick(sim)
    pick.run()
    assert sim.success()
    first = {
        name: next(step for step, row in enumerate(pick.rows) if row[name])
        for name in pick.rows[-1]
    }
    order = list(first.values())
    assert order == sorted(order), first
    assert len(set(order)) == len(order), first
    result = sim.step(np.zeros((8, 7)))
    assert (result.steps, result.success, result.predicates.shape) == (1, True, (1, 5))
    assert sim.step(np.zeros((8, 7)), stop_on_success=False).steps == 8


@pytest.mark.parametrize("episode", [MILK, BOWL, CABINET], ids=lambda e: e.task)
def test_at_target_follows_from_the_goal_and_not_the_other_way_round(episode: Episode) -> None:
    sim, world = settled(episode)
    predicate = world.goal.predicates[0]
    _, moved, target = predicate
    state = sim.observe(privileged=True).privileged
    assert state is not None
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(400):
        offset = rng.uniform([-0.12, -0.12, -0.05], [0.12, 0.12, 0.15])
        place(world, moved, state.positions[target] + offset)
        now = sim.predicates()
        at_target, goal = now[f"at target {moved}"], now[" ".join(predicate)]
        assert at_target or not goal
        assert goal == sim.success()
        seen.add((at_target, goal))
    assert seen == {(False, False), (True, False), (True, True)}


def test_an_object_is_reached_where_the_grip_site_is_and_not_two_hands_away() -> None:
    sim, world = settled(MILK)
    hand = sim.observe().proprio["eef_pos"]
    place(world, "milk_1", hand)
    assert sim.predicates()["reached milk_1"]
    place(world, "milk_1", hand + np.array([0.0, 0.2, 0.0]))
    assert not sim.predicates()["reached milk_1"]


def test_an_object_in_the_air_without_a_hand_is_not_lifted() -> None:
    sim, world = settled(MILK)
    milk = np.array(world.data.xpos[world.env.obj_body_id["milk_1"]])
    place(world, "milk_1", milk + np.array([0.0, 0.0, 0.2]))
    assert not sim.predicates()["lifted milk_1"]


def test_goals_of_fixtures_and_what_is_true_from_the_start_are_told_one_by_one() -> None:
    sim, world = settled(STOVE)
    assert not any(sim.predicates().values())
    knob = world.env.fixtures_dict["flat_stove_1"].joints[0]
    world.env.sim.data.set_joint_qpos(knob, 1.0)
    mujoco.mj_forward(world.model, world.data)
    assert [name for name, value in sim.predicates().items() if value] == ["turnon flat_stove_1"]
    assert not sim.success(), "the moka pot is still to be placed"
    knob_body = world.model.jnt_bodyid[world.env.sim.model.joint_name2id(knob)]
    geom = int(np.flatnonzero(world.model.geom_bodyid == knob_body)[-1])
    hand, offset = world.env.robots[0], np.zeros(3)
    offset[:] = world.data.geom_xpos[geom] - world.data.site_xpos[hand.eef_site_id]
    world.data.site_xpos[hand.eef_site_id] += offset
    assert sim.predicates()["reached flat_stove_1"], "the knob is the part of a stove to reach"


def test_predicates_cost_well_below_a_millisecond_of_cpu() -> None:
    import time

    sim, _ = settled(STOVE)
    before = time.process_time()
    for _ in range(200):
        sim._predicates(False)
    assert (time.process_time() - before) / 200 < 1e-3
