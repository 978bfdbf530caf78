"""Lanes start their simulators side by side, before the first job."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from pytest_vla_shift.protocol.suite import Suite, load_suite
from pytest_vla_shift.rollouts.agenda import Agenda
from pytest_vla_shift.rollouts.attempts import Outcome
from pytest_vla_shift.rollouts.lanes import Lanes
from pytest_vla_shift.rollouts.request import RolloutRequest
from pytest_vla_shift.rollouts.rollout import CleanStart

PATIENCE_S = 30.0


class Runner:
    """Tells that its simulator starts, then waits for another one's to start as well."""

    def __init__(self, beside: Runner | None = None, error: Exception | None = None) -> None:
        self.starting = threading.Event()
        self.thread = ""
        self.closed = False
        self._beside = beside
        self._error = error

    def start(self, suite: Suite) -> None:
        self.thread = threading.current_thread().name
        self.starting.set()
        if self._beside is not None and not self._beside.starting.wait(PATIENCE_S):
            raise TimeoutError("the other one did not start meanwhile")
        if self._error is not None:
            raise self._error

    def run(self, wanted: RolloutRequest, start: CleanStart | None) -> Outcome:
        raise NotImplementedError

    def abandon(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _lanes(*runners: Runner) -> Lanes:
    return Lanes(runners, Agenda(lambda _: None), lambda *_: None, nullcontext)


def test_the_simulators_of_all_lanes_that_have_work_start_at_once() -> None:
    second, third = Runner(), Runner()
    first = Runner(beside=second)
    lanes = _lanes(first, second, third)
    lanes.start(load_suite("quickstart"), 2)
    assert first.thread == threading.current_thread().name
    assert second.thread == "vla-lane-1"
    lanes.expect(())
    lanes.close()
    assert not third.starting.is_set()
    assert first.closed
    assert second.closed
    assert third.closed


def test_what_the_first_cannot_start_is_told_and_the_others_end() -> None:
    second = Runner()
    first = Runner(beside=second, error=RuntimeError("no simulator here"))
    lanes = _lanes(first, second)
    with pytest.raises(RuntimeError, match="no simulator here"):
        lanes.start(load_suite("quickstart"), 2)
    lanes.close()
    assert second.closed


def test_what_another_cannot_start_is_left_to_its_first_rollout() -> None:
    second = Runner(error=RuntimeError("no second one"))
    lanes = _lanes(Runner(beside=second), second)
    lanes.start(load_suite("quickstart"), 2)
    lanes.wait((), lambda: True)  # raises what a lane met
    lanes.close()
    assert second.closed
