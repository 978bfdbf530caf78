"""A seat at a policy that lives in another actor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.protocol.errors import PolicyError, PolicyStuck

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.cluster.policy_host import Answer, Begun
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

RETRY_S = 0.5
"""How often a policy that is being started anew is asked whether it is back."""


class RemoteSeat:
    """The Seat protocol, answered by a policy actor.

    Args:
        policy: the actor, a :class:`~.policy_host.PolicyHost`.
        number: the seat's; no two rollouts that run at once have the same.
        spec: what the policy said of itself at the start of the run.
        start_s: how long a policy that died may take to be started anew.

    Attributes:
        place: node and GPU of the policy, for people; empty before the first ``begin``.
    """

    def __init__(self, policy: RemoteActor, number: int, spec: PolicySpec, start_s: float) -> None:
        self._policy = policy
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
        """See :class:`~.rollouts.seat.Seat`. Waits for a policy that is being started anew.

        Raises:
            PolicyError: it raised, or came back as another one.
            PolicyStuck: it is gone for good.
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
            PolicyStuck: it is gone for good.
        """
        try:
            answer = cast(
                "Answer", self._policy.call("ask", self._number, self._token, observation)
            )
        except ActorLost as error:
            raise _fault(error) from None
        self.policy_seconds = answer.seconds
        if answer.fault is not None:
            raise answer.fault
        assert answer.chunk is not None
        return answer.chunk.copy()  # what crosses processes is read-only

    def _begin(self, info: EpisodeInfo, seed: int) -> Begun:
        until = time.monotonic() + self._start_s
        while True:
            try:
                return cast("Begun", self._policy.call("begin", self._number, info, seed))
            except ActorLost as error:
                if not error.back_soon or time.monotonic() > until:
                    raise _fault(error) from None
            time.sleep(RETRY_S)


def _fault(error: ActorLost) -> PolicyError:
    """A policy's process that died is no failure of the policy at its task."""
    if error.back_soon:
        return PolicyError(f"the policy's process died: {error}")
    return PolicyStuck(f"the policy's process is gone for good: {error}")
