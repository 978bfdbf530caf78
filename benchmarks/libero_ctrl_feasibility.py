"""Whether LIBERO-CTRL's scene presets can be posed: every configuration, on the real simulator.

    MUJOCO_GL=egl python benchmarks/libero_ctrl_feasibility.py [--tasks N] [--configurations N]

Without options two tasks of each suite with three configurations each, about a minute. All 400
(``--tasks 10 --configurations 10``) take about a quarter of an hour. Prints what is wrong, the
worst figure of each level, and how many poses are as they should be; exit code 1 if one is not.

Robot pose, compared with the clean arm after the suite's settle steps: the pose is reached
(residual below 1e-5 m), no object stands elsewhere by more than 1 mm, every predicate is the same,
nothing moves faster than the suite allows, and the hand is as near to its shifted pose as the clean
hand is to its own, give or take 4 mm. Camera: it stands above the work surface, and nothing is
nearer than 10 cm on any of 49 rays of its view. What the goal names and the clean picture shows
may leave the picture: that is counted, not judged.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.protocol.conditions import Axis, Level
from pytest_vla_shift.protocol.errors import InfrastructureError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite, load_suite
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
from pytest_vla_shift.simulators.protocol import SimulatorSettings

RESIDUAL, MOVED, DRIFTED, NEAR = 1e-5, 1e-3, 4e-3, 0.10
FOVY = math.radians(45.0)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Settled:
    """What settling came to."""

    hand: Vector
    objects: dict[str, Vector]
    predicates: dict[str, bool]
    speed: float


def settle(sim: LiberoSimulator, suite: Suite) -> Settled:
    action = np.tile(sim.info.settle_action, (suite.settle_steps, 1))
    speed = sim.step(action, stop_on_success=False).object_speed
    state = sim.observe(privileged=True)
    assert state.privileged is not None
    assert sim._world is not None
    objects = {n: state.privileged.positions[n] for n in sim._world.env.objects_dict}
    return Settled(state.proprio["eef_pos"], objects, dict(sim.predicates()), speed)


def bound(axis: Axis, level: Level, configuration: int) -> Intervention:
    draw = axis.presets[configuration]
    return Intervention(axis.name, axis.shift, level.name, level.parameters, draw)


def pose_faults(
    sim: LiberoSimulator, suite: Suite, episode: Episode, item: Intervention, clean: Settled
) -> tuple[list[str], dict[str, float]]:
    """What is wrong with one robot pose, and its figures in millimetres."""
    sim.prepare(episode)
    start = sim.observe().proprio["eef_pos"]
    try:
        sim.apply([item])
    except InfrastructureError as error:
        return [f"{error.kind}: {error}"], {}
    radius, sigma = item.parameters["radius"], item.parameters["sigma_position_m"]
    wanted = start + radius * sigma * np.array([item.draw[name] for name in "xyz"])
    residual = float(np.linalg.norm(sim.observe().proprio["eef_pos"] - wanted))
    here = settle(sim, suite)
    moved = max(
        float(np.linalg.norm(place - clean.objects[n])) for n, place in here.objects.items()
    )
    drift = float(np.linalg.norm(here.hand - wanted)) - float(np.linalg.norm(clean.hand - start))
    faults = []
    if residual > RESIDUAL:
        faults.append(f"the hand is {1000 * residual:.4f} mm from the pose")
    if moved > MOVED:
        faults.append(f"an object stands {1000 * moved:.1f} mm elsewhere")
    if drift > DRIFTED:
        faults.append(f"the hand drifts {1000 * drift:.1f} mm more than the clean one")
    if here.predicates != clean.predicates:
        faults.append("a predicate differs")
    if here.speed > suite.settle_speed:
        faults.append(f"something moves at {here.speed:.3f} m/s")
    figures = {"residual": residual, "object moved": moved, "more drift": max(drift, 0.0)}
    return faults, {name: 1000 * value for name, value in figures.items()}


def camera_faults(
    sim: LiberoSimulator, episode: Episode, item: Intervention | None
) -> tuple[list[str], dict[str, float]]:
    """What is wrong with one camera pose, and its figures: degrees, metres, a count."""
    sim.prepare(episode)
    try:
        sim.apply([item] if item else [])
    except InfrastructureError as error:
        return [f"{error.kind}: {error}"], {}
    assert sim._world is not None
    env, model, data = sim._world.env, sim._world.model, sim._world.data
    camera = env.sim.model.camera_name2id("agentview")
    place, turn = data.cam_xpos[camera], data.cam_xmat[camera].reshape(3, 3)
    half = math.tan(0.5 * FOVY)
    nearest = math.inf
    geom = np.zeros(1, dtype=np.int32)
    for x in np.linspace(-half, half, 7):
        for y in np.linspace(-half, half, 7):
            ray = turn @ np.array([x, y, -1.0])
            length = float(np.linalg.norm(ray))
            hit = mujoco.mj_ray(model, data, place, ray / length, None, 1, -1, geom)
            nearest = min(nearest, hit if hit >= 0.0 else math.inf)
    named = {word for part in sim._world.goal.predicates for word in part[1:]}
    out = 0
    for name, body in env.obj_body_id.items():
        seen = turn.T @ (data.xpos[body] - place)
        inside = seen[2] < 0.0 and np.abs(seen[:2]).max() < -seen[2] * half
        out += bool(any(word.startswith(name) for word in named) and not inside)
    height = float(place[2]) - env.workspace_offset[2]
    elevation = math.degrees(math.asin(turn[2, 2]))
    faults = []
    if height <= 0.0:
        faults.append(f"the camera stands {height:.2f} m above the work surface")
    if nearest < NEAR:
        faults.append(f"something is {nearest:.2f} m before the camera")
    return faults, {"low": -elevation, "near": -nearest, "out of view": float(out)}


def episodes(suite: Suite, tasks: int, configurations: int) -> Iterator[tuple[Episode, int]]:
    taken: dict[str, int] = {}
    for task_suite, task in suite.tasks:
        taken[task_suite] = taken.get(task_suite, 0) + 1
        if taken[task_suite] <= tasks:
            for j, index in enumerate(suite.episodes[task_suite, task][:configurations]):
                yield Episode(task_suite, task, index), j


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2, help="of each suite")
    parser.add_argument("--configurations", type=int, default=3, help="of each task")
    given = parser.parse_args()
    suite = load_suite("libero_ctrl")
    axes = {axis.name: axis for axis in suite.axes}
    sim = factory(SimulatorSettings("libero", suite.env_seed, ("agentview",), 64, 64))
    worst: dict[str, float] = {}
    wrong = asked = lost = 0
    for episode, j in episodes(suite, given.tasks, given.configurations):
        sim.prepare(episode)
        clean = settle(sim, suite)
        out_when_clean = camera_faults(sim, episode, None)[1]["out of view"]
        for name in ("robot_pose", "camera"):
            for level in axes[name].levels:
                item = bound(axes[name], level, j)
                if name == "robot_pose":
                    faults, figures = pose_faults(sim, suite, episode, item, clean)
                else:
                    faults, figures = camera_faults(sim, episode, item)
                    lost += figures.get("out of view", 0.0) > out_when_clean
                asked += 1
                wrong += bool(faults)
                for fault in faults:
                    where = f"{episode.task_suite}/{episode.task} e{episode.index:02d} preset {j}"
                    print(f"{where} {name}-{level.name}: {fault}", flush=True)
                for figure, value in figures.items():
                    key = f"{name}-{level.name} {figure}"
                    worst[key] = max(worst.get(key, -math.inf), value)
    sim.close()
    units = {"low": "degrees, lowest elevation", "near": "m, nearest thing in view"}
    for key, value in sorted(worst.items()):
        figure = key.split(" ", 1)[1]
        unit = units.get(figure, "objects at most" if figure == "out of view" else "mm at most")
        print(f"{key:<28} {-value if figure in units else value:10.4f} {unit}")
    print(f"camera poses that lose something that the goal names: {lost}")
    print(f"{asked - wrong} of {asked} poses as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
