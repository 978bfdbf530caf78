"""Policies that note what they are told, to be served."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation


class Noting:
    """Everything of a policy but its spec and its answers.

    Attributes:
        begun: what its rollouts were told.
        seen: what it was shown; whoever answers adds to it.
    """

    spec: PolicySpec

    def __init__(self) -> None:
        self.begun: list[tuple[EpisodeInfo, int]] = []
        self.seen: list[Observation] = []

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self.begun.append((episode, seed))

    def close(self) -> None:
        pass


RECORDING = PolicySpec(
    name="recording",
    revision="3",
    cameras=("agentview", "robot0_eye_in_hand"),
    chunk=4,
    replan=2,
    seeded=True,
)


class Recording(Noting):
    """Answers four actions: the end of its seed, its step, their number and the gripper.

    Args:
        changes: of :data:`RECORDING`.

    Attributes:
        error: is raised instead.
    """

    def __init__(self, **changes: object) -> None:
        super().__init__()
        self.spec = replace(RECORDING, **changes)  # type: ignore[arg-type]
        self.error: Exception | None = None

    def act(self, observation: Observation) -> NDArray[np.float64]:
        if self.error is not None:
            raise self.error
        self.seen.append(observation)
        actions = np.zeros((4, self.spec.action_dim))
        actions[:, 0] = self.begun[-1][1] % 1000 / 1000
        actions[:, 1] = observation.step / 1000
        actions[:, 2] = 0.1 + np.arange(4) / 100
        actions[:, 6] = [1.0, -1.0, -1.0, 1.0]
        return actions


class RecordingSessions(Recording):
    """One for each client."""

    def session(self) -> RecordingSessions:
        other = RecordingSessions()
        other.spec = self.spec
        return other
