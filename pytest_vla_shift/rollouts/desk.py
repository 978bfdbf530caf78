"""The desk in front of a policy: many rollouts ask, one call at a time is made.

The global generators (python's, NumPy's, torch's) belong to the process. So a call into the policy,
around which a rollout's own random state is swapped in, must have the process to itself: other
lanes wait for their turn, and so does the thread that runs pytest, which holds the turn except
while it waits for a rollout.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.guard import ask, ask_all, begin, new_session
from pytest_vla_shift.policies.randomness import MAKING_SEED, RolloutRandomness
from pytest_vla_shift.protocol.errors import InfrastructureError, PolicyTimeout, UsageError
from pytest_vla_shift.protocol.identity import stable_seed
from pytest_vla_shift.rollouts.seat import Abandoned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import (
        BatchPolicy,
        Policy,
        PolicySpec,
    )
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
    from pytest_vla_shift.rollouts.seat import Seat


class Turn:
    """A lock that is given in the order in which it was asked for."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Event] = deque()
        self._closed = False

    def take(self) -> None:
        """Wait for the turn.

        Raises:
            Abandoned: by :meth:`close`, before or while waiting.
        """
        with self._mutex:
            if self._closed:
                raise Abandoned
            if not self._held:
                self._held = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        try:
            mine.wait()
        except BaseException:
            self._leave(mine)
            raise
        if self._closed:
            raise Abandoned

    def give(self) -> None:
        """Let the next one have it."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False

    def close(self) -> None:
        """Turn everybody away who waits or comes."""
        with self._mutex:
            self._closed = True
            for event in self._waiting:
                event.set()
            self._waiting.clear()

    def _leave(self, mine: threading.Event) -> None:
        """Interrupted while waiting: step out of the line, or pass on what was just given."""
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self.give()


class Desk:
    """Gives out seats at ``policy``, and the turns of those who sit there."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.spec = policy.spec
        self.turn = Turn()
        self._seats = 0
        self._given: list[Policy] = []
        # Where calls may time out: waits until one that did is over.
        self.settle: Callable[[], None] = getattr(policy, "settle", lambda: None)
        self._questions: deque[_Question] = deque()
        self._last_call_s = 0.0

    def seat(self) -> Seat:
        """One more seat: the policy itself, or a session of its own of a policy that keeps state.

        With the turn held, where other seats are in use: making a session swaps generators too.

        Raises:
            UsageError: the policy keeps state and offers no sessions, and has a seat already.
        """
        policy = self.policy
        if self._seats and not self.spec.stateless:
            check_lanes(policy, self._seats + 1)
            with RolloutRandomness(MAKING_SEED).swapped_in():
                policy = new_session(policy, self._given)
        self._seats += 1
        return _BatchSeat(self) if self.spec.batch > 1 else _SingleSeat(self, policy)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The turn, for calls of the policy, or a seat, that belong to no rollout."""
        self.turn.take()
        try:
            yield
        finally:
            self.turn.give()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """For the thread that runs pytest, which holds the turn: others may within the body.

        Interrupted, it does not wait for the policy: nobody gets a turn any more.
        """
        self.turn.give()
        try:
            yield
        except Exception:
            self.turn.take()
            raise
        except BaseException:
            self.turn.close()
            raise
        self.turn.take()

    def answer(self, question: _Question) -> None:
        """With the turn held: answer ``question``, and with it others that wait, in one call."""
        if question.answered:
            return
        self._wait_for_others()
        batch = [self._questions.popleft() for _ in range(self._batch_size())]
        began = time.perf_counter()
        policy = cast("BatchPolicy", self.policy)
        try:
            chunks = ask_all(policy, [q.observation for q in batch], [q.seed for q in batch])
        except PolicyTimeout as error:
            for asked in batch:
                asked.error = type(error)(str(error))
        except InfrastructureError as error:
            if len(batch) == 1:
                batch[0].error = error
            else:
                # One of them may be at fault: what the others get must not depend on it.
                for alone in batch:
                    self._answer_alone(policy, alone)
        else:
            for asked, chunk in zip(batch, chunks, strict=True):
                asked.chunk = chunk
        self._last_call_s = time.perf_counter() - began
        for asked in batch:
            asked.answered = True
            asked.seconds = self._last_call_s / len(batch)

    def put(self, question: _Question) -> None:
        """Lay a question on the desk, for whoever has the turn next."""
        self._questions.append(question)

    def _wait_for_others(self) -> None:
        """Let those come who were answered together last time, for half as long as a call takes.

        A call costs the same however many it answers. Nobody's answer depends on this.
        """
        until = time.monotonic() + 0.5 * self._last_call_s
        full = min(self.spec.batch, self._seats)
        while len(self._questions) < full and time.monotonic() < until:
            time.sleep(0.001)

    def _batch_size(self) -> int:
        return min(self.spec.batch, len(self._questions))

    @staticmethod
    def _answer_alone(policy: BatchPolicy, question: _Question) -> None:
        try:
            (question.chunk,) = ask_all(policy, [question.observation], [question.seed])
        except InfrastructureError as error:
            question.error = error


def check_lanes(policy: Policy, lanes: int) -> None:
    """Refuse to share a policy that cannot be shared.

    Raises:
        UsageError: more than one lane, and the policy keeps state without offering sessions.
    """
    if lanes > 1 and not policy.spec.stateless and not hasattr(policy, "session"):
        raise UsageError(
            f"policy {policy.spec.name!r} keeps state from call to call and cannot serve {lanes}"
            " rollouts at once: give it a method session(), which returns another policy with state"
            " of its own, or stateless=True in its spec if it keeps none; or run it with"
            " --vla-envs=1 (several processes with a policy each: -n N)"
        )


class _SingleSeat:
    """A seat at a policy that is called for one rollout at a time."""

    def __init__(self, desk: Desk, policy: Policy) -> None:
        self._desk = desk
        self._policy = policy
        self._randomness = RolloutRandomness(0)
        self.policy_seconds = 0.0

    @property
    def spec(self) -> PolicySpec:
        return self._desk.spec

    def begin(self, info: EpisodeInfo, seed: int) -> None:
        self._randomness = RolloutRandomness(seed)
        with self._turn():
            begin(self._policy, info, seed)
        self.policy_seconds = 0.0

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        with self._turn():
            return ask(self._policy, observation)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._desk.turn.take()
        began = time.perf_counter()
        try:
            self._desk.settle()
            with self._randomness.swapped_in():
                yield
        finally:
            self.policy_seconds += time.perf_counter() - began
            self._desk.turn.give()


class _Question:
    """What one rollout asks in a batch."""

    def __init__(self, observation: Observation, seed: int) -> None:
        self.observation = observation
        self.seed = seed
        self.answered = False
        self.chunk: NDArray[np.float64] | None = None
        self.error: InfrastructureError | None = None
        self.seconds = 0.0


class _BatchSeat:
    """A seat at a policy that answers several rollouts in one call."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seed = 0
        self._decisions = 0
        self.policy_seconds = 0.0

    @property
    def spec(self) -> PolicySpec:
        return self._desk.spec

    def begin(self, info: EpisodeInfo, seed: int) -> None:
        self._seed, self._decisions = seed, 0
        self.policy_seconds = 0.0
        with self._desk.held():
            self._desk.settle()
            with RolloutRandomness(seed).swapped_in():
                begin(self._desk.policy, info, seed)

    def ask(self, observation: Observation) -> NDArray[np.float64]:
        question = _Question(observation, stable_seed("decision", self._seed, self._decisions))
        self._decisions += 1
        self._desk.put(question)
        with self._desk.held():
            self._desk.settle()
            self._desk.answer(question)
        self.policy_seconds += question.seconds
        if question.error is not None:
            raise question.error
        assert question.chunk is not None
        return question.chunk
