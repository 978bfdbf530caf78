"""The Policy protocol: who is under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What a policy needs and gives; part of every key.

    Attributes:
        name: what ``--vla-policy`` was given.
        revision: changes whenever the policy's answers could: a version, a source or file digest.
        cameras: cameras that it looks through; empty for a policy that never looks, and then
            nothing is rendered for it.
        privileged: whether it is given ground truth. Such a policy cannot show what a visual
            shift does, and reports say so.
        action_dim: width of its actions.
        chunk: the number of actions that ``act`` returns at most.
        replan: how many of them are executed before it is asked again; at most ``chunk``.
        seeded: whether ``reset``'s seed decides its randomness. False: recorded as inert.
        language: whether it reads the instruction. One that knows tasks by their names or numbers
            alone says False: a language shift is then an identity, and labelled so.
    """

    name: str
    revision: str
    cameras: tuple[str, ...] = ()
    privileged: bool = False
    action_dim: int = 7
    chunk: int = 1
    replan: int = 1
    seeded: bool = False
    language: bool = True


class Policy(Protocol):
    """A policy under test. One instance serves one rollout at a time."""

    @property
    def spec(self) -> PolicySpec: ...

    def unsupported(self, task_suite: str, task: str) -> str | None:
        """Why this policy cannot be asked for a task, or None. Asked before any rollout."""
        ...

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Begin a rollout. Called once a rollout, never at an action step."""
        ...

    def act(self, observation: Observation) -> NDArray[np.floating]:
        """The next action chunk, (T, action_dim) with 1 <= T <= ``spec.chunk``, all finite."""
        ...

    def close(self) -> None: ...
