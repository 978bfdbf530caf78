"""The Policy protocol: who is under test."""

from __future__ import annotations

from collections.abc import Sequence
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
        stateless: whether ``act`` depends on nothing but the observation (and on the random state
            that the rollout swaps in), so that one instance may serve rollouts side by side.
        batch: how many observations ``act_batch`` takes at once; 1 for a policy without it.
        seedable: whether a seed can be handed to it at all. A policy that is not ``seeded`` is
            recorded as inert where it gets a seed that decides nothing, and as ``not supported``
            where its server's protocol has no place for one.
        checkpoint: label and digest of its weights; empty if nobody said.
        located: names of arguments that say where something lies. They are left out of the key,
            which knows no paths: what lies there must be in ``revision``.
        unidentified: whether ``revision`` cannot tell which weights answer, as behind a server that
            does not say. Reports ask for a checkpoint then, where none is named.
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
    stateless: bool = False
    batch: int = 1
    seedable: bool = True
    checkpoint: str = ""
    located: tuple[str, ...] = ()
    unidentified: bool = False


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


class SessionPolicy(Policy, Protocol):
    """A policy that keeps state from call to call, and can serve several rollouts side by side."""

    def session(self) -> Policy:
        """Another policy with state of its own, which may share weights with this one.

        Asked for once a lane; closed with it. Its spec must be this one's.
        """
        ...


class BatchPolicy(Policy, Protocol):
    """A stateless policy that answers several rollouts in one call. ``spec.batch`` is above 1."""

    def act_batch(
        self, observations: Sequence[Observation], seeds: Sequence[int]
    ) -> Sequence[NDArray[np.floating]]:
        """One action chunk for every observation, as ``act`` would give it.

        Always called with exactly ``spec.batch`` observations: where fewer rollouts wait, the
        first is repeated, so that shapes, and with them kernels and rounding, never depend on what
        runs beside. A chunk may depend on its own observation and seed alone. Global generators
        must not be drawn from, since the call belongs to several rollouts: randomness comes from
        ``seeds``, one for each decision of each rollout.
        """
        ...
