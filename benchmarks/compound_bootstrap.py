"""What LIBERO-CTRL's statistics cost: 18 policy x level cells, every rate with its interval.

    OMP_NUM_THREADS=1 python -m benchmarks.compound_bootstrap [--rounds 7]

Each cell has 400 configurations of 40 tasks under six axes, all of them at once, and clean; each of
its rates has an interval from 4,000 resamples of whole tasks. Milliseconds for all 18 cells, the
median and the least of the rounds. Beside them the same rates by drawing the configurations of each
replicate, for one cell and fewer replicates, scaled to 18 cells of 4,000.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.cluster import REPLICATES, task_weights
from pytest_vla_shift.statistics.compound import compound
from pytest_vla_shift.statistics.outcomes import Outcome, Outcomes, complete_cases

AXES = ("actuation", "camera", "language", "lighting", "robot_pose", "sensor")
CELLS, TASKS, CONFIGURATIONS = 18, 40, 10
FEW = 100
"""Replicates of the plain way."""


def outcomes(seed: int) -> Outcomes:
    """One policy at one level."""
    rng = np.random.default_rng(seed)
    cells: list[tuple[TaskName, int, str, Outcome]] = []
    for task in range(TASKS):
        easy = rng.uniform(0.6, 1.0)
        for configuration in range(CONFIGURATIONS):
            for condition in (*AXES, "simultaneous", "clean"):
                success = bool(rng.random() < easy)
                cells.append((("libero", f"task{task:02}"), configuration, condition, success))
    return Outcomes.of(cells)


def plain(given: Outcomes) -> None:
    """A replicate at a time, from the rows of the tasks that it drew."""
    found = complete_cases(given, [*AXES, "simultaneous"])
    rows = [found.y[found.members == task] for task in range(TASKS)]
    drawn = []
    for weights in task_weights(TASKS, FEW).astype(int):
        y = np.concatenate([rows[t] for t, n in enumerate(weights) for _ in range(n)])
        single, conj, sim = y[:, :-1].mean(axis=0), y[:, :-1].all(axis=1), y[:, -1] > 0
        b, c = (conj & ~sim).mean(), (~conj & sim).mean()
        drawn.append([*single, single.prod(), conj.mean(), sim.mean(), b, c, b + c, c - b])
    np.quantile(drawn, [0.025, 0.975], axis=0)


def times(work: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Wall and CPU milliseconds of each round."""
    wall, cpu = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        work()
        wall.append(1000 * (time.perf_counter() - began))
        cpu.append(1000 * (time.process_time() - used))
    return wall, cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    cells = [outcomes(seed) for seed in range(CELLS)]
    kinds: dict[str, Callable[[], object]] = {
        "rates over all configurations": lambda: [compound(cell, AXES) for cell in cells],
        "and restricted to clean, and losses": lambda: [
            compound(cell, AXES, clean="clean") for cell in cells
        ],
    }
    for name, work in kinds.items():
        task_weights.cache_clear()
        wall, cpu = times(work, rounds)
        print(
            f"{name:<38} wall {statistics.median(wall):.0f} (least {min(wall):.0f}) ms,"
            f" CPU {statistics.median(cpu):.0f} (least {min(cpu):.0f}) ms"
        )
    wall, cpu = times(lambda: plain(cells[0]), 3)
    factor = CELLS * REPLICATES / FEW
    print(f"{'a replicate at a time, scaled':<38} CPU {factor * min(cpu):.0f} ms")


if __name__ == "__main__":
    main()
