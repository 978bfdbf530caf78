"""The scripted expert: on the real simulator, and against worlds that make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.scripted import TASKS, Scripted
from pytest_vla_shift.policies.scripted_grasps import FIXTURES, GRASPS, HANDLES, category
from pytest_vla_shift.policies.scripted_plans import place
from pytest_vla_shift.policies.scripted_world import World
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import PolicyError
from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Goal,
    Observation,
    PrivilegedState,
)

if TYPE_CHECKING:
    from pytest_vla_shift.policies.scripted_skills import Script
    from pytest_vla_shift.protocol.observation import Image, Vector

KETCHUP = "pick_up_the_ketchup_and_place_it_in_the_basket"
GOALS = {
    "pick_up_the_ketchup_and_place_it_in_the_basket": (
        "libero_object",
        ("in", "ketchup_1", "basket_1_contain_region"),
    ),
    "pick_up_the_black_bowl_next_to_the_plate_and_place_it_on_the_plate": (
        "libero_spatial",
        ("on", "akita_black_bowl_1", "plate_1"),
    ),
    "open_the_middle_drawer_of_the_cabinet": (
        "libero_goal",
        ("open", "wooden_cabinet_1_middle_region"),
    ),
    "open_the_top_drawer_and_put_the_bowl_inside": (
        "libero_goal",
        ("in", "akita_black_bowl_1", "wooden_cabinet_1_top_region"),
    ),
    "push_the_plate_to_the_front_of_the_stove": (
        "libero_goal",
        ("on", "plate_1", "main_table_stove_front_region"),
    ),
    "put_the_wine_bottle_on_the_rack": (
        "libero_goal",
        ("on", "wine_bottle_1", "wine_rack_1_top_region"),
    ),
    "turn_on_the_stove": ("libero_goal", ("turnon", "flat_stove_1")),
}
NAMES = (
    "ketchup_1",
    "basket_1",
    "basket_1_contain_region",
    "akita_black_bowl_1",
    "akita_black_bowl_2",
    "plate_1",
    "wine_bottle_1",
    "wine_rack_1",
    "wine_rack_1_top_region",
    "wooden_cabinet_1",
    "wooden_cabinet_1_top_region",
    "wooden_cabinet_1_middle_region",
    "flat_stove_1",
    "flat_stove_1_cook_region",
    "main_table_stove_front_region",
)
JOINTS = (
    "wooden_cabinet_1_top_level",
    "wooden_cabinet_1_middle_level",
    "wooden_cabinet_1_bottom_level",
    "flat_stove_1_button",
)


class NoLooking(dict[str, "Image"]):
    """Images that must not be touched."""

    def __getitem__(self, camera: str) -> Image:
        raise AssertionError(f"the expert looked through {camera}")

    def __iter__(self) -> None:  # type: ignore[override]
        raise AssertionError("the expert asked which cameras there are")


def info(task: str) -> EpisodeInfo:
    suite, goal = GOALS[task]
    return EpisodeInfo(Episode(suite, task, 0), task.replace("_", " "), 280, Goal((goal,)))


def world(rng: np.random.Generator, spread: float = 1.0) -> Observation:
    """Everything anywhere, turned anyhow: nothing that the expert expects is so."""

    def quaternion() -> Vector:
        q = rng.normal(size=4)
        return q / np.linalg.norm(q)

    return Observation(
        images=NoLooking(),
        proprio={
            "eef_pos": rng.normal(size=3) * spread,
            "eef_quat": quaternion(),
            "gripper_qpos": rng.uniform(0, 0.04, size=2) * (1, -1),
            "joint_pos": rng.normal(size=7),
        },
        instruction="",
        step=0,
        privileged=PrivilegedState(
            positions={name: rng.normal(size=3) * spread for name in NAMES},
            quaternions={name: quaternion() for name in NAMES},
            joints={joint: float(rng.normal()) for joint in JOINTS},
        ),
    )


@pytest.mark.parametrize("task", GOALS)
@pytest.mark.parametrize("spread", [0.0, 1.0, 50.0])
def test_goes_on_until_the_horizon_whatever_the_world_does(task: str, spread: float) -> None:
    rng = np.random.default_rng(3)
    policy = Scripted()
    policy.reset(info(task), seed=0)
    for _ in range(300):
        actions = policy.act(world(rng, spread))
        assert actions.shape == (1, 7)
        assert np.isfinite(actions).all()
        assert np.abs(actions).max() <= 1.0


@pytest.mark.parametrize("task", GOALS)
def test_goes_on_when_nothing_moves(task: str) -> None:
    policy = Scripted()
    policy.reset(info(task), seed=0)
    still = world(np.random.default_rng(5), 0.3)
    actions = np.concatenate([policy.act(still) for _ in range(300)])
    assert np.isfinite(actions).all()
    assert np.abs(actions[:, :6]).max() > 0.0


def test_keeps_the_contract_of_policies() -> None:
    observation = replace(world(np.random.default_rng(1)), images={})
    assert check_policy(Scripted(), observation, info(KETCHUP)) == []


def test_asks_for_no_camera_and_for_the_ground_truth() -> None:
    spec = Scripted().spec
    assert spec.cameras == ()
    assert spec.privileged
    assert not spec.seeded
    assert (spec.action_dim, spec.chunk, spec.replan) == (7, 1, 1)


def test_revision_is_a_digest_of_all_its_sources() -> None:
    import hashlib
    from pathlib import Path

    import pytest_vla_shift.policies as package

    digest = hashlib.sha256()
    for file in sorted(Path(package.__path__[0]).glob("scripted*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    assert Scripted().spec.revision == f"sha256:{digest.hexdigest()[:16]}"


def test_offers_only_tasks_that_there_are() -> None:
    for suite, tasks in TASKS.items():
        listed = catalog.find(suite)
        assert listed is not None
        assert set(tasks) <= set(listed.tasks)
        assert len(set(tasks)) == len(tasks)
        assert all(Scripted().unsupported(suite, task) is None for task in tasks)


def test_refuses_another_task_and_says_what_it_can_do() -> None:
    refusal = Scripted().unsupported("libero_goal", "fold_the_towel")
    assert refusal is not None
    assert "fold_the_towel" in refusal
    assert all(task in refusal for task in TASKS["libero_goal"])


def test_refuses_another_suite_and_says_which_it_knows() -> None:
    refusal = Scripted().unsupported("libero_10", KETCHUP)
    assert refusal is not None
    assert "libero_10" in refusal
    assert all(suite in refusal for suite in TASKS)


def test_act_before_reset_is_refused() -> None:
    with pytest.raises(PolicyError, match="before reset"):
        Scripted().act(world(np.random.default_rng(0)))


def test_an_episode_without_a_goal_is_refused() -> None:
    with pytest.raises(PolicyError, match="goal"):
        Scripted().reset(replace(info(KETCHUP), goal=Goal()), seed=0)


def test_an_observation_without_ground_truth_is_refused() -> None:
    policy = Scripted()
    policy.reset(info(KETCHUP), seed=0)
    with pytest.raises(PolicyError, match="privileged"):
        policy.act(replace(world(np.random.default_rng(0)), privileged=None))


def test_a_thing_that_is_not_told_is_named() -> None:
    policy = Scripted()
    policy.reset(info(KETCHUP), seed=0)
    observation = world(np.random.default_rng(0))
    truth = observation.privileged
    assert truth is not None
    positions: Mapping[str, Vector] = {
        name: value for name, value in truth.positions.items() if name != "ketchup_1"
    }
    with pytest.raises(PolicyError, match="ketchup_1"):
        policy.act(replace(observation, privileged=replace(truth, positions=positions)))


def test_equal_observations_get_equal_actions() -> None:
    def run() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        rng = np.random.default_rng(9)
        policy = Scripted()
        policy.reset(info(KETCHUP), seed=int(rng.integers(100)))
        return np.concatenate([policy.act(world(rng)) for _ in range(60)])

    assert run().tobytes() == run().tobytes()


def test_every_grasp_and_solid_is_of_a_thing_that_libero_has() -> None:
    pytest.importorskip("libero")
    from libero.libero.envs.base_object import OBJECTS_DICT

    assert {*GRASPS, *FIXTURES} <= set(OBJECTS_DICT)
    assert {category(f"{name}_12") for name in GRASPS} == set(GRASPS)
    assert all(handle.open_at < -0.14 for handle in HANDLES.values())


def test_a_dropped_object_is_let_go_and_not_chased() -> None:
    def seen(height: float) -> Observation:
        return Observation(
            images=NoLooking(),
            proprio={
                "eef_pos": np.array([0.0, 0.0, 1.2]),
                "eef_quat": np.array([1.0, 0.0, 0.0, 0.0]),
                "gripper_qpos": np.array([0.01, -0.01]),
            },
            instruction="",
            step=0,
            privileged=PrivilegedState(
                positions={"ketchup_1": np.array([0.0, 0.0, height])},
                quaternions={"ketchup_1": np.array([0.0, 0.0, 0.0, 1.0])},
            ),
        )

    around = World()
    around.update(seen(1.15))
    script = place(around, "ketchup_1", np.array([0.3, 0.0, 1.0]), height=0.05, cruise=1.1)
    assert next(script)[0] == 1.0, "carried towards the target, gripper closed"
    around.update(seen(0.9))
    after, reached = run_out(script)
    assert reached is False
    assert 0 < len(after) <= 10
    assert np.abs([step[:6] for step in after]).max() < 1e-9
    assert all(step[6] == -1.0 for step in after)


def run_out(script: Script) -> tuple[list[Vector], bool]:
    """The actions that are left in a primitive, in a world that stands still, and its answer."""
    actions = []
    while True:
        try:
            actions.append(next(script))
        except StopIteration as end:
            return actions, bool(end.value)
