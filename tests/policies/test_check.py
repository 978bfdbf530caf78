"""check_policy against policies that each break one clause of the contract."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Random, Zero
from pytest_vla_shift.policies.callables import FunctionPolicy
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.policies.observations import INFO, observation

Actions = np.ndarray[tuple[int, ...], np.dtype[np.floating]]


class NoClose:
    spec = Zero.spec
    unsupported = Zero.unsupported
    reset = Zero.reset
    act = Zero.act


class SpecOfText(Zero):
    spec = "zero"  # type: ignore[assignment]


class ReplansTooMuch(Zero):
    spec = replace(Zero.spec, replan=9)


class SpecMoves(Zero):
    def __init__(self) -> None:
        self._calls = 0

    @property
    def spec(self) -> PolicySpec:  # type: ignore[override]
        self._calls += 1
        return replace(Zero.spec, revision=str(self._calls))


class DoesNotDoThis(Zero):
    def unsupported(self, task_suite: str, task: str) -> str | None:
        return "only drawers"


class AnswersFalse(Zero):
    def unsupported(self, task_suite: str, task: str) -> str | None:
        return False  # type: ignore[return-value]


class RaisesInReset(Zero):
    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        raise RuntimeError("server gone")


class TooLong(Zero):
    def act(self, observation: Observation) -> Actions:
        return np.zeros((9, 7))


class Scribbles(Zero):
    spec = replace(Zero.spec, cameras=("agentview",))

    def act(self, observation: Observation) -> Actions:
        observation.images["agentview"][:] //= 2
        return super().act(observation)


class ScribblesOnGroundTruth(Zero):
    spec = replace(Zero.spec, privileged=True)

    def act(self, observation: Observation) -> Actions:
        assert observation.privileged is not None
        observation.privileged.positions["ketchup_1"][0] += 1.0
        return super().act(observation)


class Unseeded(Random):
    spec = replace(Random.spec, seeded=False)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._rng = np.random.default_rng()


class ClaimsASeed(Unseeded):
    spec = replace(Random.spec, seeded=True)


class RemembersAcrossReset(Zero):
    spec = replace(Zero.spec, seeded=True)

    def __init__(self) -> None:
        self._calls = 0

    def act(self, observation: Observation) -> Actions:
        self._calls += 1
        return np.full((1, 7), self._calls / 100)


@pytest.mark.parametrize(
    "policy, message",
    [
        (NoClose(), "NoClose has no close"),
        (SpecOfText(), "spec is a str, not a PolicySpec"),
        (ReplansTooMuch(), "replan 9 is more than its chunk 8"),
        (SpecMoves(), "the spec changed"),
        (DoesNotDoThis(), "does not support the task of this check: only drawers"),
        (AnswersFalse(), "a reason or None, not False"),
        (RaisesInReset(), "raised in reset: RuntimeError: server gone"),
        (TooLong(), "returned 9 actions"),
        (Scribbles(), r"act changed the observation: images\[agentview\]"),
        (ScribblesOnGroundTruth(), r"act changed the observation: positions\[ketchup_1\]"),
        (ClaimsASeed(), "the same seed gave other actions"),
        (RemembersAcrossReset(), "state survives reset"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_clause_is_named(policy: Zero, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_policy(policy, observation(), INFO)


def test_randomness_without_a_seed_is_a_remark() -> None:
    assert check_policy(Unseeded(), observation(), INFO) == [
        "not seeded, and the same seed gave other actions: its rollouts are not repeatable"
    ]


def test_a_seed_without_randomness_is_a_remark() -> None:
    policy = Zero()
    policy.spec = replace(Zero.spec, seeded=True)
    assert check_policy(policy, observation(), INFO) == [
        "seeded, yet two seeds gave the same actions here"
    ]


def test_a_function_that_uses_the_global_generators_counts_as_seeded() -> None:
    def noisy(observation: Observation) -> Actions:
        return np.full((1, 7), np.random.uniform(-1, 1) * random.random())

    options = {"seeded": True, "cameras": (), "language": False}
    policy = FunctionPolicy("noisy", "1", noisy, options, {})
    random.seed(9)
    np.random.seed(9)
    expected = random.random(), np.random.random()
    random.seed(9)
    np.random.seed(9)
    assert check_policy(policy, observation(), INFO) == []
    # ... and the process's own generators are where they were.
    assert (random.random(), np.random.random()) == expected


def test_an_observation_that_is_not_for_this_policy_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="lacks the policy's cameras: agentview"):
        check_policy(Scribbles(), replace(observation(), images={}), INFO)
    with pytest.raises(ValueError, match="asks for privileged state"):
        check_policy(ScribblesOnGroundTruth(), replace(observation(), privileged=None), INFO)


def test_a_policy_is_shown_its_cameras_and_no_ground_truth() -> None:
    seen: list[Observation] = []

    class Looks(Zero):
        spec = replace(Zero.spec, cameras=("agentview",))

        def act(self, observation: Observation) -> Actions:
            seen.append(observation)
            return super().act(observation)

    check_policy(Looks(), observation(), INFO)
    assert {tuple(o.images) for o in seen} == {("agentview",)}
    assert {o.privileged for o in seen} == {None}
