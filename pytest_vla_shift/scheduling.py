"""pytest-xdist's scheduler for rollouts: the cells of an episode stay together on one worker.

They share a clean rollout, and a simulator that has the episode's task open is quick to prepare the
next of them. The scheduler follows ``xdist.scheduler.protocol.Scheduling``. Every operation costs
what it changes, not what the run has: 50,000 nodes are as cheap a node as 500.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pytest

from pytest_vla_shift.options import read_options
from pytest_vla_shift.protocol.plan import episode_of

KNOWN_NEXT = 2
"""An xdist worker runs a node only when it knows the next one, or that there is none."""


class Gateway(Protocol):
    """A worker's process, by name."""

    @property
    def id(self) -> str: ...


class Worker(Protocol):
    """What is used of xdist's ``WorkerController``."""

    @property
    def gateway(self) -> Gateway: ...

    @property
    def shutting_down(self) -> bool:
        """Whether it has been told that no more nodes come, or has ended."""
        ...

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Append nodes, by their index in the collection, to what it runs."""
        ...

    def shutdown(self) -> None:
        """Tell it that no more nodes come."""
        ...


Refused = Callable[[str, str], None]
"""Called with a worker's name and what it collected differently."""


class EpisodeScheduling:
    """Hands whole episodes to workers, in collected order, whenever one is about to run dry.

    A worker always has two nodes to run, or has been told that no more come. A node is sent again
    only when the worker that had it has died before running it; the node that was running then is
    returned by :meth:`remove_node`, for xdist to report as crashed.

    Args:
        workers: how many collections to wait for before the first node is sent.
        ahead: nodes below which a worker is given the next episode; at least 2.
        refused: told when two workers collected different nodes.
    """

    def __init__(
        self, workers: int, ahead: int = KNOWN_NEXT, refused: Refused = lambda *_: None
    ) -> None:
        self._expected = workers
        self._ahead = max(ahead, KNOWN_NEXT)
        self._refused = refused
        self._ids: Sequence[str] | None = None
        self._given_up = False
        self._collected: dict[Worker, Sequence[str]] = {}
        # Sent and not yet complete, in the order in which the worker runs them.
        self._pending: dict[Worker, dict[int, None]] = {}
        # Those whose collection is the agreed one: only they can be sent an index.
        self._able: dict[Worker, None] = {}
        self._queue: deque[list[int]] = deque()

    @property
    def nodes(self) -> list[Worker]:
        """All workers that are up, those that still collect included."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker has collected once; from then on it stays so."""
        agreed = self._ids is not None or self._given_up
        return agreed or len(self._collected) >= self._expected

    @property
    def tests_finished(self) -> bool:
        """Whether all workers can be told that no more nodes come."""
        if self._given_up:
            return True
        if self._ids is None or self._queue:
            return False
        return all(len(pending) < KNOWN_NEXT for pending in self._pending.values())

    @property
    def has_pending(self) -> bool:
        """Whether a node has been sent, or waits to be, that is not complete."""
        return bool(self._queue) or any(self._pending.values())

    def add_node(self, node: Worker) -> None:
        """A worker is up and begins to collect."""
        self._pending[node] = {}

    def add_node_collection(self, node: Worker, collection: Sequence[str]) -> None:
        """A worker has collected. One that comes later must have collected what the others did."""
        if self._ids is None:
            self._collected[node] = list(collection)
        elif list(collection) == self._ids:
            self._able[node] = None
        else:
            self._refused(node.gateway.id, _difference(self._ids, collection, node.gateway.id))
            node.shutdown()
            if all(worker.shutting_down for worker in self._able):
                # Nobody is left to run the rest. The run must still end: it says what is missing.
                self._queue.clear()

    def schedule(self) -> None:
        """Begin, or begin to use workers that were added."""
        if self._ids is None and not self._given_up:
            self._agree()
        self._feed(self._able)

    def mark_test_complete(self, node: Worker, item_index: int, duration: float = 0) -> None:
        """A worker has run a node. How long that took changes nothing."""
        del duration
        del self._pending[node][item_index]
        self._feed((node,))

    def mark_test_pending(self, item: str) -> None:
        """Another plugin wants a node to be run again."""
        assert self._ids is not None
        self._queue.appendleft([self._ids.index(item)])
        self._feed(self._able)

    def remove_pending_tests_from_node(self, node: Worker, indices: Sequence[int]) -> None:
        """Answers a request to give nodes back, which this scheduler never makes.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("no node is ever asked back from a worker")

    def remove_node(self, node: Worker) -> str | None:
        """A worker has ended. What it had not begun comes first for the others.

        Returns:
            The node that was running when it crashed; None if it had nothing left to run.

        Raises:
            KeyError: it was not up.
        """
        pending = list(self._pending.pop(node))
        self._collected.pop(node, None)
        self._able.pop(node, None)
        if not pending:
            return None
        assert self._ids is not None
        crashed, *left = pending
        self._queue.extendleft(reversed(_by_episode(self._ids, left)))
        self._feed(self._able)
        return self._ids[crashed]

    def _agree(self) -> None:
        """Take over the collection, if it is the same of all workers."""
        (first, ids), *others = self._collected.items()
        for node, collection in others:
            if collection != ids:
                self._given_up = True
                self._refused(
                    node.gateway.id,
                    _difference(ids, collection, node.gateway.id, first.gateway.id),
                )
        if self._given_up:
            return
        self._ids = ids
        self._able = dict.fromkeys(self._collected)
        self._collected.clear()
        self._queue.extend(_by_episode(ids, range(len(ids))))

    def _feed(self, workers: Iterable[Worker]) -> None:
        """Give every worker that needs it the next episode, one each in turn."""
        hungry = [w for w in workers if not w.shutting_down and self._short(w)]
        while hungry and self._queue:
            for worker in hungry:
                if self._queue:
                    episode = self._queue.popleft()
                    self._pending[worker].update(dict.fromkeys(episode))
                    worker.send_runtest_some(episode)
            hungry = [worker for worker in hungry if self._short(worker)]
        for worker in hungry:
            # Not before: a worker that was told cannot take over what another one leaves behind.
            if len(self._pending[worker]) < KNOWN_NEXT:
                worker.shutdown()

    def _short(self, worker: Worker) -> bool:
        return len(self._pending[worker]) < self._ahead


def episode_scheduling(config: pytest.Config) -> EpisodeScheduling:
    """The scheduler of a run: with several rollouts at once a worker looks further ahead."""
    from xdist.workermanage import parse_tx_spec_config

    def refused(worker: str, difference: str) -> None:
        report = pytest.CollectReport(worker, "failed", difference, [])
        config.hook.pytest_collectreport(report=report)

    workers = len(parse_tx_spec_config(config))
    return EpisodeScheduling(workers, read_options(config).envs + 1, refused)


def group_of(node: str) -> str:
    """What the nodes of an episode have in common: their module's path and the episode.

    A node that is no cell is a group of its own.
    """
    path, _, name = node.partition("::")
    episode = episode_of(name.partition("[")[2].removesuffix("]"))
    return node if episode is None else f"{path}::{episode}"


def _by_episode(ids: Sequence[str], indices: Iterable[int]) -> list[list[int]]:
    """``indices`` in groups, by their first nodes; within a group in their own order."""
    groups: dict[str, list[int]] = {}
    for index in indices:
        groups.setdefault(group_of(ids[index]), []).append(index)
    return list(groups.values())


def _difference(
    known: Sequence[str], found: Sequence[str], worker: str, first: str = "the others"
) -> str:
    from xdist.report import report_collection_diff

    return str(report_collection_diff(list(known), list(found), first, worker))


def assigned(config: pytest.Config) -> list[int] | None:
    """Nodes that this xdist worker has been given and not begun, as indices into its items.

    In the order in which it runs them. xdist has no public way to ask, so that its worker's queue
    is looked at, under the queue's own lock.

    Returns:
        None if this process is no xdist worker, or one of a version that keeps its queue elsewhere.
    """
    for plugin in config.pluginmanager.get_plugins():
        # Executed from its source in the worker, so that its class cannot be imported from there.
        if type(plugin).__name__ == "WorkerInteractor":
            try:
                with plugin.torun.lock() as queue:
                    found = [plugin.nextitem_index, *queue]
            except (AttributeError, TypeError):
                return None
            return [index for index in found if isinstance(index, int)]
    return None
