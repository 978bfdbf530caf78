"""A policy that lives in one thread of its own, and whose calls have a time limit.

It is made, called and closed in that thread alone: what libraries keep for each thread (torch's
grad mode, CUDA's current device, event loops) stays together, whoever asks. The caller waits, so
the policy may hang, in Python or in a driver, without taking the run with it; unless it keeps the
interpreter's lock, which no thread of the process can do anything about. For that there is
:mod:`pytest_vla_shift.policies.watchdog`.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import PurePath
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

from pytest_vla_shift.policies.guard import new_session
from pytest_vla_shift.policies.settings import FIRST
from pytest_vla_shift.policies.watchdog import Watchdog
from pytest_vla_shift.protocol.errors import PolicyStuck, PolicyTimeout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import Agrees
    from pytest_vla_shift.policies.protocol import BatchPolicy, Policy, PolicySpec
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

PARTING_S = 5.0
"""How long ``close`` may take, and how long a call that is overdue is waited for at the end."""

GRACE_S = 60.0
"""For waiting until a server is there again, and for saying that it is not."""

T = TypeVar("T")


class _Call:
    """One call, its answer, and whether somebody still wants it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.ended = threading.Event()
        self.result: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()


class CallThread:
    """Runs calls one after another in one daemon thread.

    Args:
        timeout_s: how long a call may take.
        watchdog: ends the process if a call does not and nobody else can; None for nobody.

    Attributes:
        warm: whether a decision was made: the next ones compile and load nothing any more.
    """

    def __init__(self, timeout_s: float, watchdog: Watchdog | None = None) -> None:
        self.timeout_s = timeout_s
        self._watchdog = watchdog
        self.warm = False
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._overdue: _Call | None = None
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="vla-policy", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T], what: str, *, limit_s: float | None = None) -> T:
        """What ``work`` returns or raises, from the thread. One caller at a time.

        Args:
            work: the call.
            what: its name, for people.
            limit_s: how long it may take, if not ``timeout_s``.

        Raises:
            PolicyTimeout: it did not return in time; its answer, if one comes, is dropped.
            PolicyStuck: an earlier call that timed out still has not returned.
        """
        limit_s = self.timeout_s if limit_s is None else limit_s
        self.wait_for_overdue(limit_s)
        call = _Call(work)
        self._overdue = call  # until it is known to have ended
        self._calls.put(call)
        if not self._await(call, limit_s, what):
            where = self._stack_line()
            raise PolicyTimeout(f"the policy's {what} did not return within {limit_s:g} s{where}")
        self._overdue = None
        if call.error is not None:
            raise call.error
        return cast("T", call.result)

    def give_up(self) -> None:
        """From another thread: let whoever waits for a call wait no longer."""
        self._given_up.set()

    def wait_for_overdue(self, limit_s: float) -> None:
        """Let a call end that timed out, if there is one.

        Raises:
            PolicyStuck: it does not.
        """
        call = self._overdue
        if call is None:
            return
        if not self._await(call, limit_s, "late call"):
            raise PolicyStuck(
                "the policy still has not returned from a call that timed out"
                f" {limit_s:g} s ago or more{self._stack_line()}"
            )
        self._overdue = None  # a late answer: dropped

    def part(self) -> None:
        """No more calls: nobody watches over them any more."""
        if self._watchdog is not None:
            self._watchdog.close()

    def _await(self, call: _Call, limit_s: float, what: str) -> bool:
        if self._watchdog is None:
            return self._ends_within(call, limit_s)
        with self._watchdog.watched(limit_s, self._thread.ident or 0, what):
            return self._ends_within(call, limit_s)

    def _ends_within(self, call: _Call, limit_s: float) -> bool:
        until = time.monotonic() + limit_s
        while not call.ended.is_set():
            left = until - time.monotonic()
            if left <= 0.0 or self._given_up.is_set():
                return False
            # Woken by the end of the call; by give_up, within a tenth of a second.
            call.ended.wait(min(left, 0.1))
        return True

    def _stack_line(self) -> str:
        """Where the thread is, for people: `` (policy.py:12, in act)``."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return ""
        last = traceback.extract_stack(frame)[-1]
        return f" ({PurePath(last.filename).name}:{last.lineno}, in {last.name})"

    def _serve(self) -> None:
        while True:
            self._calls.get().run()


class ThreadedPolicy:
    """The Policy protocol around a policy that is made, called and closed in ``thread``.

    ``session``, ``act_batch`` and ``contract`` are there if the policy has them.
    """

    def __init__(self, thread: CallThread, inner: Policy) -> None:
        self._thread = thread
        self._inner = inner
        self._spec = inner.spec
        self._given: list[Policy] = []

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return self._thread.call(lambda: self._inner.unsupported(task_suite, task), "unsupported")

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._thread.call(
            lambda: self._inner.reset(episode, seed), "reset", limit_s=self._limit_s()
        )

    def act(self, observation: Observation) -> NDArray[np.floating]:
        chunk = self._thread.call(
            lambda: self._inner.act(observation), "act", limit_s=self._limit_s()
        )
        self._thread.warm = True
        return chunk

    def close(self) -> None:
        """Close it, unless a call hangs: a policy that does not answer cannot be asked to part."""
        try:
            self._thread.call(self._inner.close, "close", limit_s=PARTING_S)
        finally:
            self._thread.part()

    def settle(self) -> None:
        """Wait until a call that timed out is over.

        It still draws from whatever global generators are in place: those of no other rollout may
        be, so this comes before they are.

        Raises:
            PolicyStuck: it does not end.
        """
        self._thread.wait_for_overdue(self._limit_s())

    def give_up(self) -> None:
        """From another thread: let whoever waits for a call wait no longer."""
        self._thread.give_up()

    def __getattr__(self, name: str) -> object:
        if name == "session":
            inner: Policy = object.__getattribute__(self, "_inner")
            if not hasattr(inner, "session"):
                raise AttributeError(name)
            return self._session
        if name == "act_batch":
            batched: BatchPolicy = object.__getattribute__(self, "_inner")
            act_batch = batched.act_batch
            return lambda observations, seeds: self._act_batch(act_batch, observations, seeds)
        if name == "contract":
            agrees: Agrees = object.__getattribute__(self, "_inner")
            compare = agrees.contract
            return lambda side: self._thread.call(lambda: compare(side), "contract")
        raise AttributeError(name)

    def _session(self) -> ThreadedPolicy:
        inner = self._thread.call(lambda: new_session(self._inner, self._given), "session")
        return ThreadedPolicy(self._thread, inner)

    def _act_batch(
        self,
        act_batch: Callable[[Sequence[Observation], Sequence[int]], Sequence[NDArray[np.floating]]],
        observations: Sequence[Observation],
        seeds: Sequence[int],
    ) -> Sequence[NDArray[np.floating]]:
        chunks = self._thread.call(
            lambda: act_batch(observations, seeds), "act_batch", limit_s=self._limit_s()
        )
        self._thread.warm = True
        return chunks

    def _limit_s(self) -> float:
        timeout_s = self._thread.timeout_s
        if getattr(self._inner, "keeps_time", False):
            # One that keeps its limits itself knows better what hangs, and is left the time to say
            # it: a new connection, a trial, a beginning, each as long as a first call.
            return timeout_s + 2.0 * FIRST * timeout_s + GRACE_S
        return timeout_s * (1.0 if self._thread.warm else FIRST)


def in_thread(make: Callable[[], Policy], timeout_s: float) -> ThreadedPolicy:
    """The policy of ``make``, which is called in the policy's thread; it has no time limit.

    Raises:
        UsageError, InfrastructureError: raised by ``make``.
    """
    thread = CallThread(timeout_s, Watchdog())
    try:
        return ThreadedPolicy(thread, thread.call(make, "making", limit_s=threading.TIMEOUT_MAX))
    except BaseException:
        thread.part()
        raise
