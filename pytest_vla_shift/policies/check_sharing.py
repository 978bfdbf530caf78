"""The part of ``check_policy`` about serving several rollouts: sessions, no state, batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla_shift.policies.guard import ask, ask_all, begin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import BatchPolicy, Policy, SessionPolicy
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

    Answers = Sequence[NDArray[np.float64]]

DECISIONS = 3


def decide(policy: Policy, observation: Observation, seed: int) -> NDArray[np.float64]:
    """One answer, in the way in which a rollout would get it."""
    if policy.spec.batch > 1:
        return ask_all(cast("BatchPolicy", policy), [observation], [seed])[0]
    return ask(policy, observation)


def sharing_problems(
    policy: Policy, observation: Observation, info: EpisodeInfo, seeded: Callable[[], None]
) -> list[str]:
    """What would make rollouts that run side by side differ from those that run alone.

    Args:
        policy: it may be asked for more answers; whatever state it has is changed.
        observation: one that fits it.
        info: what it is told at reset.
        seeded: gives the global generators the state in which every answer is asked for.

    Returns:
        A phrase each; empty for a policy that is right, or that serves one rollout at a time.
    """
    other: Policy | None = None
    if policy.spec.stateless:
        other = policy
    elif hasattr(policy, "session"):
        other = cast("SessionPolicy", policy).session()
        if other.spec != policy.spec:
            return ["session() gives a policy of another spec"]
    if other is None:
        return []
    alone = _answers(policy, observation, info, seeded, None)
    if not _same(alone, _answers(policy, observation, info, seeded, None)):
        return []  # nothing repeats, so nothing can be compared; check_policy remarks on that
    beside = _answers(policy, observation, info, seeded, other)
    problems = []
    if not _same(alone, beside):
        kind = "stateless=True, yet it" if policy.spec.stateless else "a session"
        problems.append(f"{kind} answers otherwise when another rollout is served between")
    if policy.spec.batch > 1 and not _batch_is_blind(cast("BatchPolicy", policy), observation):
        problems.append("act_batch answers an observation otherwise when others are in the batch")
    return problems


def _answers(
    policy: Policy,
    observation: Observation,
    info: EpisodeInfo,
    seeded: Callable[[], None],
    between: Policy | None,
) -> Answers:
    """Answers of one rollout, with another one's served in between if there is one."""
    chunks = []
    seeded()
    begin(policy, info, 1)
    for decision in range(DECISIONS):
        if between is not None:
            seeded()
            if decision == 0:
                begin(between, info, 2)
            decide(between, moved(observation), 100 + decision)
        seeded()
        shown = replace(observation, step=observation.step + decision * policy.spec.replan)
        chunks.append(decide(policy, shown, decision))
    return chunks


def _batch_is_blind(policy: BatchPolicy, observation: Observation) -> bool:
    alone = ask_all(policy, [observation], [7])[0]
    others = [moved(observation)] * (policy.spec.batch - 1)
    crowded = ask_all(policy, [observation, *others], [7, *range(len(others))])[0]
    last = ask_all(policy, [*others, observation], [*range(len(others)), 7])[-1]
    return _same([alone, alone], [crowded, last])


def moved(observation: Observation) -> Observation:
    """Another observation of the same shape: a centimetre away, its pictures mirrored."""
    return replace(
        observation,
        images={k: np.ascontiguousarray(v[:, ::-1]) for k, v in observation.images.items()},
        proprio={k: v + 0.01 for k, v in observation.proprio.items()},
    )


def _same(left: Answers, right: Answers) -> bool:
    """Bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
