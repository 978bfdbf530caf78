"""A language shift for the toy, and policies that note every sentence they are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from pytest_vla_shift.shifts.kinds import PassingShift, variate
from pytest_vla_shift.shifts.protocol import Draw, Parameters
from tests.fakes.toy_policies import Expert

if TYPE_CHECKING:
    from tests.fakes.toy_policies import Actions

SENTENCES: Mapping[str, tuple[str, ...]] = {
    "reach_left": ("grab the left target", "take hold of the target that is on the left"),
    "reach_right": ("grab the right target", "take hold of the target that is on the right"),
}


class Reworded(PassingShift):
    """Another sentence for either task. Which of two is drawn, ``depth`` says how often it is said.

    The drawn one is ``sentence``, 0 or 1.
    """

    name: ClassVar[str] = "reworded"
    revision: ClassVar[int] = 1
    limits: ClassVar[dict[str, tuple[float, float]]] = {"depth": (0.0, 3.0)}
    neutral: ClassVar[dict[str, float]] = {"depth": 0.0}

    def draw(self, rng: np.random.Generator) -> Draw:
        return {"sentence": float(rng.integers(2))}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:
        return level["depth"] == 0.0

    def instruction(self, instruction: str, level: Parameters, draw: Draw, episode: Episode) -> str:
        if episode.task not in SENTENCES:
            raise ValueError(f"no other sentence is known for {episode.task!r}")
        sentence = SENTENCES[episode.task][int(variate(draw, "sentence"))]
        return ", ".join([sentence] * int(level["depth"])) or instruction


class Listener(Expert):
    """The expert, appending to the file ``log`` where it was told what: JSON, one a line."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self._log = Path(log)

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, language=True)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._note("reset", episode.instruction)

    def act(self, observation: Observation) -> Actions:
        self._note("act", observation.instruction)
        return super().act(observation)

    def _note(self, where: str, sentence: str) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps([where, sentence]) + "\n")


class Indexed(Listener):
    """One that tells tasks apart by their number, and declares that it reads no sentence."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, language=False)
