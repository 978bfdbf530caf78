"""A rollout's place at the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation


class Abandoned(Exception):
    """The run ends: a rollout under way is given up, and leaves no record."""


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
            Abandoned: the run ends.
        """
        ...

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        """The next action chunk, checked: (T, action_dim) float64.

        Raises:
            PolicyError: it raised, or its answer cannot be executed.
            Abandoned: the run ends.
        """
        ...
