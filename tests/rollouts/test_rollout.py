"""One rollout on the toy: what is executed, drawn, counted, and refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.protocol.errors import (
    InfrastructureError,
    InvalidScene,
    NotAPair,
    PolicyError,
    SimulatorError,
)
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.protocol.stages import Milestone, StageSpec
from pytest_vla_shift.rollouts.attempts import Outcome
from pytest_vla_shift.rollouts.engine import make_record
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest
from pytest_vla_shift.rollouts.rollout import CleanStart, Measured, actions_digest, run_rollout
from pytest_vla_shift.simulators.protocol import Prepared, StepResult
from tests.fakes import toy_policies
from tests.fakes.toy_simulator import PREDICATES
from tests.rollouts.toy import Script, WatchedToy, idle, requested, toy, toy_suite

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run(policy: Policy, *changes: tuple[str, str], condition: str = "clean") -> Measured:
    suite = toy_suite(*changes)
    return run_rollout(toy(suite), policy, requested(suite, condition, policy), None)


def recorded(wanted: RolloutRequest, measured: Measured) -> RolloutRecord:
    return make_record(wanted, Outcome(measured, None, 1, 0.0), {"worker": "main"})


def test_an_expert_solves_its_episode_and_every_milestone_is_reached_in_order() -> None:
    measured = run(toy_policies.Expert())
    assert measured.success
    assert measured.stages is not None
    assert measured.stages.complete
    assert list(measured.stages.completed) == list(PREDICATES)
    steps = list(measured.stages.completed.values())
    assert steps == sorted(steps)
    assert steps[-1] == measured.steps, "the last milestone is the goal, which ends the rollout"
    assert measured.decisions == -(-measured.steps // 4)
    assert measured.actions is not None
    assert measured.actions.shape == (measured.steps, 7)


def test_without_a_policy_that_looks_only_the_first_picture_is_rendered() -> None:
    suite = toy_suite()
    simulator = toy(suite)
    policy = toy_policies.Expert()
    measured = run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    assert measured.decisions > 5
    assert simulator.renders == len(suite.cameras)
    assert simulator.looks == [suite.cameras, *[()] * measured.decisions]
    assert set(measured.first_frames) == set(suite.cameras)


def test_a_policy_that_looks_costs_one_render_a_camera_and_decision() -> None:
    suite = toy_suite()
    simulator = toy(suite)
    policy = idle(8, 8, cameras=("wrist",))
    measured = run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    assert measured.decisions == 8
    assert simulator.renders == len(suite.cameras) + measured.decisions
    assert all(set(seen.images) == {"wrist"} for seen in policy.seen)
    assert all(seen.privileged is None for seen in policy.seen)


def test_only_the_replan_actions_of_a_chunk_are_executed() -> None:
    suite = toy_suite()
    simulator = toy(suite)
    policy = idle(8, 3)
    measured = run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    settle, *chunks = simulator.chunks
    assert settle.shape == (10, 7)
    assert [len(chunk) for chunk in chunks] == [3] * 20
    assert all(np.array_equal(chunk[:, 3], [0.0, 0.01, 0.02]) for chunk in chunks)
    assert (measured.steps, measured.decisions, measured.success) == (60, 20, False)
    assert [seen.step for seen in policy.seen] == list(range(0, 60, 3))


def test_the_horizon_cuts_within_a_chunk() -> None:
    suite = toy_suite(("horizon = 60", "horizon = 21"))
    simulator = toy(suite)
    policy = idle(8, 8)
    measured = run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    assert [len(chunk) for chunk in simulator.chunks[1:]] == [8, 8, 5]
    assert (measured.steps, measured.decisions) == (21, 3)
    assert measured.actions is not None
    assert measured.actions.shape == (21, 7)


def test_a_shorter_answer_than_replan_is_executed_whole() -> None:
    policy = Script(np.zeros((2, 7)), PolicySpec("script", "1", chunk=8, replan=8))
    assert run(policy).decisions == 30


def test_success_within_a_chunk_ends_the_rollout_there() -> None:
    suite, policy = toy_suite(), toy_policies.Expert()
    cut_short = 0
    for index in range(6):
        simulator = toy(suite)
        measured = run_rollout(
            simulator, policy, requested(suite, policy=policy, index=index), None
        )
        asked = np.concatenate(simulator.chunks[1:])
        assert measured.success
        assert measured.actions is not None
        assert np.array_equal(measured.actions, asked[: measured.steps])
        assert measured.stages is not None
        assert max(measured.stages.completed.values()) == measured.steps
        cut_short += len(asked) > measured.steps
    assert cut_short > 0


def test_the_policy_is_reset_once_with_the_requests_seed_and_told_no_secrets() -> None:
    suite = toy_suite()
    policy = idle(8, 8)
    wanted = requested(suite, "clean", policy)
    run_rollout(toy(suite), policy, wanted, None)
    ((info, seed),) = policy.told
    assert seed == wanted.policy_seed
    assert info.episode == Episode("toy", "reach_left", 0)
    assert info.horizon == 60
    assert info.instruction == "pick up the target on the left"
    assert info.goal.predicates == (), "the goal is for privileged policies"


def test_a_privileged_policy_is_told_the_goal() -> None:
    policy = idle(8, 8)
    policy._spec = replace(policy.spec, privileged=True)
    run(policy)
    assert policy.told[0][0].goal.predicates == (("up", "target_1"),)
    assert policy.seen[0].privileged is not None


def test_the_same_rollout_is_the_same_after_others_ran_in_the_same_simulator() -> None:
    suite = toy_suite()
    policy = toy_policies.GlobalRandom()
    simulator = toy(suite)
    wanted = requested(suite, "base-L2", policy)
    first = run_rollout(simulator, policy, wanted, None)
    run_rollout(simulator, policy, requested(suite, "base-L3", policy, index=2), None)
    np.random.seed(99)
    again = run_rollout(simulator, policy, wanted, None)
    assert recorded(wanted, again).outcome() == recorded(wanted, first).outcome()
    assert first.actions is not None
    assert again.actions is not None
    assert np.array_equal(first.actions, again.actions)


class RandomReset(toy_policies.Expert):
    """Draws from the global generators when it is reset."""

    drawn: float

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self.drawn = float(np.random.random())


def test_a_policys_reset_draws_from_the_rollouts_own_generators() -> None:
    drawn = set()
    for outer in (1, 2):
        np.random.seed(outer)
        policy = RandomReset()
        run(policy)
        drawn.add(policy.drawn)
    assert len(drawn) == 1


def test_settling_comes_after_the_shift_and_is_the_same_in_both_arms() -> None:
    suite = toy_suite()
    chunks = []
    for condition in ("clean", "base-L1"):
        simulator = toy(suite)
        policy = toy_policies.Expert()
        run_rollout(simulator, policy, requested(suite, condition, policy), None)
        chunks.append(simulator.chunks[0])
    assert np.array_equal(chunks[0], chunks[1])
    assert chunks[0].shape == (10, 7)


def test_no_settling_steps_no_settling() -> None:
    suite = toy_suite(("settle_steps = 10", "settle_steps = 0"))
    simulator = toy(suite)
    policy = idle(8, 8)
    run_rollout(simulator, policy, requested(suite, "clean", policy), None)
    assert [len(chunk) for chunk in simulator.chunks] == [8] * 7 + [4]


def pair(
    shifted_task: str = "reach_left", condition: str = "null", **of_clean: object
) -> tuple[Measured, Measured]:
    """A clean rollout, and then one that must pair with what its record says of it."""
    suite = toy_suite(('"reach_left"', f'"reach_left", "{shifted_task}"')) if (
        shifted_task != "reach_left"
    ) else toy_suite()  # fmt: skip
    simulator, policy = toy(suite), toy_policies.Expert()
    wanted = requested(suite, "clean", policy)
    clean = run_rollout(simulator, policy, wanted, None)
    start = CleanStart(digest(clean.fingerprint), clean.fingerprint, clean.initial_predicates)
    start = replace(start, **of_clean)  # type: ignore[arg-type]
    shifted = requested(suite, condition, policy, task=shifted_task)
    return clean, run_rollout(simulator, policy, shifted, start)


def test_both_arms_start_alike() -> None:
    clean, shifted = pair(condition="base-L2")
    assert clean.fingerprint == shifted.fingerprint
    assert {"instruction", "horizon", "state.hand", "model.target_pos"} <= set(clean.fingerprint)
    assert [receipt.field for receipt in shifted.receipts] == ["robot.base_pos", "robot.base_quat"]
    assert clean.receipts == []


def test_arms_that_start_differently_are_no_pair_and_the_fields_are_named() -> None:
    with pytest.raises(NotAPair, match=r"the arms differ in model\.target_pos$"):
        pair("reach_left_jitter")
    fields = {f"field{n:02d}": "x" for n in range(12)}
    with pytest.raises(NotAPair, match=r"field00, .*field07 and [0-9]+ more"):
        pair(fingerprint=digest(fields), fields=fields)
    with pytest.raises(NotAPair, match="the arms differ; the clean arm's fields are not on disk"):
        pair(fingerprint=digest(fields), fields=None)


def test_a_goal_that_stands_otherwise_than_in_the_clean_arm_is_an_invalid_scene() -> None:
    with pytest.raises(InvalidScene, match=r"differ from the clean arm's: up target_1"):
        pair(initial_predicates=("up target_1",))


def test_where_the_robot_is_may_differ_between_the_arms() -> None:
    pair(initial_predicates=("reached target_1",))


@pytest.mark.parametrize(
    "fault, changes, error, words",
    [
        ("unsettled", (), InvalidScene, "after 10 settling steps an object still moves at 0.200"),
        (
            "solved",
            (("settle_steps = 10", "settle_steps = 0"),),
            InvalidScene,
            "the task's goal already holds after settling",
        ),
        ("missing", (), InfrastructureError, "meshes/target_1.obj is not there"),
        ("simerror", (), SimulatorError, "refuses on request"),
    ],
)
def test_a_wrong_scene_is_refused(
    fault: str,
    changes: tuple[tuple[str, str], ...],
    error: type[InfrastructureError],
    words: str,
) -> None:
    suite = toy_suite(("reach_left", f"reach_left_{fault}"), *changes)
    policy = toy_policies.Expert()
    wanted = requested(suite, "clean", policy, task=f"reach_left_{fault}")
    with pytest.raises(error, match=words):
        run_rollout(toy(suite), policy, wanted, None)


@pytest.mark.parametrize(
    "policy", [toy_policies.NotANumber, toy_policies.Raises, toy_policies.RaisesInReset]
)
def test_a_policy_at_fault_is_no_failure_of_the_policy(policy: type[toy_policies.Expert]) -> None:
    with pytest.raises(PolicyError):
        run(policy())


def test_what_is_true_after_settling_is_no_milestone() -> None:
    suite = toy_suite(("reach_left", "reach_left_early"))
    policy = toy_policies.Expert()
    wanted = requested(suite, "clean", policy, task="reach_left_early")
    measured = run_rollout(toy(suite), policy, wanted, None)
    assert measured.initial_predicates == ("reached target_1",)
    assert measured.stages is not None
    assert measured.stages.milestones == PREDICATES[1:]


class Lying(WatchedToy):
    """A toy whose answers are changed on their way."""

    stages: StageSpec | None = None
    result: Mapping[str, object] = {}

    def prepare(self, episode: Episode) -> Prepared:
        prepared: Prepared = super().prepare(episode)
        return prepared if self.stages is None else replace(prepared, stages=self.stages)

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        found = super().step(actions, stop_on_success=stop_on_success)
        return replace(found, **self.result) if stop_on_success else found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "result, words",
    [
        ({"steps": 0}, "executed 0 of 8 actions"),
        ({"steps": 9}, "executed 9 of 8 actions"),
        ({"steps": 5}, "executed 5 of 8 actions, success False"),
        ({"predicates": np.zeros((8, 2), dtype=np.bool_)}, r"shape \(8, 2\) for 8 steps and 3"),
        ({"predicates": np.zeros((7, 3), dtype=np.bool_)}, r"shape \(7, 3\) for 8 steps"),
    ],
)
def test_a_simulator_that_counts_wrong_is_an_error_and_never_goes_on_forever(
    result: Mapping[str, object], words: str
) -> None:
    suite = toy_suite()
    simulator = Lying(toy(suite)._settings)
    simulator.result = result
    policy = idle(8, 8)
    with pytest.raises(SimulatorError, match=words):
        run_rollout(simulator, policy, requested(suite, "clean", policy), None)


@pytest.mark.parametrize(
    "names, words",
    [
        ([("a", "flying")], "predicates that the simulator does not report: flying"),
        ([("a", PREDICATES[0]), ("a", PREDICATES[1])], "names two milestones alike: a"),
    ],
)
def test_milestones_that_cannot_be_told_are_an_error(
    names: Sequence[tuple[str, str]], words: str
) -> None:
    suite = toy_suite()
    simulator = Lying(toy(suite)._settings)
    simulator.stages = StageSpec(((tuple(Milestone(*name) for name in names),),))
    policy = idle(8, 8)
    with pytest.raises(SimulatorError, match=words):
        run_rollout(simulator, policy, requested(suite, "clean", policy), None)


def test_a_task_without_milestones_disagrees_with_nothing() -> None:
    suite = toy_suite()
    simulator = Lying(toy(suite)._settings)
    simulator.stages = StageSpec(())
    policy = idle(8, 8)
    wanted = requested(suite, "clean", policy)
    record = recorded(wanted, run_rollout(simulator, policy, wanted, None))
    assert record.success is False
    assert not record.stage_disagreement


def test_all_milestones_without_success_are_a_disagreement() -> None:
    suite = toy_suite()
    simulator = Lying(toy(suite)._settings)
    simulator.stages = StageSpec((((Milestone("near", PREDICATES[0]),),),))
    policy = Script(
        np.array([[-1.0, 0, 0, 0, 0, 0, -1]]), PolicySpec("left", "1", chunk=1, replan=1)
    )
    wanted = requested(suite, "clean", policy)
    record = recorded(wanted, run_rollout(simulator, policy, wanted, None))
    assert record.success is False
    assert record.stages is not None
    assert record.stages.complete
    assert record.stage_disagreement


def test_the_digest_of_actions_sees_values_order_and_shape() -> None:
    actions = np.arange(12.0).reshape(6, 2)
    digests = {
        actions_digest(a) for a in (actions, actions[::-1], actions.reshape(4, 3), actions + 1e-16)
    }
    assert len(digests) == 4
    assert actions_digest(np.asfortranarray(actions)) == actions_digest(actions)
    assert actions_digest(actions.astype(">f8")) == actions_digest(actions)
