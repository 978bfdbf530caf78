"""A seat at a policy that lives in other actors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyError, PolicyStuck

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.cluster.policy_host import Answer, Begun
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

RETRY_S = 0.5
"""How often policies that are being started anew are asked whether they are back."""


class RemoteSeat:
    """The Seat protocol, answered by policy actors.

    A rollout stays with the actor at which it began. Each begins at the first of ``policies`` that
    is there: the others stand in for one that is being started anew, or never will be.

    Args:
        policies: actors with a :class:`~.policy_host.PolicyHost`, its own one first.
        number: the seat's; no two rollouts that run at once have the same.
        spec: what the policy said of itself at the start of the run.
        start_s: how long a policy that died may take to be started anew, if there is no other.

    Attributes:
        place: node and GPU of the policy, for people; empty before the first ``begin``.
    """

    def __init__(
        self, policies: Sequence[RemoteActor], number: int, spec: PolicySpec, start_s: float
    ) -> None:
        self._policies = tuple(policies)
        self._here = self._policies[0]
        self._number = number
        self._spec = spec
        self._start_s = start_s
        self._token = ""
        self.policy_seconds = 0.0
        self.place = ""

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def begin(self, info: EpisodeInfo, seed: int) -> None:
        """See :class:`~.rollouts.seat.Seat`. Waits where no policy is there and one will be.

        Raises:
            PolicyError: it raised, or came back as another one.
            PolicyStuck: there is none any more.
        """
        self.policy_seconds = 0.0
        begun = self._begin(info, seed)
        if begun.fault is not None:
            raise begun.fault
        if begun.opened.spec != self._spec:
            raise PolicyError(
                f"the policy was started anew and is another one: {begun.opened.spec}, which was"
                f" {self._spec}"
            )
        self._token = begun.token
        self.place = begun.opened.place

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        """See :class:`~.rollouts.seat.Seat`.

        Raises:
            PolicyError: it raised, its answer cannot be executed, or its process died.
        """
        try:
            answer = cast("Answer", self._here.call("ask", self._number, self._token, observation))
        except ActorLost as error:
            # No failure of the policy at its task. Whether there is another, the next one asks.
            raise PolicyError(f"the policy's process died: {error}") from None
        self.policy_seconds = answer.seconds
        if answer.fault is not None:
            raise answer.fault
        assert answer.chunk is not None
        return answer.chunk.copy()  # what crosses processes is read-only

    def _begin(self, info: EpisodeInfo, seed: int) -> Begun:
        until = time.monotonic() + self._start_s
        while True:
            lost: list[ActorLost] = []
            for policy in self._policies:
                try:
                    begun = cast("Begun", policy.call("begin", self._number, info, seed))
                except ActorLost as error:
                    lost.append(error)
                    continue
                if policy is not self._policies[0] and _has_no_seat(begun):
                    continue
                self._here = policy
                return begun
            if time.monotonic() > until or not any(error.back_soon for error in lost):
                raise PolicyStuck(f"the policy's process is gone for good: {lost[0]}")
            time.sleep(RETRY_S)


def _has_no_seat(begun: Begun) -> bool:
    """Whether a policy cannot stand in for another: it keeps state for the rollouts that it has."""
    return begun.fault is not None and not isinstance(begun.fault, InfrastructureError)
