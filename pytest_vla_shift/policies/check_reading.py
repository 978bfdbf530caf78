"""The part of ``check_policy`` about what answers depend on: words, pictures, what was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.check_sharing import DECISIONS, decide
from pytest_vla_shift.policies.guard import begin
from pytest_vla_shift.protocol.errors import InfrastructureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

OTHER_WORDS = "put the green mug on the tall shelf"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found out.

    Attributes:
        problems: what breaks the contract, a phrase each.
        remarks: what breaks nothing, a sentence each.
    """

    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def reading(
    policy: Policy, observation: Observation, info: EpisodeInfo, seeded: Callable[[], None]
) -> Reading:
    """Ask again with one thing changed, and see whether the answers change.

    Nothing is found out of a policy that does not repeat itself. One that refuses what was changed
    (another sentence) is asked no further about that.

    Args:
        policy: it may be asked for more answers; whatever state it has is changed.
        observation: one that fits it.
        info: what it is told at reset.
        seeded: gives the global generators the state in which every answer is asked for.
    """
    probe = _Probe(policy, info, seeded)
    plain = [observation] * DECISIONS
    usual = probe.answers(plain)
    if usual is None or not _equal(usual, probe.answers(plain)):
        return Reading()
    problems, remarks = [], []
    spec = policy.spec
    other = [replace(observation, instruction=OTHER_WORDS)] * DECISIONS
    reads = _changes(usual, probe.answers(other, replace(info, instruction=OTHER_WORDS)))
    if reads is True and not spec.language:
        problems.append(
            "language=False, yet another instruction gives other actions: language shifts would"
            " be recorded as changing nothing"
        )
    if reads is False and spec.language:
        remarks.append(
            "another instruction gives the same actions here; if it reads none, say"
            " language=False, and language shifts are recorded as changing nothing"
        )
    for camera in spec.cameras:
        pictures = {**observation.images, camera: _inverted(observation.images[camera])}
        if _changes(usual, probe.answers([replace(observation, images=pictures)] * DECISIONS)) is (
            False
        ):
            remarks.append(
                f"another picture of {camera!r} gives the same actions here: is it read at all?"
            )
    if spec.replan > 1:
        later = probe.answers([_moved(observation), *plain[1:]])
        if later is not None and not np.array_equal(usual[1], later[1]):
            remarks.append(
                f"an answer depends on the observation before it, and it is shown one step in"
                f" {spec.replan}: if it was trained on a history of every step, say replan=1"
            )
    return Reading(tuple(problems), tuple(remarks))


@dataclass(frozen=True, slots=True)
class _Probe:
    policy: Policy
    info: EpisodeInfo
    seeded: Callable[[], None]

    def answers(
        self, shown: Sequence[Observation], info: EpisodeInfo | None = None
    ) -> list[NDArray[np.float64]] | None:
        """Of one rollout; None if it refuses."""
        found = []
        replan = self.policy.spec.replan
        try:
            self.seeded()
            begin(self.policy, info or self.info, 1)
            for decision, observation in enumerate(shown):
                self.seeded()
                at = replace(observation, step=observation.step + decision * replan)
                found.append(decide(self.policy, at, decision))
        except InfrastructureError:
            return None
        return found


def _changes(
    usual: Sequence[NDArray[np.float64]], found: Sequence[NDArray[np.float64]] | None
) -> bool | None:
    return None if found is None else not _equal(usual, found)


def _equal(
    left: Sequence[NDArray[np.float64]], right: Sequence[NDArray[np.float64]] | None
) -> bool:
    return right is not None and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def _inverted(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Upside down, a negative and dark: another one by every measure."""
    return np.ascontiguousarray((255 - picture[::-1]) // 2)


def _moved(observation: Observation) -> Observation:
    return replace(
        observation,
        images={camera: _inverted(picture) for camera, picture in observation.images.items()},
        proprio={name: vector + 0.01 for name, vector in observation.proprio.items()},
    )
