"""Policies that do not look: the floor of every comparison, and enough to try the machinery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

ACTION_DIM = 7
"""Six end-effector deltas and the gripper: LIBERO's layout."""

CHUNK = 8


class Zero:
    """Never moves: six zeros and an open gripper (-1), which is LIBERO's settle action.

    A task that it solves was solved before the policy did anything.
    """

    spec = PolicySpec(
        name="zero",
        revision="1",
        action_dim=ACTION_DIM,
        chunk=CHUNK,
        replan=CHUNK,
        language=False,
        stateless=True,
    )

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """None: it can do nothing anywhere."""
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation) -> NDArray[np.floating]:  # noqa: ARG002
        """(8, 7): no motion, gripper open."""
        actions = np.zeros((CHUNK, ACTION_DIM))
        actions[:, -1] = -1.0
        return actions

    def close(self) -> None:
        """Nothing to free."""


class Random:
    """Every component uniform in -1 ... 1 and independent, from ``reset``'s seed alone."""

    spec = PolicySpec(
        name="random",
        revision="1",
        action_dim=ACTION_DIM,
        chunk=CHUNK,
        replan=CHUNK,
        seeded=True,
        language=False,
    )

    def __init__(self) -> None:
        self._rng: np.random.Generator | None = None

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """None: it flails anywhere."""
        return None

    def session(self) -> Random:
        """Another one, with a generator of its own."""
        return type(self)()

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        """Start a generator of its own, so that nothing else in the process has a say."""
        self._rng = np.random.default_rng(seed)

    def act(self, observation: Observation) -> NDArray[np.floating]:  # noqa: ARG002
        """(8, 7) uniform in -1 ... 1.

        Raises:
            RuntimeError: called before ``reset``.
        """
        if self._rng is None:
            raise RuntimeError("act before reset: there is no seed yet")
        return self._rng.uniform(-1.0, 1.0, size=(CHUNK, ACTION_DIM))

    def close(self) -> None:
        """Nothing to free."""
