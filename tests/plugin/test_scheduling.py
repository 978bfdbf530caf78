"""The xdist scheduler on its own, against workers and a controller that keep to xdist's rules."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pytest_vla_shift.scheduling import group_of
from tests.fakes.xdist_run import FakeRun, FakeWorker

CONDITIONS = ("null", "blur-L1", "base-L2", "base+blur-L2", "null-r1")


def cells(episodes: int, per_episode: int = len(CONDITIONS)) -> list[str]:
    names = [CONDITIONS[k] if k < len(CONDITIONS) else f"axis_{k}-L1" for k in range(per_episode)]
    return [
        f"suites/test_it.py::test_shift[toy-reach-e{episode:02d}-{name}]"
        for episode in range(episodes)
        for name in names
    ]


def test_the_group_is_the_module_and_the_episode() -> None:
    assert group_of("a/test_b.py::test_c[toy-reach-e07-blur-L2]") == "a/test_b.py::toy-reach-e07"
    assert group_of("a/test_b.py::T::test_d[toy-reach-e07-null]") == "a/test_b.py::toy-reach-e07"
    assert group_of("a/test_c.py::test_c[toy-reach-e07-null]") == "a/test_c.py::toy-reach-e07"
    for alone in ("a.py::test_b", "a.py::test_b[x-e07]", "a.py::test_audit[no-policy]", "a.py"):
        assert group_of(alone) == alone


def test_an_episode_goes_to_one_worker_in_collected_order() -> None:
    run = FakeRun([*cells(6), "suites/test_it.py::test_audit"], workers=3)
    run.run_to_the_end(random.Random(0).randrange)
    assert sorted(index for worker in run.all for index in worker.ran) == list(range(31))
    where: dict[str, set[str]] = {}
    for worker in run.all:
        assert worker.ran == worker.sent == sorted(worker.sent)
        for index in worker.ran:
            where.setdefault(group_of(run.ids[index]), set()).add(worker.gateway.id)
    assert {len(workers) for workers in where.values()} == {1}
    assert all(worker.ran for worker in run.all), "a worker had nothing to do"


def test_two_test_functions_over_one_episode_share_its_worker() -> None:
    ids = cells(4)
    ids += [node.replace("test_shift", "test_again") for node in ids]
    run = FakeRun(ids, workers=2)
    run.run_to_the_end(random.Random(1).randrange)
    for worker in run.all:
        groups = {group_of(ids[index]) for index in worker.ran}
        assert len(worker.ran) == 10 * len(groups)


def test_a_worker_is_given_as_much_as_its_lanes_can_use() -> None:
    run = FakeRun(cells(40, per_episode=2), workers=2, ahead=9)
    for worker in run.all:
        run.boot(worker)
    for worker in run.all:
        run.collect(worker)
    assert [len(worker.queue) for worker in run.all] == [10, 10]
    assert run.all[0].sent == [0, 1, 4, 5, 8, 9, 12, 13, 16, 17]


@pytest.mark.parametrize("nodes", [0, 1, 2, 3])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_fewer_nodes_than_workers_end_as_well(nodes: int, workers: int) -> None:
    run = FakeRun([f"test_a.py::test_{n}" for n in range(nodes)], workers)
    run.run_to_the_end()
    assert sorted(index for worker in run.all for index in worker.ran) == list(range(nodes))


def test_workers_that_collect_different_nodes_are_refused() -> None:
    run = FakeRun(cells(2), workers=2)
    first, second = run.all
    run.boot(first)
    run.boot(second)
    run.collect(first)
    run.collect(second, list(reversed(run.ids)))
    assert [name for name, _ in run.refused] == ["gw1"]
    assert "Different tests were collected between gw0 and gw1" in run.refused[0][1]
    run.run_to_the_end()
    assert not first.sent
    assert not second.sent


def test_a_replacement_that_collects_differently_is_refused_and_the_others_run_the_rest() -> None:
    run = FakeRun(cells(6), workers=2)
    first, second = run.all
    for worker in (first, second):
        run.boot(worker)
    for worker in (first, second):
        run.collect(worker)
    run.crash(first)
    (replacement,) = run.booting
    run.boot(replacement)
    run.collect(replacement, run.ids[1:])
    assert [name for name, _ in run.refused] == ["gw2"]
    run.run_to_the_end()
    assert not replacement.sent
    assert sorted([*second.ran, *run.crashed]) == list(range(30))


def test_a_run_whose_only_replacement_is_refused_ends() -> None:
    run = FakeRun(cells(3), workers=1)
    run.boot(run.all[0])
    run.collect(run.all[0])
    run.crash(run.all[0])
    (replacement,) = run.booting
    run.boot(replacement)
    run.collect(replacement, run.ids[1:])
    run.run_to_the_end()
    assert run.refused
    assert not replacement.sent


def test_a_worker_that_dies_while_it_collects_is_waited_for_no_longer_than_its_replacement() -> (
    None
):
    run = FakeRun(cells(2), workers=2)
    first, second = run.all
    run.boot(first)
    run.boot(second)
    run.collect(first)
    run.crash(second)
    assert not first.sent, "sent before every worker had collected"
    run.run_to_the_end()
    assert sorted(index for worker in run.all for index in worker.ran) == list(range(10))


def test_a_worker_that_dies_after_it_has_collected_is_waited_for_again() -> None:
    run = FakeRun(cells(2), workers=2)
    first, second = run.all
    run.boot(first)
    run.boot(second)
    run.collect(first)
    run.crash(first)
    run.collect(second)
    assert not second.sent
    run.run_to_the_end()
    assert sorted(index for worker in run.all for index in worker.ran) == list(range(10))


def test_what_a_dead_worker_leaves_comes_first_and_in_order() -> None:
    run = FakeRun(cells(8, per_episode=2), workers=2, ahead=5)
    first, second = run.all
    for worker in (first, second):
        run.boot(worker)
    for worker in (first, second):
        run.collect(worker)
    assert first.sent == [0, 1, 4, 5, 8, 9]
    run.crash(first)
    assert second.sent == [2, 3, 6, 7, 10, 11]
    for _ in range(6):
        if second.can_run:
            run.complete(second)
    assert second.sent == [2, 3, 6, 7, 10, 11, 1, 4, 5, 8, 9]


def test_a_worker_with_work_left_can_take_over_from_a_dead_one() -> None:
    run = FakeRun(cells(2, per_episode=4), workers=2, ahead=9)
    first, second = run.all
    for worker in (first, second):
        run.boot(worker)
    for worker in (first, second):
        run.collect(worker)
    run.crash(first)
    assert second.sent == [4, 5, 6, 7, 1, 2, 3]


def test_another_plugin_can_ask_for_a_crashed_node_again() -> None:
    run = FakeRun(cells(2), workers=1)
    run.boot(run.all[0])
    run.collect(run.all[0])
    run.crash(run.all[0])
    run.scheduler.mark_test_pending(run.ids[0])
    run.run_to_the_end()
    assert sorted(index for worker in run.all for index in worker.ran) == list(range(10))


def seconds(nodes: int) -> float:
    """CPU of everything that the scheduler does for ``nodes`` nodes, with as much again of fake."""
    run = FakeRun(cells(nodes // 20, per_episode=20), workers=2)
    began = time.process_time()
    for worker in run.all:
        run.boot(worker)
    for worker in run.all:
        run.collect(worker)
    while not run.ended:
        for worker in list(run.running):
            if worker.can_run:
                run.complete(worker)
            elif worker.done:
                run.finish(worker)
    assert sum(len(worker.ran) for worker in run.all) == nodes
    return time.process_time() - began


def test_fifty_thousand_nodes_cost_no_more_each_than_five_thousand() -> None:
    few = min(seconds(5_000) for _ in range(3)) / 5_000
    many = min(seconds(50_000) for _ in range(2)) / 50_000
    # What is quadratic would cost ten times as much a node.
    assert many < 3 * few


class AnyOrder(RuleBasedStateMachine):
    """Completions, crashes and replacements in any order, at any moment."""

    run: FakeRun

    @initialize(
        groups=st.lists(st.integers(1, 7), max_size=8),
        workers=st.integers(1, 4),
        ahead=st.integers(2, 9),
        restarts=st.none() | st.integers(0, 3),
        seed=st.integers(0, 2**32),
    )
    def begin(
        self, groups: list[int], workers: int, ahead: int, restarts: int | None, seed: int
    ) -> None:
        ids = [
            f"test_it.py::test_shift[toy-reach-e{group:02d}-axis_{k}-L1]" if size > 1 else f"t::{k}"
            for group, size in enumerate(groups)
            for k in range(size)
        ]
        if seed % 3 == 0:  # collected in an order in which episodes are interleaved
            random.Random(seed).shuffle(ids)
        self.run = FakeRun(list(dict.fromkeys(ids)), workers, ahead=ahead, restarts=restarts)

    def _pick(self, data: st.DataObject, workers: list[FakeWorker]) -> FakeWorker:
        return data.draw(st.sampled_from(workers))

    @precondition(lambda self: self.run.booting)
    @rule(data=st.data())
    def boot(self, data: st.DataObject) -> None:
        self.run.boot(self._pick(data, self.run.booting))

    @precondition(lambda self: self.run.collecting)
    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        self.run.collect(self._pick(data, self.run.collecting))

    @precondition(lambda self: any(w.can_run for w in self.run.running))
    @rule(data=st.data(), times=st.integers(1, 6))
    def complete(self, data: st.DataObject, times: int) -> None:
        worker = self._pick(data, [w for w in self.run.running if w.can_run])
        for _ in range(times):
            if worker.can_run:
                self.run.complete(worker)

    @precondition(lambda self: any(w.done for w in self.run.running))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.run.finish(self._pick(data, [w for w in self.run.running if w.done]))

    @precondition(lambda self: self.run.ended)
    @rule()
    def stay(self) -> None:
        assert not self.run.scheduler.nodes

    @precondition(lambda self: not self.run.ended and len(self.run.all) < 12)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.run.crash(self._pick(data, self.run.active))

    @invariant()
    def it_does_not_hang(self) -> None:
        assert not self.run.stuck

    @invariant()
    def workers_have_two_nodes_or_are_told(self) -> None:
        for worker in self.run.running:
            if self.run.scheduler.collection_is_completed:
                assert len(worker.queue) >= 2 or worker.told

    @invariant()
    def nothing_is_run_twice(self) -> None:
        counts = Counter([i for worker in self.run.all for i in worker.ran] + self.run.crashed)
        assert set(counts.values()) <= {1}

    @invariant()
    def only_what_a_dead_worker_left_is_sent_again(self) -> None:
        times = Counter(i for worker in self.run.all for i in worker.sent)
        left = Counter(i for worker in self.run.all if worker.dead for i in worker.queue)
        for index, count in times.items():
            assert count <= 1 + left[index]

    @invariant()
    def an_episode_stays_where_it_is_unless_its_worker_died(self) -> None:
        where: dict[str, set[str]] = {}
        for worker in self.run.all:
            if worker.dead and worker.queue:
                continue
            for index in worker.sent:
                where.setdefault(group_of(self.run.ids[index]), set()).add(worker.gateway.id)
        moved = {
            group_of(self.run.ids[i])
            for worker in self.run.all
            if worker.dead
            for i in worker.queue
        }
        assert all(len(names) == 1 for group, names in where.items() if group not in moved)

    @invariant()
    def within_an_episode_nodes_run_in_collected_order(self) -> None:
        for worker in self.run.all:
            by_group: dict[str, list[int]] = {}
            for index in worker.sent:
                by_group.setdefault(group_of(self.run.ids[index]), []).append(index)
            assert all(found == sorted(found) for found in by_group.values())

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        self.run.run_to_the_end(random.Random(0).randrange)
        ran = {i for worker in self.run.all for i in worker.ran}
        if not self.run.gave_up:
            # As long as dead workers are replaced, every node is run or reported as crashed.
            assert ran | set(self.run.crashed) == set(range(len(self.run.ids)))


def test_in_any_order_of_events_nothing_is_lost_or_run_twice() -> None:
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
