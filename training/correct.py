"""Roll ``tiny`` itself out on training states, and ask the expert at every decision.

    python -m training.correct --weights FILE.onnx --suite libero_goal --out DIR --jobs 2

Dataset aggregation (DAgger: Ross, Gordon and Bagnell, 2011). The learner drives; what the expert
would do from where the learner got is found by trying it: the process forks, the child runs the
expert for one chunk, sends its actions back and is gone, and the parent's simulation has not
moved. Pictures cost nothing extra, since the learner looked anyway.

The expert's plan begins anew every time, which must not contradict a demonstration. So from over
its object it goes on down, with the object in the hand it carries it on, after it closed on nothing
it begins again; and where it has hold of a drawer or a knob it is not asked.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import tiny_inputs
from pytest_vla_shift.policies.scripted_grasps import GRASPS, Grasp, category
from pytest_vla_shift.policies.scripted_plans import holding, place, plan, release_point
from pytest_vla_shift.policies.scripted_room import RIM_OPENING
from pytest_vla_shift.policies.scripted_skills import CLOSE, OPEN, grip, move, shift
from pytest_vla_shift.policies.scripted_world import World, rotation_vector
from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from training import each_task, episodes
from training.demonstrate import (
    CHUNK,
    ENV_SEEDS,
    PICTURE,
    Samples,
    holds,
    settled,
    truth,
    write,
)
from training.expert import Rims, least_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.scripted_skills import Script
    from pytest_vla_shift.protocol.observation import Observation, Vector
    from pytest_vla_shift.simulators.protocol import Prepared, Simulator

    Hold = Callable[[], tuple[Vector, Vector]]

HOVER = 0.10
"""Metres over a grasp: the expert comes to 0.09 first."""

ENGAGED = 0.16
"""Metres from a cabinet's or stove's part within which the hand may have hold of it."""

SHUT = 0.03
"""Metres between the fingers: less, with nothing held, is a grasp that missed."""


def begin(world: World, prepared: Prepared, grasped: bool) -> Script | None:
    """The expert's plan from here; None where it is not asked."""
    predicate = prepared.goal.predicates[0]
    name, *arguments = predicate
    if name not in ("on", "in"):
        gap = float(np.linalg.norm(world.eef - world.position(arguments[0])))
        return None if gap < ENGAGED else plan(world, predicate, prepared.instruction)
    thing, goal = arguments
    if not prepared.instruction.startswith("push"):
        if grasped:
            return carry(world, thing, goal)
        if world.opening > SHUT:
            hold = descending(world, thing)
            if hold is not None:
                return go_on(world, thing, goal, hold)
    elif grasped or descending(world, thing) is not None:
        return None
    return plan(world, predicate, prepared.instruction)


def carry(world: World, thing: str, goal: str) -> Script:
    """What follows a grasp."""
    spot, height = release_point(world, goal, grasp_of(thing))
    cruise = max(spot[2] + height, float(world.position(thing)[2]))
    return place(world, thing, spot, height, cruise)


def go_on(world: World, thing: str, goal: str, hold: Hold) -> Script:
    """The rest of a descent, and what follows it."""
    width = RIM_OPENING if grasp_of(thing).rim else None
    yield from move(world, hold, OPEN, tolerance=0.006, patience=30, opening=width)
    yield from grip(world, CLOSE)
    yield from shift(world, -world.hand[:, 2] * 0.08, CLOSE)
    return (yield from carry(world, thing, goal))


def descending(world: World, thing: str) -> Hold | None:
    """The pose to go down to, where the hand is over it already; else None."""
    hold = holding(world, thing, grasp_of(thing))
    position, hand = hold()
    away = world.eef - position
    above = -float(away @ hand[:, 2])
    beside = float(np.linalg.norm(away + above * hand[:, 2]))
    turn = float(np.linalg.norm(rotation_vector(hand, world.hand)))
    over_it = -0.02 < above < HOVER and beside < 0.012 + 0.15 * max(above, 0.0) and turn < 0.2
    return hold if over_it else None


def grasp_of(thing: str) -> Grasp:
    """How it is held."""
    return GRASPS.get(category(thing), Grasp((0, 0, 0)))


