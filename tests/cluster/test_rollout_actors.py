"""Lanes and the rollout actors that they share, without Ray: calls go straight into hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.cluster.rollout_actors import LOOK_S, RolloutActors
from pytest_vla_shift.protocol.errors import SimulatorError, WorkerLost
from pytest_vla_shift.protocol.suite import Suite, load_suite
from tests.plugin.toy_project import SUITE

WAIT_S = 10.0


@dataclass
class Busy:
    """Stands where an actor does, and knows how many it starts a simulator for at once.

    Attributes:
        starting: met by every call of ``start`` while it is under way.
        fault: what ``start`` answers, or raises if it is a loss.
    """

    starting: Callable[[], object] = lambda: None
    fault: Exception | None = None
    most: int = 0
    starts: int = 0
    killed: bool = False
    _now: int = 0
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, method: str, *arguments: object) -> object:
        return ""

    def is_done(self, reference: object) -> bool:
        return True

    def finish(self, reference: object) -> object:
        return reference

    def call(self, method: str, *arguments: object) -> object:
        if method != "start":
            return ""
        with self._mutex:
            self._now += 1
            self.starts += 1
            self.most = max(self.most, self._now)
        self.starting()
        with self._mutex:
            self._now -= 1
        if isinstance(self.fault, ActorLost | ValueError):
            raise self.fault
        return self.fault

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "suite.toml").write_text(SUITE)
    return load_suite(tmp_path / "suite.toml")


def opened(*hosts: Busy) -> RolloutActors:
    """Actors of places 0, 1, ...; one that is started anew takes the next host."""
    coming = iter(hosts)
    actors = RolloutActors(lambda _: cast("RemoteActor", next(coming)), len(hosts), WAIT_S)
    actors.open()
    return actors


def test_lanes_that_start_together_start_a_simulator_each_in_actors_of_their_own(
    suite: Suite,
) -> None:
    # A simulator serves one thread: a second start kills the worker that the first one waits for.
    both_under_way = threading.Barrier(2)
    hosts = [Busy(lambda: both_under_way.wait(WAIT_S)) for _ in range(2)]
    actors = opened(*hosts)
    with ThreadPoolExecutor(2) as lanes:
        for lane in [lanes.submit(actors.start, suite) for _ in range(2)]:
            lane.result()
    assert [host.most for host in hosts] == [1, 1]


def test_an_actor_that_starts_a_simulator_takes_no_rollout_meanwhile(suite: Suite) -> None:
    under_way, over = threading.Event(), threading.Event()

    def starting() -> None:
        under_way.set()
        assert over.wait(WAIT_S)

    hosts = [Busy(starting), Busy(starting)]
    actors = opened(*hosts)
    with ThreadPoolExecutor(2) as lanes:
        started = lanes.submit(actors.start, suite)
        assert under_way.wait(WAIT_S)
        free = actors.take()
        assert hosts[free].starts == 0
        waiting = lanes.submit(actors.take)
        with pytest.raises(TimeoutError):
            waiting.result(3 * LOOK_S)
        over.set()
        started.result()
        assert {free, waiting.result()} == {0, 1}


@pytest.mark.parametrize(
    "fault", [SimulatorError("no such asset"), ValueError("of the node")], ids=["told", "raised"]
)
def test_what_cannot_start_is_said_and_its_actor_stays(suite: Suite, fault: Exception) -> None:
    actors = opened(Busy(fault=fault))
    with pytest.raises(type(fault), match=str(fault)):
        actors.start(suite)
    assert actors.take() == 0


def test_an_actor_that_is_lost_at_the_start_is_replaced(suite: Suite) -> None:
    hosts = [Busy(fault=ActorLost("actor 0 is lost")), Busy()]
    coming = iter(hosts)
    actors = RolloutActors(lambda _: cast("RemoteActor", next(coming)), 1, WAIT_S)
    actors.open()
    with pytest.raises(WorkerLost, match="actor 0 is lost"):
        actors.start(suite)
    assert hosts[0].killed
    actors.start(suite)
    assert hosts[1].starts == 1
