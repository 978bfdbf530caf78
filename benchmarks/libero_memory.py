"""Memory of a simulator worker over many episodes of LIBERO.

    python -m benchmarks.libero_memory [--episodes 300]

One worker process, as a run has it: prepare, shift a camera in every other episode, settle, and two
chunks with both pictures drawn before each; a rollout, but shorter. A task of each of the four
suites takes its turn, five episodes long at first and then twenty, so that worlds are built and
freed, and each comes again. The figure is the most that any episode after the first twenty left
resident, over the most that one of those twenty did.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.request import settings_of
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators.launch import open_simulator

TARGET_PERCENT = 5.0
WARM = 20
TURN = Intervention(
    "camera",
    "camera_orientation",
    "L3",
    {"theta_max_deg": 10.0},
    {"yaw": 0.7, "pitch": -0.5},
)
TASKS = (
    ("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket"),
    ("libero_goal", "turn_on_the_stove"),
    ("libero_spatial", "pick_up_the_black_bowl_on_the_stove_and_place_it_on_the_plate"),
    ("libero_10", "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it"),
)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def turn(count: int) -> int:
    """Whose turn it is at episode ``count``, and how often a task has changed before."""
    return count // 5 if count < WARM else len(TASKS) + (count - WARM) // WARM


def measure(episodes: int) -> Iterator[float]:
    """MB after every episode."""
    settings = settings_of(load_suite("quickstart"))
    simulator = open_simulator(settings, envs=1, rollout_timeout_s=600)
    rng = np.random.default_rng(0)
    try:
        for count in range(episodes):
            suite, task = TASKS[turn(count) % len(TASKS)]
            simulator.prepare(Episode(suite, task, count % 50))
            if count % 2:
                simulator.apply([TURN])
            idle = np.tile(simulator.info.settle_action, (10, 1))
            simulator.step(idle, stop_on_success=False)
            for _ in range(2):
                simulator.observe(settings.cameras)
                simulator.step(rng.uniform(-1.0, 1.0, (8, 7)))
            pid = getattr(simulator, "pid", None)
            assert isinstance(pid, int)
            yield resident_mb(pid)
    finally:
        simulator.close()


def long_rows() -> Iterator[Row]:
    found = list(measure(300))
    growth = 100 * (max(found[WARM:]) / max(found[:WARM]) - 1)
    yield Row("memory of a worker, episodes 21 to 300 over 1 to 20", growth, "%", TARGET_PERCENT)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=300)
    given = parser.parse_args()
    for count, megabytes in enumerate(measure(given.episodes)):
        if turn(count) != turn(count + 1):
            suite = TASKS[turn(count) % len(TASKS)][0]
            print(f"after {count + 1:4d} {suite:<16}{megabytes:9.1f} MB", flush=True)


if __name__ == "__main__":
    main()
