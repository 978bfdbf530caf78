"""Whole rollouts of LIBERO against vla-eval's and a bare loop, in control steps a CPU second.

    python -m benchmarks.libero_rollout [--rounds 3]

One episode, one sequence of actions (:mod:`benchmarks.libero_episode`), a policy that answers at
once, chunks of eight actions, two cameras of 256 pixels. Ours is all of ``run_rollout`` against a
worker process: prepare, fingerprint, settle, observe, step, predicates and stages; the CPU of both
processes counts. The bare loop restores the same state in this process, settles, draws at chunk
boundaries and steps: by robosuite's ``env.step`` (the floor), and by our control step. vla-eval's
is its class driven by its runner in the interpreter of :data:`PEER`, from its first observation on.

Every way must end in the same state, to the last bit, or the comparison is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.libero_episode import (
    CAMERAS,
    CHUNK,
    ENV_SEED,
    IDLE,
    INDEX,
    SETTLE,
    SIZE,
    STEPS,
    SUITE,
    TASK,
    actions,
    digest,
)
from benchmarks.rows import Row
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import CLEAN
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.request import request, settings_of
from pytest_vla_shift.rollouts.rollout import run_rollout
from pytest_vla_shift.simulators.launch import open_simulator
from pytest_vla_shift.simulators.libero_observation import privileged, proprio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_world import World
    from pytest_vla_shift.simulators.protocol import Simulator

PEER = Path(os.environ.get("VLA_EVAL_PYTHON", Path(sys.prefix, "bench", "bin", "python")))
"""The interpreter with vla-eval: ``make bench`` makes it. It sees the same LIBERO and MuJoCo."""

FASTER, OVERHEAD = 5.0, 1.10


@dataclass(frozen=True)
class Cost:
    """One way of running the episode.

    Attributes:
        cpu_s: seconds of CPU of all processes.
        end: digest of where everything was at the end.
    """

    cpu_s: float
    end: str


class Instant:
    """A policy that has made up its mind and takes no time."""

    spec = PolicySpec("instant", "1", cameras=CAMERAS, chunk=CHUNK, replan=CHUNK, stateless=True)

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        self._step = 0
        self._actions = actions()

    def act(self, observation: Observation) -> NDArray[np.floating]:
        assert set(observation.images) == set(CAMERAS)
        start, self._step = self._step, self._step + CHUNK
        return self._actions[start : start + CHUNK]

    def close(self) -> None:
        pass


def whole_rollout(simulator: Simulator) -> Cost:
    """Ours, by a worker process that is warm."""
    suite = load_suite("quickstart")
    wanted = request(suite, Episode(SUITE, TASK, INDEX), CLEAN, simulator.info, Instant.spec, {})
    pid = getattr(simulator, "pid", None)
    assert isinstance(pid, int)
    before = time.process_time() + cpu_of(pid)
    measured = run_rollout(simulator, Instant(), replace(wanted, horizon=STEPS), None)
    cost = time.process_time() + cpu_of(pid) - before
    assert measured.steps == STEPS
    seen = simulator.observe(privileged=True)
    assert seen.privileged is not None
    return Cost(cost, _end(seen.proprio, seen.privileged.positions))


def bare_loop(world: World, step: Callable[[NDArray[np.float64]], object]) -> Cost:
    """Nothing but restoring, settling, drawing at chunk boundaries, and stepping."""
    before = time.process_time()
    world.restore(INDEX)
    for _ in range(SETTLE):
        step(np.array(IDLE))
    for chunk in actions().reshape(-1, CHUNK, 7):
        for camera in CAMERAS:
            world.render(camera, SIZE, SIZE)
        for action in chunk:
            step(action)
    cost = time.process_time() - before
    return Cost(cost, _end(proprio(world.env), privileged(world.env).positions))


def vla_evals() -> tuple[Cost, str]:
    """vla-eval's class and runner; and MuJoCo's state at the end.

    Raises:
        RuntimeError: its interpreter is not there, or it failed.
    """
    if not PEER.is_file():
        raise RuntimeError(f"no {PEER}: make bench makes it, or VLA_EVAL_PYTHON names another")
    root = Path(__file__).parents[1]
    ended = subprocess.run(
        [str(PEER), "-m", "benchmarks.vla_eval_episode"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "MUJOCO_GL": os.environ["MUJOCO_GL"]},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"vla-eval: {ended.stderr.strip()[-2000:]}")
    told = json.loads(ended.stderr.strip().splitlines()[-1])
    assert told["steps"] == STEPS
    return Cost(told["cpu_s"], ""), told["state"]


def cpu_of(pid: int) -> float:
    """CPU seconds of all threads of another process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _end(robot: object, positions: object) -> str:
    assert isinstance(robot, dict)
    assert isinstance(positions, dict)
    numbers = [robot[name] for name in sorted(robot)]
    numbers += [positions[name] for name in sorted(positions)]
    return digest(np.concatenate([np.ravel(value) for value in numbers]))


