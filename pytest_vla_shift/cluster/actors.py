"""Actors of a Ray cluster, as processes that answer calls or turn out to be lost.

Ray is imported within functions: a run that does not ask for it never pays for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

PING_S = 5.0
"""How long an answer is waited for before the actor is asked for a sign of life."""


class ActorLost(Exception):
    """An actor's process or node died, or does not answer.

    Attributes:
        back_soon: whether Ray is starting it anew, without what it knew.
    """

    def __init__(self, message: str, *, back_soon: bool = False) -> None:
        super().__init__(message)
        self.back_soon = back_soon


@dataclass(frozen=True, slots=True)
class RemoteActor:
    """An actor, wherever it is. May be sent to other actors.

    Attributes:
        handle: Ray's.
        name: for people.
        silence_s: an actor that gives no sign of life for so long counts as lost. Its class has a
            method ``ping``, which must be answered while other calls run.
    """

    handle: object
    name: str
    silence_s: float

    def begin(self, method: str, *arguments: object) -> object:
        """Start a call.

        Returns:
            What :meth:`finish` takes.

        Raises:
            ActorLost: it is known to be.
        """
        return self._translated(lambda: getattr(self.handle, method).remote(*arguments))

    def finish(self, reference: object, limit_s: float | None = None) -> object:
        """What a call returns.

        Raises:
            ActorLost: the actor is lost, or ``limit_s`` is over.
            Exception: what the method raised, as Ray wraps it.
        """
        import ray

        until = None if limit_s is None else time.monotonic() + limit_s
        heard = time.monotonic()
        next_ping = heard + PING_S
        ping: object = None
        while True:
            left = PING_S if until is None else min(PING_S, until - time.monotonic())
            done = self._wait([r for r in (reference, ping) if r is not None], max(0.0, left))
            if reference in done:
                return self._translated(lambda: ray.get(reference))
            now = time.monotonic()
            if ping is not None and ping in done:
                heard, ping = now, None
                next_ping = now + PING_S
            if until is not None and now >= until:
                raise ActorLost(f"{self.name} did not answer within {limit_s:g} s")
            if now - heard > self.silence_s:
                raise ActorLost(f"{self.name} gave no sign of life for {self.silence_s:g} s")
            if ping is None and now >= next_ping:
                ping = self.begin("ping")

    def call(self, method: str, *arguments: object, limit_s: float | None = None) -> object:
        """:meth:`begin` and :meth:`finish`."""
        return self.finish(self.begin(method, *arguments), limit_s)

    def is_done(self, reference: object) -> bool:
        """Whether :meth:`finish` would not wait."""
        return bool(self._wait([reference], 0.0))

    def kill(self) -> None:
        """End its process at once, and for good. Idempotent; never raises."""
        import ray

        try:
            ray.kill(self.handle, no_restart=True)
        except Exception:
            # It, or the cluster, is gone already.
            return

    def _wait(self, references: list[object], within_s: float) -> list[object]:
        import ray

        done: list[object] = self._translated(
            lambda: ray.wait(references, num_returns=1, timeout=within_s)[0]
        )
        return done

    def _translated(self, work: Callable[[], T]) -> T:
        """``work``, with Ray's ways of saying that somebody died told as one."""
        from ray.exceptions import ActorUnavailableError, RayError, RayTaskError

        try:
            return work()
        except RayTaskError:
            raise  # the method raised
        except RayError as error:
            words = " ".join(str(error).split())
            raise ActorLost(
                f"{self.name} is lost: {words[:300]}",
                back_soon=isinstance(error, ActorUnavailableError),
            ) from error
