"""Roll the scripted expert out on training states, with bursts of noise, and keep what it saw.

    python -m training.demonstrate --suite libero_object --out DIR --jobs 2

Every task gives one ``.npz``. The simulator is the package's own, with the suites' settling and
picture size. Noise is added in bursts of a few steps, in which the hand is pushed off the
expert's way and nothing is kept; after one, 16 undisturbed steps follow, with a picture every
eight, so that the eight actions that follow it are the expert's own way back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import tiny_inputs
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from training import each_task, episodes
from training.expert import Rims, Teacher, usual_rims

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Observation
    from pytest_vla_shift.simulators.protocol import Prepared, Simulator

CHUNK = 8
SETTLE_STEPS = 10
PICTURE = 256
ENV_SEEDS = (101, 102, 103, 104)
"""Fixtures stand where the seed puts them; evaluations use 0 and 7."""

QUIET = 16
"""Undisturbed steps after a burst."""

EVERY = 8
"""Steps from one kept picture to the next: more often, and a chunk runs into the next burst."""

BURST = 0.6
"""How often quiet steps are followed by a burst, in noisy episodes."""

_MOVING = ("over", "down", "carry", "before", "at", "push", "lower")


@dataclass
class Samples:
    """What one task's rollouts gave; every list has one entry a kept picture."""

    pictures: list[NDArray[np.uint8]] = field(default_factory=list)
    proprio: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    valid: list[NDArray[np.bool_]] = field(default_factory=list)
    truth: list[NDArray[np.float32]] = field(default_factory=list)
    episode: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)


class Noise:
    """When the hand is pushed, and how."""

    def __init__(self, rng: np.random.Generator, noisy: bool) -> None:
        self._rng, self._noisy = rng, noisy
        self._left = 0
        self._quiet = int(rng.integers(4, QUIET))
        self._push = np.zeros(7)

    def __call__(self, moving: bool) -> NDArray[np.float64] | None:
        """(7,) to be added to the next action, or None for an undisturbed step."""
        if self._left == 0 and self._quiet == 0:
            self._quiet = QUIET
            if self._noisy and moving and self._rng.random() < BURST:
                self._left = int(self._rng.integers(3, 9))
                direction = self._rng.normal(size=3)
                length = self._rng.uniform(0.2, 1.0)
                self._push[:3] = direction / np.linalg.norm(direction) * length
                self._push[3:6] = self._rng.normal(0.0, 0.12, 3)
        if self._left and not moving:  # never while it grips
            self._left = 0
        if self._left:
            self._left -= 1
            return self._push
        self._quiet = max(0, self._quiet - 1)
        return None


def settled(simulator: Simulator, episode: Episode) -> Prepared:
    """Prepare an episode as a suite does."""
    prepared = simulator.prepare(episode)
    settle = np.tile(simulator.info.settle_action, (SETTLE_STEPS, 1))
    simulator.step(settle, stop_on_success=False)
    return prepared


def holds(simulator: Simulator, task_suite: str, task: str) -> Rims:
    """Where a task's object is held at its rim, the same in every rollout."""
    return usual_rims(
        (settled(simulator, Episode(task_suite, task, index)), simulator.observe(privileged=True))
        for index in episodes.training(task_suite, task)[::4]
    )


def roll(
    simulator: Simulator,
    episode: Episode,
    horizon: int,
    rng: np.random.Generator,
    noisy: bool,
    rims: Rims,
) -> Samples | None:
    """One rollout; None where the expert failed."""
    prepared = settled(simulator, episode)
    expert = Teacher(rims)
    expert.reset(EpisodeInfo(episode, prepared.instruction, horizon, prepared.goal), seed=0)
    noise, samples = Noise(rng, noisy), Samples()
    taken: list[NDArray[np.float64]] = []
    before, due, solved = "", 0, False
    for step in range(horizon):
        observation = simulator.observe(privileged=True)
        action = expert.act(observation)[0]
        kind = expert.note.partition(" ")[0]
        push = noise(kind in _MOVING)
        if push is None and (step >= due or kind != before):
            keep(samples, simulator, prepared, observation, episode.index, step)
            due = step + EVERY
        before = kind
        taken.append(action)
        executed = action if push is None else np.clip(action + push, -1.0, 1.0)
        if simulator.step(executed[np.newaxis]).success:
            solved = True
            break
    if not solved:
        return None
    label(samples, np.stack(taken))
    return samples


