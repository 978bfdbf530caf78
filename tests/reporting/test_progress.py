"""The progress line: rollouts, not nodes; a rate of what was run, not of what was found."""

from __future__ import annotations

from pytest_vla_shift.reporting.progress import INTERVAL_S, Progress

# Two episodes with two shifted rollouts each; the last node is a second test over the same cell.
NODES = {
    "a-1": ("clean-a", "a-1"),
    "a-2": ("clean-a", "a-2"),
    "b-1": ("clean-b", "b-1"),
    "b-2": ("clean-b", "b-2"),
    "again-b-2": ("clean-b", "b-2"),
}


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_rollout_counts_once_and_the_last_one_is_always_shown() -> None:
    clock = Clock()
    progress = Progress(NODES, clock)
    clock.now += 2
    assert progress.count("a-1", executed=2) is None, "shown too soon"
    clock.now += INTERVAL_S
    assert progress.count("a-2", executed=1) == "rollouts 3 of 6, 4.0 s each, 0:12 left"
    assert progress.count("b-1", executed=2) is None
    assert progress.count("b-1", executed=2) is None, "the same node again"
    clock.now += 3
    assert progress.count("b-2", executed=1) == "rollouts 6 of 6, 2.5 s each, 0:00 left"
    assert progress.count("again-b-2", executed=0) is None


def test_what_was_found_counts_as_done_but_not_into_the_rate() -> None:
    clock = Clock()
    progress = Progress(NODES, clock)
    clock.now += INTERVAL_S
    assert progress.count("a-1", executed=0) == "rollouts 2 of 6 (2 found)"
    clock.now += INTERVAL_S
    line = progress.count("b-1", executed=2)
    assert line == "rollouts 4 of 6 (2 found), 10.0 s each, 0:20 left"


def test_a_node_outside_the_plan_counts_for_nothing() -> None:
    progress = Progress(NODES, Clock())
    assert progress.count("test_ordinary", executed=0) is None
    assert progress.line() == "rollouts 0 of 6"


def test_fast_rollouts_are_told_per_second() -> None:
    clock = Clock()
    progress = Progress(NODES, clock)
    clock.now += 0.5
    progress.count("a-1", executed=2)
    assert progress.line() == "rollouts 2 of 6, 4.0 per s, 0:01 left"
