"""The rollout actors of a run, and the runners that take turns with them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.protocol.errors import UsageError, WorkerLost
from pytest_vla_shift.rollouts.attempts import ATTEMPTS, Outcome
from pytest_vla_shift.rollouts.seat import Abandoned
from pytest_vla_shift.simulators.factories import load_factory

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.rollouts.request import RolloutRequest
    from pytest_vla_shift.rollouts.rollout import CleanStart
    from pytest_vla_shift.simulators.protocol import SimulatorInfo

LOOK_S = 0.1
"""How often somebody who waits for an actor looks whether one has come up."""

STARTS = 3
"""An actor that cannot be started so many times in a row is given up."""


@dataclass(frozen=True, slots=True)
class _Coming:
    """An actor that Ray is placing and starting, and the check that it must pass."""

    actor: RemoteActor
    check: object
    failures: int


class RolloutActors:
    """One actor a lane, as long as the cluster has room for them. Used by several threads.

    An actor that is lost is replaced. Where its node went with it and there is no room elsewhere,
    lanes share the actors that are left.

    Args:
        make: starts the actor of a place, from 0.
        count: how many.
        start_s: how long one may take to be placed and started, if there is no other.
    """

    def __init__(self, make: Callable[[int], RemoteActor], count: int, start_s: float) -> None:
        self._make = make
        self._start_s = start_s
        # Guards all that follows.
        self._news = threading.Condition()
        self._actors: dict[int, RemoteActor] = {}
        self._free: deque[int] = deque()
        self._coming: dict[int, _Coming] = {}
        self._infos: dict[str, SimulatorInfo] = {}
        self._trouble = ""
        self.closed = False
        for place in range(count):
            self._begin(place, failures=0)

    def open(self) -> None:
        """Wait until all have come up.

        Raises:
            UsageError: one did not.
        """
        until = time.monotonic() + self._start_s
        with self._news:
            while self._coming:
                self._admit()
                if self._trouble:
                    raise UsageError(f"a rollout actor cannot start: {self._trouble}")
                if time.monotonic() > until:
                    raise UsageError(
                        f"{len(self._coming)} rollout actors were not started within"
                        f" {self._start_s:g} s: are the cluster's CPUs taken by others?"
                    )
                self._news.wait(LOOK_S)

    def start(self, suite: Suite) -> None:
        """Start the simulator of a suite in a free actor; check on all nodes that it is the same.

        Lanes that start together have an actor each: a simulator serves one thread, and another
        start, or a rollout, beside the one under way would take its worker from it.

        Raises:
            UsageError, InfrastructureError: it cannot start, or is another one somewhere.
            Abandoned: the run ends.
        """
        simulator = suite.simulator
        info = load_factory(simulator).describe()
        with self._news:
            self._infos[simulator] = info
            actors = list(self._actors.values())
        for actor in actors:
            problem = str(actor.call("check", {simulator: info}))
            if problem:
                raise UsageError(problem)
        place = self.take()
        try:
            fault = self.actor(place).call("start", suite)
        except ActorLost as lost:
            self.lost(place)
            raise WorkerLost(str(lost)) from lost
        except BaseException:
            self.give(place)
            raise
        self.give(place)
        if isinstance(fault, Exception):
            raise fault

    def take(self) -> int:
        """The place of an actor that is free, waited for.

        Raises:
            WorkerLost: there is none any more, and none can be started.
            Abandoned: the run ends.
        """
        until = time.monotonic() + self._start_s
        with self._news:
            while True:
                if self.closed:
                    raise Abandoned
                self._admit()
                if self._free:
                    return self._free.popleft()
                alone = not self._actors
                if alone and (not self._coming or time.monotonic() > until):
                    raise WorkerLost(
                        "no rollout actor is left, and none could be started anew"
                        f" within {self._start_s:g} s{': ' if self._trouble else ''}{self._trouble}"
                    )
                self._news.wait(LOOK_S)

    def actor(self, place: int) -> RemoteActor:
        """The actor of a place that was taken."""
        with self._news:
            return self._actors[place]

    def give(self, place: int) -> None:
        """Back, after use."""
        with self._news:
            self._free.append(place)
            self._news.notify()

    def lost(self, place: int) -> None:
        """Start another one for a place that was taken.

        Raises:
            Abandoned: the run ends, and that is why.
        """
        with self._news:
            self._actors.pop(place).kill()
            if self.closed:
                raise Abandoned
            self._begin(place, failures=0)

    def abandon(self) -> None:
        """From another thread: kill all at once. Idempotent."""
        with self._news:
            self.closed = True
            for actor in self._actors.values():
                actor.kill()
            for coming in self._coming.values():
                coming.actor.kill()
            self._news.notify_all()

    def _begin(self, place: int, failures: int) -> None:
        actor = self._make(place)
        try:
            check = actor.begin("check", dict(self._infos))
        except ActorLost as error:
            self._failed(place, _Coming(actor, None, failures), str(error))
            return
        self._coming[place] = _Coming(actor, check, failures)

    def _admit(self) -> None:
        """Take in those that have come up since."""
        for place, coming in list(self._coming.items()):
            if not coming.actor.is_done(coming.check):
                continue
            del self._coming[place]
            try:
                problem = str(coming.actor.finish(coming.check))
            except ActorLost as error:
                self._failed(place, coming, str(error))
                continue
            if problem:
                # Not tried again: the node is what it is.
                self._failed(place, replace(coming, failures=STARTS), problem)
                continue
            self._actors[place] = coming.actor
            self._free.append(place)

    def _failed(self, place: int, coming: _Coming, why: str) -> None:
        coming.actor.kill()
        if coming.failures + 1 < STARTS:
            self._begin(place, coming.failures + 1)
            return
        self._trouble = why
        logging.getLogger(__name__).warning("a rollout actor is given up: %s", why)


class RayRunner:
    """The Runner protocol: a rollout in whatever actor is free."""

    def __init__(self, actors: RolloutActors) -> None:
        self._actors = actors

    def start(self, suite: Suite) -> None:
        """See :meth:`RolloutActors.start`."""
        self._actors.start(suite)

    def run(self, wanted: RolloutRequest, start: CleanStart | None) -> Outcome:
        """The rollout's outcome; a lost actor costs one attempt.

        Raises:
            Abandoned: the run ends.
        """
        began = time.perf_counter()
        attempts = 0
        error: WorkerLost | None = None
        while attempts < ATTEMPTS:
            try:
                place = self._actors.take()
            except WorkerLost as none_left:
                error = none_left
                attempts = max(attempts, 1)
                break
            actor = self._actors.actor(place)
            try:
                outcome = cast("Outcome", actor.call("run", wanted, start, ATTEMPTS - attempts))
            except ActorLost as lost:
                self._actors.lost(place)
                attempts += 1
                error = WorkerLost(str(lost))
                continue
            self._actors.give(place)
            seconds = time.perf_counter() - began
            return replace(outcome, attempts=attempts + outcome.attempts, wall_seconds=seconds)
        return Outcome(None, error, attempts, time.perf_counter() - began)

    def abandon(self) -> None:
        """End all rollouts of the run at once."""
        self._actors.abandon()

    def close(self) -> None:
        """The actors end with the run."""
        self._actors.abandon()
