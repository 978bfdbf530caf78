"""What explains that an unseeded policy gives one seed different answers: chance or memory."""

from __future__ import annotations

import random
import threading
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Zero
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.check_repeating import CHANCE, SURVIVES, UNKNOWN, WARMS_UP
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.policies.observations import INFO, observation

Actions = np.ndarray[tuple[int, ...], np.dtype[np.floating]]


def actions(number: float) -> Actions:
    return np.full((1, 7), np.tanh(number))


class Counts(Zero):
    def __init__(self) -> None:
        self._calls = 0

    def act(self, observation: Observation) -> Actions:
        self._calls += 1
        return actions(self._calls / 100)


class KeepsHistory(Zero):
    """Full, and so steady, before the second rollout with one observation begins."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=2)

    def act(self, observation: Observation) -> Actions:
        self._seen.append(sum(float(v.sum()) for v in observation.proprio.values()) / 100)
        return actions(sum(self._seen))


class KeepsHistoryAndDraws(KeepsHistory):
    def __init__(self) -> None:
        super().__init__()
        self._rng = np.random.default_rng(3)

    def act(self, observation: Observation) -> Actions:
        noise = self._rng.normal(size=(1, 7)) + np.random.normal()
        return np.clip(super().act(observation) + noise / 100, -1, 1)


class Sessions(Counts):
    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def session(self) -> Sessions:
        return Sessions()


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = random.Random(3)


class Draws(Zero):
    """From generators of its own, which no reset begins anew."""

    def __init__(self) -> None:
        self._new = {"rng": [np.random.default_rng(3)]}
        self._old, self._slotted = np.random.RandomState(3), Slotted()

    def act(self, observation: Observation) -> Actions:
        return actions(
            self._new["rng"][0].normal() + self._old.normal() + self._slotted.rng.random()
        )


class DrawsAnew(Zero):
    """From one that each reset seeds from the system."""

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._rng = np.random.default_rng()

    def act(self, observation: Observation) -> Actions:
        return actions(self._rng.normal())


class CannotBeCopied(Counts):
    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()


class BehindAServer(Counts):
    keeps_time = True


class WarmsUp(Zero):
    def __init__(self) -> None:
        self._warm = 0

    def act(self, observation: Observation) -> Actions:
        self._warm += 1
        return actions(0.1 if self._warm > 3 else 0.1 + 1e-7)


@pytest.mark.parametrize(
    "policy",
    [Counts(), KeepsHistory(), KeepsHistoryAndDraws(), Sessions()],
    ids=lambda p: type(p).__name__,
)
def test_state_that_survives_reset_breaks_the_contract(policy: Zero) -> None:
    assert not policy.spec.seeded
    with pytest.raises(AssertionError) as broken:
        check_policy(policy, observation(), INFO)
    assert str(broken.value) == SURVIVES


@pytest.mark.parametrize(
    "policy, remark",
    [
        (Draws(), CHANCE),
        (DrawsAnew(), CHANCE),
        (CannotBeCopied(), UNKNOWN),
        (BehindAServer(), UNKNOWN),
        (WarmsUp(), WARMS_UP),
    ],
    ids=lambda value: type(value).__name__,
)
def test_chance_is_a_remark_and_what_cannot_be_told_blames_neither(
    policy: Zero, remark: str
) -> None:
    assert remark in check_policy(policy, observation(), INFO)


def test_what_a_policy_of_the_global_generators_keeps_is_told_from_what_it_draws() -> None:
    class Both(Counts):
        spec = replace(Zero.spec, seeded=False)

        def act(self, observation: Observation) -> Actions:
            return super().act(observation) * np.random.uniform() * random.random()

    with pytest.raises(AssertionError, match="state survives reset"):
        check_policy(Both(), observation(), INFO)
