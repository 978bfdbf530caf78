"""Toy policies for a cluster: one that is slow enough for rollouts to meet at it, one that dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.fakes.lane_policies import Batcher, Sessions

if TYPE_CHECKING:
    from tests.fakes.toy_policies import Actions


class SlowBatcher(Batcher):
    """Takes as long for a batch as the toy for a few steps."""

    def act_batch(self, observations: Sequence[Observation], seeds: Sequence[int]) -> list[Actions]:
        time.sleep(0.01)
        return super().act_batch(observations, seeds)


class Scribbles(Sessions):
    """Writes into what it is shown, as a policy may with what is its own."""

    def act(self, observation: Observation) -> Actions:
        assert observation.privileged is not None
        chunk = super().act(observation)
        seen = [*observation.proprio.values(), *observation.privileged.positions.values()]
        for array in seen:
            array[:] = 0.0
        return chunk


class Lingers(Sessions):
    """Draws from NumPy's global generator at the beginning of a decision and at its end.

    Attributes:
        drawing: set between the two.
    """

    drawing = threading.Event()

    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        actions[:, 3] = np.random.uniform(-1, 1)
        self.drawing.set()
        time.sleep(0.3)
        actions[:, 4] = np.random.uniform(-1, 1)
        self.drawing.clear()
        return actions


class Dies(Sessions):
    """Takes its process with it at the third decision in episodes of number 1.

    Args:
        log: a file that gets a letter at every death.
        times: how often it does so.
    """

    def __init__(self, log: str, times: str = "1") -> None:
        super().__init__()
        self._log = Path(log)
        self._times = int(times)
        self._decisions = 0
        self._here = False

    def session(self) -> Dies:
        return Dies(str(self._log), str(self._times))

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._here, self._decisions = episode.episode.index == 1, 0

    def act(self, observation: Observation) -> Actions:
        self._decisions += 1
        deaths = self._log.read_text() if self._log.exists() else ""
        if self._here and self._decisions == 3 and len(deaths) < self._times:
            self._log.write_text(deaths + "x")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(observation)
