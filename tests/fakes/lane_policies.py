"""Toy policies that serve several rollouts at once: by sessions, without state, and in batches."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.fakes.toy_policies import CHUNK, Expert, pick_up
from tests.fakes.toy_simulator import TOUCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.toy_policies import Actions


class Sessions(Expert):
    """The expert, which remembers whether it has closed its hand, with a memory for each lane."""

    def session(self) -> Sessions:
        return type(self)()


class DrawsEverywhere(Sessions):
    """Noise from Python's and NumPy's global generators, in ``reset`` and in ``act``."""

    def __init__(self) -> None:
        super().__init__()
        self._bias = 0.0

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, seeded=True)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._bias = random.uniform(-0.5, 0.5)

    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        time.sleep(0.001)  # other threads get a chance to interfere
        actions[:, 3:6] = 0.5 * np.random.uniform(-1, 1, (CHUNK, 3)) + self._bias
        return actions


class Stateless(Expert):
    """The expert without memory: its hand is closed where it touches the target."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, stateless=True)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation) -> Actions:
        assert observation.privileged is not None
        hand, target = observation.proprio["eef_pos"], observation.privileged.positions["target_1"]
        closed = float(np.linalg.norm(target - hand)) < 0.5 * TOUCH
        return pick_up(hand, target, closed, CHUNK)


class Batcher(Stateless):
    """The stateless expert with noise from each decision's seed, four rollouts in one call.

    Args:
        log: a file that gets a line for each call: how many different observations it held.
        fault: ``poison`` raises when an observation's hand is right of the middle, ``short``
            answers with a chunk too few, ``draw`` draws from a global generator.
    """

    def __init__(self, log: str = "", fault: str = "") -> None:
        super().__init__()
        self._log = log
        self._fault = fault

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, batch=4, seeded=True)

    def act(self, observation: Observation) -> Actions:
        raise AssertionError("a policy with batches is asked for nothing else")

    def act_batch(self, observations: Sequence[Observation], seeds: Sequence[int]) -> list[Actions]:
        assert len(observations) == len(seeds) == 4
        if self._log:
            with Path(self._log).open("a") as log:
                log.write(f"{len({id(observation) for observation in observations})}\n")
        if self._fault == "draw":
            np.random.random()
        if self._fault == "poison" and any(o.proprio["eef_pos"][0] > 0.02 for o in observations):
            raise ValueError("an observation that the toy cannot read")
        chunks = []
        for observation, seed in zip(observations, seeds, strict=True):
            chunk = super().act(observation)
            chunk[:, 3:6] = np.random.default_rng(seed).uniform(-1, 1, (CHUNK, 3))
            chunks.append(chunk)
        return chunks[: 3 if self._fault == "short" else 4]


class OneThread(Sessions):
    """Insists on being made, called and closed in one thread, and never twice at once."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self._busy = False

    def _guarded(self, work: Callable[[], Actions | None]) -> Actions | None:
        assert threading.get_ident() == self._thread
        assert not self._busy
        self._busy = True
        try:
            return work()
        finally:
            self._busy = False

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._guarded(lambda: super(OneThread, self).reset(episode, seed))

    def act(self, observation: Observation) -> Actions:
        chunk = self._guarded(lambda: super(OneThread, self).act(observation))
        assert chunk is not None
        return chunk

    def close(self) -> None:
        assert threading.get_ident() == self._thread
        if "ONE_THREAD_CLOSED" in os.environ:
            Path(os.environ["ONE_THREAD_CLOSED"]).touch()


class Hangs(Sessions):
    """Does not return from its third decision in a certain episode.

    Args:
        task, episode: which one.
        seconds: how long it takes there.
        log: a file that gets a line when it has returned after all.
    """

    def __init__(
        self, task: str = "reach_left", episode: str = "1", seconds: str = "3600", log: str = ""
    ) -> None:
        super().__init__()
        self._arguments = (task, episode, seconds, log)
        self._decisions = 0
        self._here = False

    def session(self) -> Hangs:
        return Hangs(*self._arguments)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        task, index, _, _ = self._arguments
        self._here = (episode.episode.task, str(episode.episode.index)) == (task, index)
        self._decisions = 0

    def act(self, observation: Observation) -> Actions:
        self._decisions += 1
        if self._here and self._decisions == 3:
            _, _, seconds, log = self._arguments
            time.sleep(float(seconds))
            if log:
                with Path(log).open("a") as file:
                    file.write("late\n")
        return super().act(observation)
