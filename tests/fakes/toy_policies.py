"""Policies for the toy: two that can do it, and one for every way to misbehave.

Name them as ``tests.fakes.toy_policies:Expert`` and so on. Keyword arguments come as strings.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.fakes.toy_faults import FAULTS
from tests.fakes.toy_scene import floor_points, front_place, front_quat
from tests.fakes.toy_simulator import LIFT, STRIDE, SUITE, TASKS, TOUCH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image, Vector

    Actions = NDArray[np.floating]

CHUNK = 4


def pick_up(hand: Vector, target: Vector, closed: bool, chunk: int) -> Actions:
    """Open-loop actions (chunk, 7): over the floor to ``target``, close, lift."""
    hand = hand.copy()
    actions = np.zeros((chunk, 7))
    for action in actions:
        gap = target - hand
        closed = closed or float(np.linalg.norm(gap)) < 0.5 * TOUCH
        goal = np.array([hand[0], hand[1], 2 * LIFT]) if closed else target
        action[:3] = np.clip((goal - hand) / STRIDE, -1.0, 1.0)
        action[6] = 1.0 if closed else -1.0
        if closed and hand[2] < 0.5 * STRIDE and not np.allclose(gap, 0, atol=TOUCH):
            action[:3] = 0.0
        hand += STRIDE * action[:3]
    return actions


class Expert:
    """Solves every toy task that can be reached, from ground truth. Looks at nothing."""

    def __init__(self) -> None:
        self._closed = False

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(
            name=f"{type(self).__module__}:{type(self).__qualname__}",
            revision="1",
            privileged=True,
            chunk=CHUNK,
            replan=CHUNK,
        )

    def unsupported(self, task_suite: str, task: str) -> str | None:
        known = {*TASKS, *(f"{name}_{fault}" for name in TASKS for fault in FAULTS)}
        if task_suite == SUITE and task in known:
            return None
        return f"it knows only {', '.join(TASKS)} of the suite {SUITE}"

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._closed = False

    def act(self, observation: Observation) -> Actions:
        state = observation.privileged
        if state is None:
            raise RuntimeError("the toy expert was given no privileged state")
        actions = pick_up(
            observation.proprio["eef_pos"], state.positions["target_1"], self._closed, CHUNK
        )
        self._closed = bool(actions[-1, 6] > 0)
        return actions

    def close(self) -> None:
        pass


class Seer(Expert):
    """Finds the red target in the ``front`` picture, so that visual shifts can break it.

    It trusts the unshifted camera's geometry, wants red pixels brighter than 120, and steers
    to where it last saw the target; it does nothing before it has seen it once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: Vector | None = None

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, privileged=False, cameras=("front",))

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._seen = None

    def act(self, observation: Observation) -> Actions:
        if self._seen is None:
            self._seen = find_red(observation.images["front"])
        if self._seen is None:
            return np.array([[0.0, 0, 0, 0, 0, 0, -1]])
        hand = observation.proprio["eef_pos"]
        actions = pick_up(hand, self._seen, self._closed, CHUNK)
        self._closed = bool(actions[-1, 6] > 0)
        return actions


def find_red(image: Image) -> Vector | None:
    """(3,) place on the floor, metres in the world frame, of the red pixels' centre."""
    height, width, _ = image.shape
    pixels = image.astype(np.int64)
    red = (pixels[..., 0] > 120) & (pixels[..., 0] > 3 * pixels[..., 1])
    if not red.any():
        return None
    # As if the camera stood where it stands in a clean scene: shifted pictures mislead it.
    floor = floor_points(front_place(), front_quat(), height, width)
    return np.array([*floor[red].mean(axis=0), 0.0])


class AsksAtUrl(Expert):
    """Says that it asks a server; there is none, and none is needed."""

    def __init__(self, url: str, token: str | None = None) -> None:
        super().__init__()


class Flaky(Expert):
    """The expert, but with probability ``p`` (drawn from the reset's seed) it does nothing."""

    def __init__(self, p: str = "0.3") -> None:
        super().__init__()
        self._p = float(p)
        self._idle = False

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, seeded=True, revision=f"1 p={self._p}")

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._idle = float(np.random.default_rng(seed).random()) < self._p

    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        return np.zeros_like(actions) if self._idle else actions


class GlobalRandom(Expert):
    """The expert with noise from numpy's and Python's global random states."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, seeded=True)

    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        actions[:, 3:6] = np.random.uniform(-1, 1, (CHUNK, 3)) + random.uniform(-1, 1)
        return actions


class Slow(Expert):
    """The expert, thinking ``seconds`` at every decision."""

    def __init__(self, seconds: str = "0.05") -> None:
        super().__init__()
        self._seconds = float(seconds)

    def act(self, observation: Observation) -> Actions:
        time.sleep(self._seconds)
        return super().act(observation)


class NotANumber(Expert):
    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        actions[1, 2] = np.nan
        return actions


class Infinite(Expert):
    def act(self, observation: Observation) -> Actions:
        actions = super().act(observation)
        actions[0, 0] = -np.inf
        return actions


class WrongWidth(Expert):
    def act(self, observation: Observation) -> Actions:
        return super().act(observation)[:, :6]


class EmptyChunk(Expert):
    def act(self, observation: Observation) -> Actions:
        return super().act(observation)[:0]


class TooLong(Expert):
    """Answers with more actions than its specification allows."""

    def act(self, observation: Observation) -> Actions:
        return np.tile(super().act(observation), (2, 1))


class Raises(Expert):
    """Raises at its third decision."""

    def __init__(self) -> None:
        super().__init__()
        self._decisions = 0

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        self._decisions = 0

    def act(self, observation: Observation) -> Actions:
        self._decisions += 1
        if self._decisions == 3:
            raise ValueError("unnorm_key 'bridge_orig' is not in the statistics")
        return super().act(observation)


class RaisesInReset(Expert):
    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        raise RuntimeError("CUDA out of memory, says the toy")
