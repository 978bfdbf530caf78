"""What the end of a run costs: the intervals of its conditions, and the video of one pair.

    OMP_NUM_THREADS=1 python -m benchmarks.reporting [--rounds 5]

CPU seconds, medians. The intervals are those of 80 pairs (8 tasks of 10 episodes) in 12 conditions,
with 10,000 resamples, beside scipy.stats.bootstrap called once a condition for the same statistic.
The video is one of 220 frames, two pictures of 256 x 256 under their captions.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_vla_shift.reporting.video import VideoArm, side_by_side
from pytest_vla_shift.statistics.bootstrap import (
    RESAMPLES,
    Differences,
    macro_replicates,
    percentile_interval,
)

TASKS, EPISODES, CONDITIONS = 8, 10, 12
FPS, FRAMES, SIZE = 10.0, 220, 256
HELD = 10
"""Frames of the second that a video holds its end."""


def conditions() -> dict[str, Differences]:
    """Outcomes of which a third changed."""
    rng = np.random.default_rng(0)
    return {
        f"condition_{c}": {
            ("suite", f"task_{t}"): {
                e: int(d) for e, d in enumerate(rng.choice([-1, 0, 0, 0, 0, 1], EPISODES))
            }
            for t in range(TASKS)
        }
        for c in range(CONDITIONS)
    }


def ours(given: dict[str, Differences]) -> None:
    """The intervals as a report makes them."""
    for replicates in macro_replicates(given).values():
        percentile_interval(replicates)


def scipys(given: dict[str, Differences]) -> None:
    """The same intervals from SciPy."""
    for tasks in given.values():
        stats.bootstrap(
            [np.array(list(found.values()), dtype=float) for found in tasks.values()],
            _macro,
            n_resamples=RESAMPLES,
            method="percentile",
            vectorized=True,
            rng=1,
        )


def _macro(*tasks: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    means: NDArray[np.float64] = np.mean([task.mean(axis=axis) for task in tasks], axis=0)
    return means


def video(folder: Path) -> None:
    """One pair, with pictures that move: a gradient that is shifted every frame."""
    ramp = np.add.outer(np.arange(SIZE), np.arange(SIZE))
    frames = np.stack(
        [
            np.repeat(((ramp + 3 * n) % 256).astype(np.uint8)[..., None], 3, axis=2)
            for n in range(FRAMES - HELD)
        ]
    )
    began = time.process_time()
    side_by_side(
        VideoArm(frames, "clean", "success at step 800"),
        VideoArm(frames, "camera L2", "failed after 840 steps"),
        folder / "pair.mp4",
        FPS,
    )
    print(f"  one of {FRAMES} frames: {time.process_time() - began:.2f} s")


def cpu(work: Callable[[], object], rounds: int) -> float:
    """Median CPU seconds."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def main() -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    given = conditions()
    print(f"bootstrap: ours {1000 * cpu(lambda: ours(given), rounds):.0f} ms of CPU")
    print(f"bootstrap: scipy {1000 * cpu(lambda: scipys(given), rounds):.0f} ms of CPU")
    print("videos, CPU:")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(min(rounds, 3)):
            video(Path(folder))


if __name__ == "__main__":
    main()