def _same(what: str, one: str, other: str) -> None:
    if one != other:
        raise RuntimeError(f"{what} did not end in the same state: nothing to compare")


def measure(rounds: int) -> Iterator[tuple[Cost, Cost, Cost, str]]:
    """(ours, the floor, the bare loop with our step, MuJoCo's state at its end) of each round."""
    from pytest_vla_shift.simulators.libero_world import World

    settings = settings_of(load_suite("quickstart"))
    assert (settings.cameras, settings.height, settings.width) == (CAMERAS, SIZE, SIZE)
    assert settings.env_seed == ENV_SEED
    simulator = open_simulator(settings, envs=1, rollout_timeout_s=600)
    world = World(SUITE, TASK, ENV_SEED)
    try:
        simulator.prepare(Episode(SUITE, TASK, INDEX))
        simulator.observe(CAMERAS)  # the first picture uploads textures
        world.restore(INDEX)
        world.render(CAMERAS[0], SIZE, SIZE)
        for _ in range(rounds):
            ours = whole_rollout(simulator)
            floor = bare_loop(world, world.env.step)
            fast = bare_loop(world, world.step)
            _same("ours and the floor", ours.end, floor.end)
            _same("the two bare loops", fast.end, floor.end)
            yield ours, floor, fast, digest(world.env.sim.get_state().flatten())
    finally:
        simulator.close()
        world.close()


def rows() -> Iterator[Row]:
    found = list(measure(3))
    over_floor = statistics.median(ours.cpu_s / floor.cpu_s for ours, floor, _, _ in found)
    over_fast = statistics.median(ours.cpu_s / fast.cpu_s for ours, _, fast, _ in found)
    yield Row("CPU of a rollout over the floor: robosuite's step", over_floor, "x", OVERHEAD)
    yield Row("CPU of a rollout over a bare loop with our step", over_fast, "x", OVERHEAD)
    theirs, state = vla_evals()
    _same("ours and vla-eval", state, found[0][3])
    ratio = theirs.cpu_s / statistics.median(ours.cpu_s for ours, _, _, _ in found)
    yield Row("control steps a CPU second over vla-eval's", ratio, "x", FASTER, at_least=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("MUJOCO_GL", "egl")
    found = []
    for ours, floor, fast, state in measure(given.rounds):
        found.append(state)
        for name, cost in (("ours", ours), ("the floor", floor), ("bare, our step", fast)):
            print(f"{name:<16}{cost.cpu_s:8.2f} s of CPU {STEPS / cost.cpu_s:8.2f} steps a CPU s")
    theirs, there = vla_evals()
    _same("ours and vla-eval", there, found[0])
    print(f"{'vla-eval':<16}{theirs.cpu_s:8.2f} s of CPU {STEPS / theirs.cpu_s:8.2f} steps a CPU s")


if __name__ == "__main__":
    main()
