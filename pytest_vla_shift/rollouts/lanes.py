"""Lanes: several rollouts at once, each in a thread that waits for its simulator and its turn.

What a lane does beside its simulator (a worker process) is little, so threads are enough. The
thread that runs pytest asks for one rollout after the other in the collected order, and finds it
done, under way, or lets it be taken next.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from pytest_vla_shift.rollouts.agenda import Agenda, Job
from pytest_vla_shift.rollouts.attempts import Runner
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.seat import Abandoned

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.suite import Suite

ELSEWHERE_S = 0.1
"""How long a lane waits before it looks again at what another process is running."""

PARTING_S = 20.0
"""How long a lane may take to end, once its simulators are killed."""

Execute = Callable[[Runner, Job, str], RolloutRecord | None]
"""Runs and records a job in a lane, given its name; None if another process is at it."""


class Lanes:
    """Runs jobs ahead of whoever asks for them.

    Args:
        runners: one for each lane.
        agenda: what to run next.
        execute: runs one job and records it.
        lent: gives up the calling thread's turn at the policy within a block.
        watch: called with every record that was written, one after the other; what it returns, if
            anything, ends the lanes and is raised by :meth:`wait`.
    """

    def __init__(
        self,
        runners: Sequence[Runner],
        agenda: Agenda,
        execute: Execute,
        lent: Callable[[], AbstractContextManager[None]],
        watch: Callable[[RolloutRecord], Exception | None] = lambda _: None,
    ) -> None:
        self.runners = tuple(runners)
        self._agenda = agenda
        self._execute = execute
        self._lent = lent
        self._watch = watch
        # Guards all that follows, and the agenda; notified whenever a job ends or arrives.
        self._news = threading.Condition()
        self._finished: deque[RolloutRecord] = deque()
        self._failure: BaseException | None = None
        self._closing = False
        self._threads: dict[int, threading.Thread] = {}

    def start(self, suite: Suite, most: int) -> None:
        """Start the first lane's simulator, and meanwhile those of others: ``most`` in all.

        Before any job. What another lane than the first meets shows at its first rollout.

        Raises:
            Exception: the first lane's cannot start.
        """
        for number in range(1, min(most, len(self.runners))):
            self._begin(number, suite)
        self.runners[0].start(suite)

    def expect(self, jobs: Iterable[Job]) -> None:
        """Tell in which order jobs will be asked for; lanes begin at once."""
        with self._news:
            self._agenda.expect(jobs)
            self._news.notify_all()
        self._start()

    def wait(self, jobs: Sequence[Job], done: Callable[[], bool]) -> None:
        """Wait until ``done``, having ``jobs`` taken first.

        Raises:
            Exception: whatever a lane met that is no outcome of a rollout, for example a full disk.
        """
        with self._news:
            self._agenda.demand(jobs)
            self._news.notify_all()
        self._start()
        with self._lent(), self._news:
            while not done():
                if self._failure is not None:
                    raise self._failure
                self._news.wait()

    def finished(self) -> list[RolloutRecord]:
        """Records that were written since the last call."""
        with self._news:
            new = list(self._finished)
            self._finished.clear()
        return new

    def close(self) -> None:
        """Give up what is under way, and end the threads. Idempotent; never raises."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        for runner in self.runners:
            runner.abandon()
        for thread in self._threads.values():
            thread.join(PARTING_S)
        for number, runner in enumerate(self.runners):
            if number not in self._threads or not self._threads[number].is_alive():
                runner.close()

    def _start(self) -> None:
        """Have all lanes take jobs."""
        if not self._closing:
            for number in range(len(self.runners)):
                self._begin(number, None)

    def _begin(self, number: int, suite: Suite | None) -> None:
        """Have a lane take jobs, if it does not by now; first let it start a suite's simulator."""
        if number in self._threads:
            return
        thread = threading.Thread(
            target=self._serve,
            args=(self.runners[number], str(number), suite),
            name=f"vla-lane-{number}",
        )
        thread.daemon = True  # one that hangs must not keep the process from ending
        self._threads[number] = thread
        thread.start()

    def _serve(self, runner: Runner, name: str, suite: Suite | None) -> None:
        """Take jobs until the end."""
        if suite is not None:
            with suppress(Exception):
                runner.start(suite)
        while (job := self._next()) is not None:
            try:
                record = self._execute(runner, job, name)
            except Abandoned:
                return
            except BaseException as error:
                with self._news:
                    self._failure = self._failure or error
                    self._news.notify_all()
                return
            with self._news:
                if record is None:
                    self._agenda.run_elsewhere(job)
                else:
                    self._agenda.ended(job)
                    self._finished.append(record)
                    self._failure = self._failure or self._watch(record)
                self._news.notify_all()

    def _next(self) -> Job | None:
        """The next job, waited for; None at the end."""
        with self._news:
            while not self._closing and self._failure is None:
                job = self._agenda.take()
                if job is not None:
                    return job
                if self._news.wait(ELSEWHERE_S if self._agenda.elsewhere else None) is False:
                    self._agenda.look_again()
        return None

    def may_record(self) -> bool:
        """Whether a rollout that ends now is still recorded; not once the run is interrupted."""
        return not self._closing