def keep(
    samples: Samples,
    simulator: Simulator,
    prepared: Prepared,
    observation: Observation,
    index: int,
    step: int,
) -> None:
    """What ``tiny`` would see now, and where the two things that matter are."""
    samples.pictures.append(tiny_inputs.pictures(simulator.observe(tiny_inputs.CAMERAS)))
    samples.proprio.append(tiny_inputs.proprio(observation))
    samples.truth.append(truth(prepared, observation))
    samples.episode.append(index)
    samples.step.append(step)


def truth(prepared: Prepared, observation: Observation) -> NDArray[np.float32]:
    """(2, 3) metres, world: what is handled, and where it goes. A label in training alone."""
    assert observation.privileged is not None
    positions = observation.privileged.positions
    _, *names = prepared.goal.predicates[0]
    found = [positions[name] for name in names]
    return np.array([found[0], found[-1]], dtype=np.float32)


def label(samples: Samples, taken: NDArray[np.float64]) -> None:
    """The chunk of actions that followed every kept picture, as far as the rollout went."""
    for step in samples.step:
        chunk = np.zeros((CHUNK, taken.shape[1]), dtype=np.float32)
        rest = taken[step : step + CHUNK]
        chunk[: len(rest)] = rest
        samples.actions.append(chunk)
        samples.valid.append(np.arange(CHUNK) < len(rest))


def one_task(task_suite: str, task: str, passes: int, seed: int, out: Path) -> str:
    """Every training state of a task, ``passes`` times; writes a file and says how it went."""
    path = out / f"{task_suite}-{task}-{seed}.npz"
    if path.exists():
        return f"{path.name} is there"
    suite = catalog.find(task_suite)
    assert suite is not None
    start, solved, tried = time.process_time(), 0, 0
    every = Samples()
    states = episodes.training(task_suite, task)
    rims: Rims | None = None
    for number, env_seed in enumerate(ENV_SEEDS):
        simulator = factory(
            SimulatorSettings("libero", env_seed, tiny_inputs.CAMERAS, PICTURE, PICTURE)
        )
        if rims is None:
            rims = holds(simulator, task_suite, task)
        for again in range(passes):
            for index in states[number :: len(ENV_SEEDS)]:
                rng = np.random.default_rng([seed, again, index])
                tried += 1
                noisy = (index + again) % 4 != 0
                horizon = suite.horizon * 5 // 4
                got = roll(simulator, Episode(task_suite, task, index), horizon, rng, noisy, rims)
                if got is None:
                    continue
                solved += 1
                for name, values in vars(got).items():
                    getattr(every, name).extend(values)
        simulator.close()
    write(path, every)
    seconds = time.process_time() - start
    return f"{task}: {solved}/{tried} solved, {len(every.step)} pictures, {seconds:.0f} s of CPU"


def write(path: Path, samples: Samples) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        arrays: dict[str, NDArray[np.generic]] = {
            name: np.array(values) for name, values in vars(samples).items()
        }
        np.savez(file, allow_pickle=False, **arrays)
    part.rename(path)


def _task(work: tuple[str, str, int, int, Path]) -> str:
    return one_task(*work)


def main() -> None:
    """Command line."""
    parser = each_task.options(__doc__)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    work = [(*each, args.passes, args.seed, args.out) for each in each_task.chosen(args)]
    for line in each_task.spread(_task, work, args.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
