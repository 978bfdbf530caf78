"""check_policy against policies that say they can be shared, and cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Random, Zero
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.policies.observations import INFO, observation

Actions = np.ndarray[tuple[int, ...], np.dtype[np.floating]]


class Counting(Zero):
    """Answers with the number of the decision: it keeps state."""

    spec = replace(Zero.spec, stateless=False)

    def __init__(self) -> None:
        self._count = 0

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._count = 0

    def act(self, observation: Observation) -> Actions:
        self._count += 1
        return np.full((1, 7), self._count / 10)


class CountingWithSessions(Counting):
    def session(self) -> CountingWithSessions:
        return CountingWithSessions()


class SaysItKeepsNone(Counting):
    spec = Zero.spec


class OneSessionForAll(Counting):
    def session(self) -> OneSessionForAll:
        return self


class SessionOfAnotherSpec(Counting):
    def session(self) -> Counting:
        other = Counting()
        other.spec = replace(self.spec, revision="2")
        return other


class Batch(Zero):
    """Looks at every observation alone."""

    spec: PolicySpec = replace(Zero.spec, batch=3, seeded=True)

    def act_batch(self, observations: list[Observation], seeds: list[int]) -> list[Actions]:
        return [
            np.random.default_rng(seed).uniform(-1, 1, (1, 7)) * o.proprio["eef_pos"][0]
            for o, seed in zip(observations, seeds, strict=True)
        ]


class MeanOfTheBatch(Batch):
    """As a normalisation over the batch would do it."""

    def act_batch(self, observations: list[Observation], seeds: list[int]) -> list[Actions]:
        chunks = super().act_batch(observations, seeds)
        return [chunk - np.mean([c[0, 0] for c in chunks]) for chunk in chunks]


class KeepsStateAndBatches(Batch):
    spec = replace(Batch.spec, stateless=False)


@pytest.mark.parametrize(
    "policy",
    [Zero(), Random(), Counting(), CountingWithSessions(), Batch()],
    ids=lambda value: type(value).__name__,
)
def test_policies_that_keep_what_they_say_pass(policy: Zero) -> None:
    assert check_policy(policy, observation(), INFO) == []


@pytest.mark.parametrize(
    "policy,message",
    [
        (SaysItKeepsNone(), "stateless=True, yet it answers otherwise"),
        (OneSessionForAll(), "a session answers otherwise"),
        (SessionOfAnotherSpec(), "another spec"),
        (MeanOfTheBatch(), "otherwise when others are in the batch"),
        (KeepsStateAndBatches(), "must be stateless"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_policy_that_cannot_be_shared_as_it_says_is_told_so(policy: Zero, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_policy(policy, observation(), INFO)