def tried(
    simulator: Simulator, prepared: Prepared, world: World, grasped: bool
) -> NDArray[np.float64] | None:
    """What the expert does from here, (T, 7) with T <= CHUNK; this process's simulation stays."""
    script = begin(world, prepared, grasped)
    if script is None:
        return None
    back, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(back)
            with os.fdopen(out, "wb") as pipe:
                pipe.write(b"ok" + follow(simulator, world, script).tobytes())
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(back, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data.startswith(b"ok"):
        raise SystemExit("the expert's process ended without an answer")
    return np.frombuffer(data[2:], dtype=np.float64).reshape(-1, 7)


def follow(simulator: Simulator, world: World, script: Script) -> NDArray[np.float64]:
    """Run the script for a chunk, or until it ends or the task is solved."""
    taken: list[NDArray[np.float64]] = []
    for _ in range(CHUNK):
        try:
            action = np.clip(next(script), -1.0, 1.0)
        except StopIteration:
            break
        taken.append(action)
        if simulator.step(action[np.newaxis]).success:
            break
        world.update(least_turn(simulator.observe(privileged=True)))
    return np.array(taken).reshape(-1, 7)


def roll(
    simulator: Simulator, policy: Policy, episode: Episode, horizon: int, seed: int, rims: Rims
) -> tuple[Samples, bool]:
    """One rollout of the learner, and whether it solved its task."""
    prepared = settled(simulator, episode)
    home: Vector | None = None
    policy.reset(EpisodeInfo(episode, prepared.instruction, horizon), seed=seed)
    samples, step, solved = Samples(), 0, False
    while step < horizon and not solved:
        observation = simulator.observe(tiny_inputs.CAMERAS, privileged=True)
        grasped = any(
            true for name, true in simulator.predicates().items() if name.startswith("grasped")
        )
        world = World(rims)
        world.home = home
        world.update(least_turn(observation))
        home = world.home
        better = tried(simulator, prepared, world, grasped)
        if better is not None and len(better):
            keep(samples, prepared, observation, better, episode.index, step)
        seen = replace(observation, privileged=None)
        actions = policy.act(seen)[: policy.spec.replan]
        result = simulator.step(np.asarray(actions, dtype=np.float64))
        step, solved = step + result.steps, result.success
    return samples, solved


def keep(
    samples: Samples,
    prepared: Prepared,
    observation: Observation,
    actions: NDArray[np.float64],
    index: int,
    step: int,
) -> None:
    """One decision of the learner, with what the expert would have done."""
    chunk = np.zeros((CHUNK, 7), dtype=np.float32)
    chunk[: len(actions)] = actions
    samples.pictures.append(tiny_inputs.pictures(observation))
    samples.proprio.append(tiny_inputs.proprio(observation))
    samples.truth.append(truth(prepared, observation))
    samples.actions.append(chunk)
    samples.valid.append(np.arange(CHUNK) < len(actions))
    samples.episode.append(index)
    samples.step.append(step)


def one_task(
    task_suite: str, task: str, weights: Path, temperature: float, seed: int, share: int, out: Path
) -> str:
    """Every ``share``-th training state of a task; writes a file, says how the learner did."""
    path = out / f"{task_suite}-{task}-c{seed}.npz"
    if path.exists():
        return f"{path.name} is there"
    suite = catalog.find(task_suite)
    assert suite is not None
    start, solved, every = time.process_time(), 0, Samples()
    policy = Tiny(temperature, str(weights))
    states = episodes.training(task_suite, task)[seed % share :: share]
    rims: Rims | None = None
    for number, env_seed in enumerate(ENV_SEEDS):
        simulator = factory(
            SimulatorSettings("libero", env_seed, tiny_inputs.CAMERAS, PICTURE, PICTURE)
        )
        if rims is None:
            rims = holds(simulator, task_suite, task)
        for index in states[number :: len(ENV_SEEDS)]:
            episode = Episode(task_suite, task, index)
            got, done = roll(simulator, policy, episode, suite.horizon, seed, rims)
            solved += done
            for name, values in vars(got).items():
                getattr(every, name).extend(values)
        simulator.close()
    write(path, every)
    seconds = time.process_time() - start
    return (
        f"{task_suite} {task}: the learner solved {solved}/{len(states)},"
        f" {len(every.step)} pictures, {seconds:.0f} s of CPU"
    )


def _task(work: tuple[str, str, Path, float, int, int, Path]) -> str:
    return one_task(*work)


def main() -> None:
    """Command line."""
    parser = each_task.options(__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="an ONNX file")
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=int, default=1, help="every so many-th state")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    how = (args.weights, args.temperature, args.seed, args.share, args.out)
    work = [(*each, *how) for each in each_task.chosen(args)]
    for line in each_task.spread(_task, work, args.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
