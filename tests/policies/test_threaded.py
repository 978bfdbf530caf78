"""A policy in a thread of its own: one thread for all calls, and a limit for each."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.guard import ask
from pytest_vla_shift.policies.threaded import CallThread, ThreadedPolicy, in_thread
from pytest_vla_shift.protocol.errors import PolicyError, PolicyStuck, PolicyTimeout, UsageError
from tests.fakes import lane_policies, toy_policies
from tests.policies.observations import INFO, observation


def test_a_policy_is_made_called_and_closed_in_one_thread_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_THREAD_CLOSED", str(tmp_path / "closed"))
    threads: list[int] = []

    class Notes(lane_policies.OneThread):
        def reset(self, episode, seed):  # type: ignore[no-untyped-def]
            threads.append(threading.get_ident())
            super().reset(episode, seed)

    policy = in_thread(Notes, 5.0)
    asker = threading.Thread(target=lambda: policy.reset(INFO, 1))
    asker.start()
    asker.join()
    policy.reset(INFO, 2)
    session = policy.session()  # type: ignore[operator]
    session.reset(INFO, 3)
    policy.close()
    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0] not in (threading.get_ident(), asker.ident)
    assert (tmp_path / "closed").exists()


def test_what_the_policy_raises_arrives_as_it_is() -> None:
    def fails() -> toy_policies.Expert:
        raise UsageError("no such checkpoint")

    with pytest.raises(UsageError, match="no such checkpoint"):
        in_thread(fails, 1.0)
    policy = in_thread(toy_policies.RaisesInReset, 1.0)
    with pytest.raises(RuntimeError, match="out of memory"):
        policy.reset(INFO, 0)


def test_optional_methods_are_there_only_if_the_policy_has_them() -> None:
    plain = in_thread(toy_policies.Expert, 1.0)
    assert not hasattr(plain, "session")
    assert not hasattr(plain, "act_batch")
    assert hasattr(in_thread(lane_policies.Sessions, 1.0), "session")
    assert hasattr(in_thread(lane_policies.Batcher, 1.0), "act_batch")
    assert plain.spec == toy_policies.Expert().spec


class Sleeper(toy_policies.Expert):
    """Sleeps as long as ``naps`` says, call by call; then answers with the call's number."""

    def __init__(self, naps: list[float]) -> None:
        super().__init__()
        self._naps = naps
        self._calls = 0

    def act(self, observation):  # type: ignore[no-untyped-def]
        self._calls += 1
        time.sleep(self._naps.pop(0))
        return np.full((1, 7), float(self._calls))


def warm(naps: list[float], timeout_s: float) -> ThreadedPolicy:
    """A policy whose first call, which has longer, is behind it."""
    policy = in_thread(lambda: Sleeper([0.0, *naps]), timeout_s)
    assert ask(policy, observation())[0, 0] == 1.0
    return policy


def test_a_late_answer_is_never_taken_for_that_of_another_call() -> None:
    policy = warm([1.2, 0.0], 1.0)
    with pytest.raises(PolicyTimeout, match=r"act did not return within 1 s \(.*in act\)"):
        ask(policy, observation())
    # It comes 0.2 s later, while the next call waits for its turn.
    assert ask(policy, observation())[0, 0] == 3.0


def test_a_policy_that_never_returns_is_told_apart_from_one_that_is_late() -> None:
    policy = warm([3600.0], 0.2)
    with pytest.raises(PolicyTimeout):
        ask(policy, observation())
    with pytest.raises(PolicyStuck, match="still has not returned"):
        ask(policy, observation())
    began = time.monotonic()
    with pytest.raises(PolicyStuck):
        CallThread.call(policy._thread, lambda: None, "close", limit_s=0.1)
    assert time.monotonic() - began < 2.0


def test_the_first_decision_has_longer() -> None:
    policy = in_thread(lambda: Sleeper([0.5, 0.5]), 0.2)
    assert ask(policy, observation())[0, 0] == 1.0
    with pytest.raises(PolicyTimeout):
        ask(policy, observation())


def test_whoever_waits_can_be_let_go_from_another_thread() -> None:
    policy = warm([3600.0], 3600.0)
    timer = threading.Timer(0.2, policy.give_up)
    timer.start()
    began = time.monotonic()
    with pytest.raises(PolicyError):
        ask(policy, observation())
    assert time.monotonic() - began < 5.0
