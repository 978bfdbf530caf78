"""One call at a time into the policy, in order, each with its rollout's own random state."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.threaded import in_thread
from pytest_vla_shift.protocol.errors import PolicyError, PolicyTimeout, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation, PrivilegedState
from pytest_vla_shift.rollouts.desk import Desk, Turn
from pytest_vla_shift.rollouts.seat import Abandoned, Seat
from tests.fakes import lane_policies, toy_policies

INFO = EpisodeInfo(Episode("toy", "reach_left", 0), "reach", 60)


def looking(x: float = 0.0) -> Observation:
    """What the toy's expert needs: the hand at ``x``, the target a little further."""
    return Observation(
        {},
        {"eef_pos": np.array([x, 0.0, 0.0])},
        "reach",
        0,
        PrivilegedState(positions={"target_1": np.array([x + 0.2, 0.1, 0.0])}),
    )


def in_threads(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_the_turn_goes_round_in_the_order_of_asking() -> None:
    turn, order = Turn(), []
    turn.take()
    threads = []
    for number in range(5):

        def work(mine: int = number) -> None:
            turn.take()
            order.append(mine)
            turn.give()

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        while len(turn._waiting) <= number:
            time.sleep(0.001)
    turn.give()
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4]


def test_a_closed_turn_sends_away_those_who_wait_and_those_who_come() -> None:
    turn = Turn()
    turn.take()
    seen: list[type[BaseException]] = []

    def waits() -> None:
        try:
            turn.take()
        except Abandoned as error:
            seen.append(type(error))

    thread = threading.Thread(target=waits)
    thread.start()
    while not turn._waiting:
        time.sleep(0.001)
    turn.close()
    thread.join(10)
    assert seen == [Abandoned]
    with pytest.raises(Abandoned):
        turn.take()


def test_a_policy_with_memory_gets_a_session_for_each_seat_or_is_refused() -> None:
    desk = Desk(lane_policies.Sessions())
    first, second = desk.seat(), desk.seat()
    first.begin(INFO, 1)
    second.begin(INFO, 1)
    for _ in range(8):  # the first one's hand closes
        first.ask(looking())
    touching = Observation(
        {},
        {"eef_pos": np.zeros(3)},
        "reach",
        0,
        PrivilegedState(positions={"target_1": np.zeros(3)}),
    )
    assert first.ask(touching)[-1, 6] == 1.0
    assert second.ask(looking())[0, 6] == -1.0
    alone = Desk(toy_policies.Expert())
    alone.seat()
    with pytest.raises(UsageError, match=r"session\(\)"):
        alone.seat()
    shared = Desk(lane_policies.Stateless())
    assert [shared.seat().spec.stateless for _ in range(3)] == [True] * 3


def drawn(seat: Seat, seed: int, decisions: int) -> list[list[float]]:
    seat.begin(INFO, seed)
    return [seat.ask(looking()).ravel().tolist() for _ in range(decisions)]


def test_each_seat_draws_from_its_own_generators_whoever_asks_between() -> None:
    expected = [drawn(Desk(lane_policies.DrawsEverywhere()).seat(), seed, 6) for seed in (1, 2, 3)]
    desk = Desk(lane_policies.DrawsEverywhere())
    seats = [desk.seat() for _ in range(3)]
    found: dict[int, list[list[float]]] = {}

    def lane(number: int) -> None:
        found[number] = drawn(seats[number], number + 1, 6)

    in_threads(*(lambda n=n: lane(n) for n in range(3)))
    assert [found[n] for n in range(3)] == expected


def test_whoever_holds_the_turn_draws_undisturbed_and_disturbs_nobody() -> None:
    expected = drawn(Desk(lane_policies.DrawsEverywhere()).seat(), 5, 6)
    desk = Desk(lane_policies.DrawsEverywhere())
    seat = desk.seat()
    desk.turn.take()
    found: list[list[list[float]]] = []
    thread = threading.Thread(target=lambda: found.append(drawn(seat, 5, 6)))
    thread.start()
    random.seed(11)
    np.random.seed(11)
    mine = []
    while thread.is_alive():
        mine.append((random.random(), float(np.random.random())))
        with desk.lent():
            time.sleep(0.002)
    random.seed(11)
    np.random.seed(11)
    assert mine == [(random.random(), float(np.random.random())) for _ in mine]
    assert found == [expected]


def batched(seats: list[Seat], x: dict[int, float]) -> dict[int, object]:
    """Each seat's answers, or its error's words, with its hand at ``x``."""
    found: dict[int, object] = {}

    def lane(number: int) -> None:
        try:
            seats[number].begin(INFO, number)
            found[number] = [
                seats[number].ask(looking(x.get(number, 0.0))).ravel().tolist() for _ in range(5)
            ]
        except PolicyError as error:
            found[number] = str(error)

    in_threads(*(lambda n=n: lane(n) for n in range(len(seats))))
    return found


