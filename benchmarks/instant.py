"""A simulator and a policy that cost nothing: what is left of a run is the plugin's own work.

Pictures are LIBERO's, so that they compress as a user's do; every episode is solved at its first
step; a shift leaves a receipt and does nothing.
"""
# ruff: noqa: ARG002  (the protocols name the arguments)

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Goal, Observation
from pytest_vla_shift.protocol.stages import Milestone, StageSpec
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)

FACTORY, POLICY = "benchmarks.instant:factory", "benchmarks.instant:Instant"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "severity-libero-ctrl.jpg"
CAMERAS = ("agentview", "robot0_eye_in_hand")
PREDICATES = ("reached", "grasped", "up")
STAGES = StageSpec(((tuple(Milestone(name, name) for name in PREDICATES),),))
INFO = SimulatorInfo(
    FACTORY, {"instant": "1"}, 1, "none", 7, -1, 1, (0.0,) * 7, 20.0, CAMERAS, (0, 3), (3, 6)
)
FIELDS = tuple(f"model.array_{number:02d}" for number in range(30))
"""As many as LIBERO's fingerprint has."""


class World:
    """The simulator."""

    def __init__(self, settings: SimulatorSettings) -> None:
        from PIL import Image

        with Image.open(PICTURE) as picture:
            pixels = np.asarray(picture.convert("RGB"))[40:, 10:]
        height, width = settings.height, settings.width
        self._images = {
            name: np.ascontiguousarray(pixels[:height, 100 * n : 100 * n + width])
            for n, name in enumerate(settings.cameras)
        }
        self._observation = Observation(
            images={},
            proprio={
                "eef_pos": np.zeros(3),
                "eef_quat": np.zeros(4),
                "gripper_qpos": np.zeros(2),
                "joint_pos": np.zeros(7),
            },
            instruction="pick up the ketchup and place it in the basket",
            step=0,
        )
        self._solved = False

    @property
    def info(self) -> SimulatorInfo:
        return INFO

    def prepare(self, episode: Episode) -> Prepared:
        self._solved = False
        state = hashlib.blake2b(f"{episode.task} {episode.index}".encode(), digest_size=16)
        fingerprint = dict.fromkeys(FIELDS, state.hexdigest())
        goal = Goal((("up", "ketchup"),))
        return Prepared(fingerprint, self._observation.instruction, goal, PREDICATES, STAGES)

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        return [
            Receipt(f"model.{each.axis}", [0.0, 0.0, 0.0], [0.1, 0.2, 0.3])
            for each in interventions
        ]

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        return replace(self._observation, images={name: self._images[name] for name in cameras})

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        if not stop_on_success:
            return StepResult(len(actions), False, np.zeros((len(actions), 3), np.bool_), 0.0)
        self._solved = True
        return StepResult(1, True, np.ones((1, 3), np.bool_), 0.0)

    def success(self) -> bool:
        return self._solved

    def predicates(self) -> Mapping[str, bool]:
        return dict.fromkeys(PREDICATES, self._solved)

    def close(self) -> None:
        pass


class Factory:
    """What :data:`FACTORY` names."""

    def __call__(self, settings: SimulatorSettings) -> World:
        return World(settings)

    def describe(self) -> SimulatorInfo:
        return INFO


factory = Factory()


class Instant:
    """The policy: looks through both cameras, and does nothing."""

    spec = PolicySpec(POLICY, "1", cameras=CAMERAS, chunk=8, replan=8)

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        pass

    def act(self, observation: Observation) -> NDArray[np.float64]:
        return np.zeros((8, 7))

    def close(self) -> None:
        pass
