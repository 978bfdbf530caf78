"""``vla-shift calibrate robot-pose``: how far apart a task's released initial hands are.

LIBERO-CTRL takes its scales of the robot pose from "the spacing among a task's 50 released initial
end-effector states" (Table 1) and does not define spacing. Several definitions are computed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

    Spacing = tuple[float, float]
    """Metres, degrees."""

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
"""The four of the paper."""

PUBLISHED = (0.0257, 3.94)
"""Metres and degrees: Table 1."""

DEFINITIONS = {
    "mean nearest": "mean distance to the nearest other state",
    "median nearest": "median distance to the nearest other state",
    "rms to mean": "root mean square distance to the task's mean pose",
    "mean pairwise": "mean distance over all pairs of states",
}
"""Short name -> what it is. Distances between orientations are angles of rotation."""

DESCRIPTION = (
    "Compute the spacing among the released initial end-effector poses of every LIBERO task, by"
    " forward kinematics, in several definitions, beside LIBERO-CTRL's published 2.57 cm and 3.94"
    " degrees. Compiles 40 tasks: about two minutes."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift calibrate robot-pose``."""
    parser.add_argument(
        "--tasks",
        type=int,
        default=None,
        metavar="N",
        help="only the first N tasks of every suite (default: all ten)",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: LIBERO is not here, or N is below 1.
    """
    from pytest_vla_shift.protocol import catalog
    from pytest_vla_shift.protocol.errors import UsageError

    if given.tasks is not None and given.tasks < 1:
        raise UsageError(f"--tasks {given.tasks}: at least one task a suite")
    measured: dict[str, list[Mapping[str, Spacing]]] = {}
    for task_suite in SUITES:
        found = catalog.find(task_suite)
        assert found is not None
        measured[task_suite] = [
            spacings(*_hands(task_suite, task)) for task in found.tasks[: given.tasks]
        ]
        _print(out, task_suite, measured[task_suite])
    everything = [spacing for tasks in measured.values() for spacing in tasks]
    _print(out, f"all {len(everything)} tasks", everything)
    metres, degrees = PUBLISHED
    out.write(f"\n{'published':<18} {100 * metres:8.2f} cm {degrees:8.2f} degrees\n")
    best = nearest(everything)
    out.write(f"The nearest over all tasks is {best!r}: {DEFINITIONS[best]}.\n")
    return 0


def spacings(positions: Matrix, quats: Matrix) -> dict[str, Spacing]:
    """Every definition of :data:`DEFINITIONS` on one task's states, in metres and degrees.

    Args:
        positions: (N, 3) metres, N >= 2.
        quats: (N, 4) xyzw, unit.
    """
    import numpy as np
    from scipy.spatial.transform import Rotation

    turns = Rotation.from_quat(quats)
    # One row a state: distances to all states, in metres and in degrees.
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    angles = np.degrees(2.0 * np.arccos(np.clip(np.abs(quats @ quats.T), 0.0, 1.0)))
    centred = np.linalg.norm(positions - positions.mean(axis=0), axis=-1)
    turned = np.degrees((turns * turns.mean().inv()).magnitude())
    others = ~np.eye(len(positions), dtype=bool)

    def of_pairs(distance: Matrix) -> tuple[float, float, float]:
        nearest_other = np.where(others, distance, np.inf).min(axis=1)
        return (
            float(nearest_other.mean()),
            float(np.median(nearest_other)),
            float(distance[others].mean()),
        )

    mean_metres, median_metres, pair_metres = of_pairs(apart)
    mean_degrees, median_degrees, pair_degrees = of_pairs(angles)
    return {
        "mean nearest": (mean_metres, mean_degrees),
        "median nearest": (median_metres, median_degrees),
        "rms to mean": (
            float(np.sqrt((centred**2).mean())),
            float(np.sqrt((turned**2).mean())),
        ),
        "mean pairwise": (pair_metres, pair_degrees),
    }


def averages(tasks: list[Mapping[str, Spacing]]) -> dict[str, Spacing]:
    """Each definition's mean over tasks."""
    return {
        name: (
            sum(task[name][0] for task in tasks) / len(tasks),
            sum(task[name][1] for task in tasks) / len(tasks),
        )
        for name in DEFINITIONS
    }


def nearest(tasks: list[Mapping[str, Spacing]]) -> str:
    """The definition whose larger relative distance from the published pair is smallest."""
    means = averages(tasks)

    def off(name: str) -> float:
        return max(
            abs(value / published - 1.0)
            for value, published in zip(means[name], PUBLISHED, strict=True)
        )

    return min(means, key=off)


def _print(out: TextIO, title: str, tasks: list[Mapping[str, Spacing]]) -> None:
    out.write(f"\n{title}\n")
    for name, (metres, degrees) in averages(tasks).items():
        out.write(
            f"  {name:<16} {100 * metres:8.2f} cm {degrees:8.2f} degrees  {DEFINITIONS[name]}\n"
        )
    out.flush()


def _hands(task_suite: str, task: str) -> tuple[Matrix, Matrix]:
    """(50, 3) metres and (50, 4) xyzw: the grip site in every released initial state."""
    from pytest_vla_shift.simulators import libero

    libero.factory.describe()
    from pytest_vla_shift.simulators import libero_arm
    from pytest_vla_shift.simulators.libero_world import World

    world = World(task_suite, task, env_seed=0)
    try:
        return libero_arm.released_hands(world)
    finally:
        world.close()