def test_batches_are_filled_and_give_each_rollout_what_it_would_get_alone(
    tmp_path: Path,
) -> None:
    alone = {}
    for number in range(6):
        seat = Desk(lane_policies.Batcher()).seat()
        seat.begin(INFO, number)
        alone[number] = [seat.ask(looking()).ravel().tolist() for _ in range(5)]
    log = tmp_path / "calls"
    desk = Desk(lane_policies.Batcher(str(log)))
    assert batched([desk.seat() for _ in range(6)], {}) == alone
    sizes = [int(line) for line in log.read_text().split()]
    assert sum(sizes) == 30
    assert max(sizes) > 1
    assert max(sizes) <= 4


def test_two_rollouts_that_take_a_little_longer_than_each_other_are_answered_together(
    tmp_path: Path,
) -> None:
    class Slow(lane_policies.Batcher):
        def act_batch(self, observations, seeds):  # type: ignore[no-untyped-def]
            time.sleep(0.1)
            return super().act_batch(observations, seeds)

    log = tmp_path / "calls"
    desk = Desk(Slow(str(log)))
    seats = [desk.seat(), desk.seat()]

    def lane(number: int) -> None:
        seats[number].begin(INFO, number)
        for _ in range(10):
            seats[number].ask(looking())
            time.sleep(0.005 * number)  # its simulator's step

    in_threads(lambda: lane(0), lambda: lane(1))
    sizes = [int(line) for line in log.read_text().split()]
    assert sum(sizes) == 20
    assert len(sizes) <= 14  # 20 if everybody were answered alone


def test_one_poisonous_observation_takes_no_other_rollout_with_it() -> None:
    expected = batched([Desk(lane_policies.Batcher()).seat()] * 1, {})
    desk = Desk(lane_policies.Batcher(fault="poison"))
    found = batched([desk.seat() for _ in range(4)], {2: 0.05})
    assert "an observation that the toy cannot read" in str(found[2])
    assert found[0] == expected[0]
    assert all(isinstance(found[n], list) for n in (0, 1, 3))


@pytest.mark.parametrize(
    "fault,message",
    [("draw", "drew from global generators"), ("short", "returned 3 chunks for 4 observations")],
)
def test_a_batch_that_breaks_its_contract_is_an_error_of_the_policy(
    fault: str, message: str
) -> None:
    seat = Desk(lane_policies.Batcher(fault=fault)).seat()
    seat.begin(INFO, 0)
    with pytest.raises(PolicyError, match=message):
        seat.ask(looking())


class LateDraws(lane_policies.DrawsEverywhere):
    """In its ``slow``-th call it waits past any limit, and then draws as always."""

    slow = 0
    calls = 0
    released = threading.Event()

    def act(self, observation):  # type: ignore[no-untyped-def]
        LateDraws.calls += 1
        if LateDraws.calls == LateDraws.slow:
            LateDraws.released.wait(60)
        return super().act(observation)


def test_a_call_that_timed_out_draws_from_no_other_rollouts_generators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undisturbed = drawn(Desk(lane_policies.DrawsEverywhere()).seat(), 2, 6)
    monkeypatch.setattr(LateDraws, "slow", 3)
    monkeypatch.setattr(LateDraws, "calls", 0)
    desk = Desk(in_thread(LateDraws, 2.0))
    seat = desk.seat()
    with pytest.raises(PolicyTimeout):
        drawn(seat, 1, 6)
    # It comes to its draws when the next rollout has begun to ask.
    threading.Timer(0.2, LateDraws.released.set).start()
    assert drawn(seat, 2, 6) == undisturbed


def test_a_session_that_is_no_other_policy_is_refused() -> None:
    class Itself(lane_policies.Sessions):
        def session(self) -> lane_policies.Sessions:
            return self

    class TheSameAgain(lane_policies.Sessions):
        only = lane_policies.Sessions()

        def session(self) -> lane_policies.Sessions:
            return self.only

    for make, good in ((Itself, 1), (TheSameAgain, 2)):
        for desk in (Desk(make()), Desk(in_thread(make, 5.0))):
            for _ in range(good):
                desk.seat()
            with pytest.raises(UsageError, match="gave one twice"):
                desk.seat()


def test_what_a_session_draws_when_it_is_made_is_the_same_for_all() -> None:
    class Initialised(lane_policies.Sessions):
        def __init__(self) -> None:
            super().__init__()
            self.weight = random.random() + float(np.random.random())

    made: list[Initialised] = []

    class Notes(Initialised):
        def session(self) -> Initialised:
            made.append(Initialised())
            return made[-1]

    desk = Desk(Notes())
    random.seed(4)
    for _ in range(4):
        desk.seat()
    after = random.random()
    random.seed(4)
    assert after == random.random()
    assert len({policy.weight for policy in made}) == 1
