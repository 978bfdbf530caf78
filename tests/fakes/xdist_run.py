"""pytest-xdist without processes: workers and a controller that keep to its rules.

A worker runs a node only when it knows the next one or that there is none; it runs nothing that
comes after it was told so. The controller does what ``xdist.dsession.DSession`` does with a
scheduler: adds workers, removes dead ones, starts replacements, and ends the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_vla_shift.scheduling import EpisodeScheduling


@dataclass
class FakeGateway:
    id: str


@dataclass(eq=False)
class FakeWorker:
    """One worker: what it was sent, and what it has run."""

    gateway: FakeGateway
    queue: deque[int] = field(default_factory=deque)
    sent: list[int] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)
    told: bool = False
    dead: bool = False

    @property
    def shutting_down(self) -> bool:
        return self.told or self.dead

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down, "nodes sent to a worker that cannot run them"
        assert indices
        self.queue.extend(indices)
        self.sent.extend(indices)

    def shutdown(self) -> None:
        self.told = True

    @property
    def can_run(self) -> bool:
        """Whether it is running a node, not waiting to know what comes next."""
        return not self.dead and len(self.queue) >= (1 if self.told else 2)

    @property
    def done(self) -> bool:
        return self.told and not self.queue and not self.dead


class FakeRun:
    """The controller's side of a run over ``ids`` with ``workers`` workers.

    Args:
        restarts: workers that may be replaced; None for any number.
    """

    def __init__(
        self, ids: Sequence[str], workers: int, *, ahead: int = 2, restarts: int | None = None
    ) -> None:
        self.ids = list(ids)
        self.refused: list[tuple[str, str]] = []
        self.scheduler = EpisodeScheduling(workers, ahead, lambda *told: self.refused.append(told))
        self.restarts = restarts
        self.shutting_down = False
        self.gave_up = False
        self.crashed: list[int] = []
        self.all: list[FakeWorker] = []
        self.booting: list[FakeWorker] = []
        self.collecting: list[FakeWorker] = []
        self.running: list[FakeWorker] = []
        for _ in range(workers):
            self._start()

    @property
    def active(self) -> list[FakeWorker]:
        return [*self.booting, *self.collecting, *self.running]

    @property
    def ended(self) -> bool:
        return self.shutting_down and not self.active

    @property
    def stuck(self) -> bool:
        """Nothing can happen any more, and the run has not ended: a hang."""
        if self.ended or self.booting or self.collecting:
            return False
        return not any(worker.can_run or worker.done for worker in self.running)

    def boot(self, worker: FakeWorker) -> None:
        self.booting.remove(worker)
        self.collecting.append(worker)
        if self.shutting_down:
            worker.shutdown()
        else:
            self.scheduler.add_node(worker)
        self._after()

    def collect(self, worker: FakeWorker, ids: Sequence[str] | None = None) -> None:
        self.collecting.remove(worker)
        self.running.append(worker)
        if not self.shutting_down:
            self.scheduler.add_node_collection(worker, self.ids if ids is None else ids)
            if self.scheduler.collection_is_completed:
                self.scheduler.schedule()
        self._after()

    def complete(self, worker: FakeWorker) -> None:
        index = worker.queue.popleft()
        worker.ran.append(index)
        self.scheduler.mark_test_complete(worker, index, 0.0)
        self._after()

    def finish(self, worker: FakeWorker) -> None:
        """It has run everything, and ends."""
        self.running.remove(worker)
        worker.dead = True
        if worker in self.scheduler.nodes:
            assert self.scheduler.remove_node(worker) is None
        self._after()

    def crash(self, worker: FakeWorker) -> None:
        for where in (self.booting, self.collecting, self.running):
            if worker in where:
                where.remove(worker)
        worker.dead = True
        running = worker.queue[0] if worker.queue else None
        if worker in self.scheduler.nodes:
            crashed = self.scheduler.remove_node(worker)
            assert crashed == (None if running is None else self.ids[running])
            if running is not None:
                self.crashed.append(running)
        if self.restarts == 0:
            self.gave_up = True
            self._trigger_shutdown()
        else:
            self.restarts = None if self.restarts is None else self.restarts - 1
            self.shutting_down = False
            self._start()
        self._after()

    def run_to_the_end(self, choose: Callable[[int], int] = lambda _: 0) -> None:
        """Everything that can happen, in an order of ``choose(count) -> index``; no crashes."""
        while not self.ended:
            assert not self.stuck, "the run hangs"
            steps: list[tuple[Callable[[FakeWorker], None], FakeWorker]] = [
                *((self.boot, w) for w in self.booting),
                *((self.collect, w) for w in self.collecting),
                *((self.complete, w) for w in self.running if w.can_run),
                *((self.finish, w) for w in self.running if w.done),
            ]
            step, worker = steps[choose(len(steps))]
            step(worker)

    def _start(self) -> None:
        worker = FakeWorker(FakeGateway(f"gw{len(self.all)}"))
        self.all.append(worker)
        self.booting.append(worker)

    def _after(self) -> None:
        if self.scheduler.tests_finished:
            self._trigger_shutdown()

    def _trigger_shutdown(self) -> None:
        if not self.shutting_down:
            self.shutting_down = True
            for worker in self.scheduler.nodes:
                worker.shutdown()
