"""A rollout's place at the policy: its random state, and who may call the policy when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.policies.guard import ask, begin
from pytest_vla_shift.rollouts.randomness import RolloutRandomness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy, PolicySpec
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation


class Seat(Protocol):
    """What a rollout needs of its policy. One seat serves one rollout at a time."""

    @property
    def spec(self) -> PolicySpec: ...

    @property
    def policy_seconds(self) -> float:
        """Wall time within the policy since ``begin``, without waiting for other rollouts."""
        ...

    def begin(self, info: EpisodeInfo, seed: int) -> None:
        """Reset the policy for a rollout whose random state starts at ``seed``.

        Raises:
            PolicyError: it raised.
        """
        ...

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        """The next action chunk, checked: (T, action_dim) float64.

        Raises:
            PolicyError: it raised, or its answer cannot be executed.
        """
        ...


class DirectSeat:
    """The only seat at a policy: called at once, in the caller's thread."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._spec = policy.spec
        self._randomness = RolloutRandomness(0)
        self.policy_seconds = 0.0

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def begin(self, info: EpisodeInfo, seed: int) -> None:
        self._randomness = RolloutRandomness(seed)
        with self._randomness.swapped_in():
            begin(self._policy, info, seed)
        self.policy_seconds = 0.0

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        began = time.perf_counter()
        with self._randomness.swapped_in():
            chunk = ask(self._policy, observation)
        self.policy_seconds += time.perf_counter() - began
        return chunk
