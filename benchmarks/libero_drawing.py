"""What drawing a picture of LIBERO costs, against robosuite's own call, and that no pixel differs.

    MUJOCO_GL=egl python -m benchmarks.libero_drawing [suite ...] [--tasks 10] [--states 3]

Of each task, the first states of a random walk of the arm from a released initial state; both
cameras, 256 pixels. CPU time of all threads, which is where software rendering works; the two
ways in turn, so that other load meets both. Exit code 1 if a pixel differed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol import catalog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_world import World

SUITES = ("libero_object", "libero_spatial", "libero_goal", "libero_10")
CAMERAS = ("agentview", "robot0_eye_in_hand")
SIZE, STEPS = 256, 20


def robosuites(world: World, camera: str) -> NDArray[np.uint8]:
    """What robosuite draws, upright."""
    sim = world.env.sim
    sim._render_context_offscreen.gl_ctx.make_current()
    picture: NDArray[np.uint8] = sim.render(width=SIZE, height=SIZE, camera_name=camera)
    return picture[::-1]


def ours(world: World, camera: str) -> NDArray[np.uint8]:
    """What rollouts see."""
    return world.render(camera, SIZE, SIZE)


def timed(
    draw: Callable[[World, str], NDArray[np.uint8]], world: World, camera: str
) -> tuple[float, NDArray[np.uint8]]:
    """CPU milliseconds, and the picture."""
    start = time.process_time()
    picture = draw(world, camera)
    return 1e3 * (time.process_time() - start), picture


def measure(task_suite: str, task: str, states: int) -> tuple[NDArray[np.float64], int]:
    """(states, cameras, 2) CPU milliseconds, ours and robosuite's; pictures that differ."""
    from pytest_vla_shift.simulators.libero_world import World

    world = World(task_suite, task, 7)
    world.restore(0)
    rng = np.random.default_rng(5)
    cost, different = np.zeros((states, len(CAMERAS), 2)), 0
    for camera in CAMERAS:  # the first picture of a context compiles its shaders
        ours(world, camera)
        robosuites(world, camera)
    for state in range(states):
        for _ in range(STEPS):
            world.step(rng.uniform(-1.2, 1.2, 7))
        for number, camera in enumerate(CAMERAS):
            here, picture = timed(ours, world, camera)
            there, wanted = timed(robosuites, world, camera)
            cost[state, number] = here, there
            different += not np.array_equal(picture, wanted)
    world.close()
    return cost, different


def main() -> int:
    """Print a line a suite, and one for each task with pictures that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", default=SUITES)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--states", type=int, default=3)
    chosen = parser.parse_args()
    wrong = 0
    for task_suite in chosen.suites:
        costs = []
        suite = catalog.find(task_suite)
        if suite is None:
            parser.error(f"no suite {task_suite!r}")
        for task in suite.tasks[: chosen.tasks]:
            cost, different = measure(task_suite, task, chosen.states)
            costs.append(cost)
            wrong += different
            if different:
                print(f"{task_suite} {task}: {different} pictures differ", flush=True)
        middle = np.median(np.concatenate(costs), axis=0)
        row = "; ".join(
            f"{camera} {here:.0f} ms, robosuite {there:.0f}"
            for camera, (here, there) in zip(CAMERAS, middle, strict=True)
        )
        share = middle[:, 0].sum() / middle[:, 1].sum()
        print(f"{task_suite} ({len(costs)} tasks): {row}; together {share:.2f}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
