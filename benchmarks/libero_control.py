"""A control step of LIBERO without drawing against robosuite's own ``env.step``.

    python -m benchmarks.libero_control [--tasks 3] [--steps 300]

Two worlds of one task take the same random actions in turn, a block of steps each, one by
robosuite's step and one by ours, observables off in both. After every step all that MuJoCo
integrates must be the same to the last bit, and after every block all else that a step leaves: what
MuJoCo derives, contacts, the controller, the robot's buffers, counters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rows import Row
from pytest_vla_shift.protocol import catalog
from tests.simulators.libero_step_support import differing, everything, robosuites_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_world import World

TARGET = 0.75
BLOCK = 25
SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
SHORT = (
    ("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket"),
    ("libero_goal", "turn_on_the_stove"),
    ("libero_10", "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it"),
)


@dataclass(frozen=True)
class Task:
    """What one task gave.

    Attributes:
        ours_ms, theirs_ms: CPU milliseconds a control step.
        differing: steps after which anything was not the same.
    """

    ours_ms: float
    theirs_ms: float
    differing: int


def measure(task_suite: str, task: str, steps: int) -> Task:
    """Step both worlds of a task from its first initial state."""
    from pytest_vla_shift.simulators.libero_world import World

    ours, theirs = World(task_suite, task, 7), World(task_suite, task, 7)
    ours.restore(0)
    theirs.restore(0)
    actions = np.random.default_rng(3).uniform(-1.2, 1.2, (steps, 7))
    cost, different = [0.0, 0.0], 0
    for block in np.split(actions, range(BLOCK, steps, BLOCK)):
        states = []
        for number, (world, step) in enumerate(
            ((ours, ours.step), (theirs, lambda action: robosuites_step(theirs, action)))
        ):
            spent, left = _block(world, step, block)
            cost[number] += spent
            states.append(left)
        different += sum(here != there for here, there in zip(*states, strict=True))
        different += bool(differing(everything(ours), everything(theirs)))
    ours.close()
    theirs.close()
    return Task(1e3 * cost[0] / steps, 1e3 * cost[1] / steps, different)


def _block(
    world: World, step: Callable[[NDArray[np.float64]], object], actions: NDArray[np.float64]
) -> tuple[float, list[tuple[bytes, object]]]:
    """CPU seconds of a block, and what each of its steps left: state and outcome."""
    import mujoco

    whole = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(world.model, whole))
    spent, left = 0.0, []
    for action in actions:
        before = time.process_time()
        outcome = step(action)
        spent += time.process_time() - before
        mujoco.mj_getState(world.model, world.data, state, whole)
        left.append((state.tobytes(), outcome))
    return spent, left


def every_task() -> tuple[tuple[str, str], ...]:
    """All tasks of the four suites, (suite, task)."""
    found = []
    for name in SUITES:
        suite = catalog.find(name)
        assert suite is not None
        found += [(name, task) for task in suite.tasks]
    return tuple(found)


def _rows(tasks: tuple[tuple[str, str], ...], steps: int) -> Iterator[Row]:
    found = [measure(*task, steps) for task in tasks]
    ratio = sum(task.ours_ms for task in found) / sum(task.theirs_ms for task in found)
    what = f"{len(tasks)} tasks x {steps:,} steps"
    yield Row(f"CPU of a control step over robosuite's, {what}", ratio, "x", TARGET)
    different = sum(task.differing for task in found)
    yield Row(f"control steps that leave anything else, {what}", different, "steps", 0)


def rows() -> Iterator[Row]:
    yield from _rows(SHORT, 300)


def long_rows() -> Iterator[Row]:
    yield from _rows(every_task(), 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=3, help="of each suite")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    print("ours ms, robosuite's ms, ratio, steps that differ")
    total = Task(0.0, 0.0, 0)
    for name in SUITES:
        for task in [task for suite, task in every_task() if suite == name][: given.tasks]:
            found = measure(name, task, given.steps)
            ratio = found.ours_ms / found.theirs_ms
            print(
                f"{found.ours_ms:7.2f} {found.theirs_ms:7.2f} {ratio:6.2f} {found.differing:4d}"
                f"  {name}/{task}",
                flush=True,
            )
            total = Task(
                total.ours_ms + found.ours_ms,
                total.theirs_ms + found.theirs_ms,
                total.differing + found.differing,
            )
    print(f"all: ratio {total.ours_ms / total.theirs_ms:.3f}, {total.differing} steps that differ")


if __name__ == "__main__":
    main()
