"""A policy of ours behind a wire: what a server does with what it received."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.policies import extension, mapping
from pytest_vla_shift.policies.guard import ask, begin, new_session
from pytest_vla_shift.policies.profile import Profile, narrowed
from pytest_vla_shift.policies.randomness import MAKING_SEED, RolloutRandomness
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy

UNTOLD = 1_000_000
"""Horizon of a rollout of a client that does not say one."""


class Service(Protocol):
    """A server that listens. Made listening; one method an action, from any thread."""

    @property
    def url(self) -> str:
        """What a client is given, with the port that it really has."""
        ...

    def serve(self) -> None:
        """Answer until :meth:`close`."""
        ...

    def close(self) -> None:
        """Stop, and free the port. Idempotent."""
        ...


POLL_S = 0.02

PATIENCE_S = 2.0
"""How long a client waits for a place that another one, or its own last connection, may be leaving.
Servers pass it to :meth:`Host.visit`."""


class HostBusy(Exception):
    """A policy that keeps state serves somebody already, and offers no sessions."""


class Host:
    """A policy with a profile, for any number of visits.

    Args:
        policy: who answers; closed by who made it.
        profile: of the wire, for the simulator that the policy acts in.
        seed: of the rollouts of clients that send none.

    Raises:
        UsageError: the profile carries other cameras or actions than the policy has.
    """

    def __init__(self, policy: Policy, profile: Profile, *, seed: int = 0) -> None:
        spec = policy.spec
        absent = [camera for camera in spec.cameras if camera not in profile.cameras]
        if absent or spec.action_dim != profile.action_dim:
            raise UsageError(
                f"policy {spec.name!r} cannot be served with profile {profile.name!r}: it looks"
                f" through {', '.join(spec.cameras) or 'nothing'} and gives {spec.action_dim}"
                f" numbers an action; the profile has {', '.join(profile.cameras)} and"
                f" {profile.action_dim}"
            )
        self.policy = policy
        self.spec = spec
        self.seed = seed
        self.profile = narrowed(profile, spec.cameras)
        # The policy's calls, and the global generators around them, have the process to themselves.
        self.turn = threading.Lock()
        self._free: list[Policy] = [policy]
        self._given: list[Policy] = []

    def announcement(self) -> dict[str, object]:
        """What clients of ours are told; see :mod:`pytest_vla_shift.policies.extension`."""
        several = self.spec.stateless or hasattr(self.policy, "session")
        return extension.announce(self.spec, sessions=several)

    def visit(self, patience_s: float = 0.0) -> Visit:
        """A place for one client.

        Args:
            patience_s: how long to wait for one. A client that connects anew after an error may
                come before its old connection is seen to have ended.

        Raises:
            HostBusy: there is none.
        """
        until = time.monotonic() + patience_s
        while True:
            try:
                return self._place()
            except HostBusy:
                if time.monotonic() >= until:
                    raise
            time.sleep(POLL_S)

    def _place(self) -> Visit:
        with self.turn:
            if self.spec.stateless:
                return Visit(self, self.policy)
            if self._free:
                return Visit(self, self._free.pop())
            if not hasattr(self.policy, "session"):
                raise HostBusy(
                    f"policy {self.spec.name!r} keeps state and offers no sessions: it serves one"
                    " client at a time"
                )
            with RolloutRandomness(MAKING_SEED).swapped_in():
                return Visit(self, new_session(self.policy, self._given))

    def close(self) -> None:
        """Close the sessions that visits had; the policy itself is closed by who made it."""
        with self.turn, ExitStack() as each:
            for session in self._given:
                each.callback(session.close)
            self._given, self._free = [], []

    def leave(self, policy: Policy) -> None:
        """Take back what a visit had."""
        with self.turn:
            if not self.spec.stateless:
                self._free.append(policy)


class Visit:
    """One client's rollouts, one after another."""

    def __init__(self, host: Host, policy: Policy) -> None:
        self._host = host
        self._policy: Policy | None = policy
        self._randomness: RolloutRandomness | None = None
        self._sentence: str | None = None
        self._step = 0

    def begin(self, sent: object = None, *, sentence: str = "", seed: int | None = None) -> None:
        """A rollout begins.

        Args:
            sent: what a client of ours says of it; the rest is for those that do not.
            sentence: the instruction, where the wire tells it.
            seed: where the wire tells one; None for the host's.

        Raises:
            ExtensionError: ``sent`` is malformed.
            InfrastructureError: the policy raised.
        """
        if sent is None:
            info = EpisodeInfo(Episode("unknown", "unknown", 0), sentence, UNTOLD)
            seed = self._host.seed if seed is None else seed
        else:
            info, seed = extension.begin_of(sent)
        self._randomness = RolloutRandomness(seed)
        self._sentence, self._step = info.instruction, 0
        with self._host.turn, self._randomness.swapped_in():
            begin(self._open(), info, seed)

    def act(
        self, sent: Mapping[str, NDArray[np.generic] | str], beside: object = None
    ) -> dict[str, NDArray[np.float64]]:
        """The answer, name -> (T, W) as the profile calls them.

        A client that does not say where rollouts begin begins one with its first observation, and
        with every other sentence.

        Args:
            sent: one observation, as the profile has it.
            beside: what a client of ours sends with it.

        Raises:
            MappingError, ExtensionError: it is not that.
            InfrastructureError: the policy raised, or gave what cannot be executed.
        """
        images, proprio, sentence = mapping.observed(self._host.profile, sent)
        observation = Observation(images, proprio, sentence, self._step)
        if beside is not None:
            observation = extension.completed(observation, beside)
        if self._randomness is None or (beside is None and sentence != self._sentence):
            self.begin(sentence=sentence)
            observation = observation if beside is not None else replace(observation, step=0)
        assert self._randomness is not None
        with self._host.turn, self._randomness.swapped_in():
            chunk = ask(self._open(), observation)
        self._step += min(len(chunk), self._host.spec.replan)
        return mapping.reply(self._host.profile, chunk)

    def close(self) -> None:
        """The client is gone. Idempotent."""
        policy, self._policy = self._policy, None
        if policy is not None:
            self._host.leave(policy)

    def _open(self) -> Policy:
        if self._policy is None:
            raise HostBusy("this visit is over")
        return self._policy
