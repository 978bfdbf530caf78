"""Which rollout a free lane takes next: pure bookkeeping, without threads, clocks or a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest

Found = Callable[[str], RolloutRecord | None]
"""The record of a key, or None if its rollout is still to be run."""


@dataclass(frozen=True, slots=True)
class Job:
    """One rollout that somebody wants.

    Attributes:
        wanted: the rollout.
        clean: the clean rollout that it must pair with; None if it is the clean one itself.
    """

    wanted: RolloutRequest
    clean: RolloutRequest | None = None

    @property
    def key(self) -> str:
        return self.wanted.key


class Agenda:
    """Jobs in the order in which they will be asked for.

    A job can be taken when its clean rollout is done. Until then it is kept back, and a later one
    goes first: at the beginning of an episode its other rollouts wait for the clean one, and lanes
    begin the next episodes.

    Args:
        found: looks into the store.
    """

    def __init__(self, found: Found) -> None:
        self._found = found
        self._coming: Iterator[Job] = iter(())
        self._kept: deque[Job] = deque()
        self._under_way: set[str] = set()
        self._elsewhere: set[str] = set()

    def expect(self, jobs: Iterable[Job]) -> None:
        """Replace what is ahead; read one by one, as lanes come free."""
        self._coming = iter(jobs)
        self._kept.clear()

    def demand(self, jobs: Iterable[Job]) -> None:
        """Put jobs first, whatever is ahead: somebody waits for them now."""
        first = list(jobs)
        keys = {job.key for job in first}
        self._kept = deque(chain(first, (job for job in self._kept if job.key not in keys)))

    def take(self) -> Job | None:
        """The next job that can run now, marked as under way; None if there is none."""
        passed: list[Job] = []
        taken: Job | None = None
        while (job := self._next()) is not None:
            verdict = self._verdict(job)
            if verdict == "run":
                taken = job
                break
            if verdict == "later":
                passed.append(job)
        self._kept.extendleft(reversed(passed))
        if taken is not None:
            self._under_way.add(taken.key)
        return taken

    def ended(self, job: Job) -> None:
        """A job that was taken is over, however it went."""
        self._under_way.discard(job.key)

    def run_elsewhere(self, job: Job) -> None:
        """Another process runs a job that was taken; it is not offered until :meth:`look_again`."""
        self.ended(job)
        self._elsewhere.add(job.key)
        self._kept.appendleft(job)

    @property
    def elsewhere(self) -> bool:
        """Whether a job waits for another process."""
        return bool(self._elsewhere)

    def look_again(self) -> None:
        """Offer again what other processes were running."""
        self._elsewhere.clear()

    def _next(self) -> Job | None:
        """What was kept back, then what comes."""
        return self._kept.popleft() if self._kept else next(self._coming, None)

    def _verdict(self, job: Job) -> Literal["run", "later", "never"]:
        if job.key in self._under_way or self._found(job.key) is not None:
            return "never"
        if job.key in self._elsewhere:
            return "later"
        if job.clean is None:
            return "run"
        clean = self._found(job.clean.key)
        if clean is None:
            return "later"
        # A clean arm with an infrastructure error leaves nothing to compare with.
        return "run" if clean.status == "done" else "never"
