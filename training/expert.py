"""The scripted expert as a teacher: of two equally good grasps it always shows the same.

A can may be held along either of two lines. The expert takes the first of them, which for LIBERO
as released is half a turn of a quarter away in either direction, and which direction is decided
by a hundredth of a radian: nothing that a picture shows. A learner that averages the two turns
nowhere. Here the object is told to the expert turned about its own upright axis, by the quarter
that brings the line at hand to the front.

A bowl may be held anywhere at its rim. The expert chooses anew in every episode, and a centimetre
decides between two opposite points. Here the choice is made once for a task: :func:`usual_rims`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.policies.scripted_grasps import GRASPS, category
from pytest_vla_shift.policies.scripted_room import rim_prices
from pytest_vla_shift.policies.scripted_world import World, matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.scripted_grasps import Grasp
    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation, Vector
    from pytest_vla_shift.simulators.protocol import Prepared


Rims = Mapping[str, tuple[float, float]]
"""What is held at its rim -> angle about its centre and lean outwards, radians."""


class Teacher(Scripted):
    """The expert, told of every observation by :func:`least_turn`, and where to hold rims."""

    def __init__(self, rims: Rims) -> None:
        super().__init__()
        self._rims = rims

    def session(self) -> Teacher:
        """Another one, which remembers another rollout."""
        return Teacher(self._rims)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Begin a rollout."""
        super().reset(episode, seed)
        self._world = World(self._rims)

    def act(self, observation: Observation) -> NDArray[np.float64]:
        """The next action, (1, 7) in [-1, 1]."""
        return super().act(least_turn(observation))


def usual_rims(starts: Iterable[tuple[Prepared, Observation]]) -> Rims:
    """The hold that costs least over several beginnings of one task; empty if it has none."""
    name, total = "", defaultdict[tuple[float, float], float](float)
    for prepared, observation in starts:
        name = prepared.goal.predicates[0][1]
        grasp = GRASPS.get(category(name))
        if grasp is None or not grasp.rim:
            return {}
        world = World()
        world.update(least_turn(observation))
        for hold, price in rim_prices(world, name, grasp).items():
            total[hold] += price
    return {name: min(total, key=total.__getitem__)} if total else {}


def least_turn(observation: Observation) -> Observation:
    """The observation with every object that has two ways to be held turned to the nearer one."""
    truth = observation.privileged
    assert truth is not None
    closing = matrix(np.asarray(observation.proprio["eef_quat"], dtype=np.float64))[:, 1]
    told = dict(truth.quaternions)
    for name, quaternion in truth.quaternions.items():
        grasp = GRASPS.get(category(name))
        if grasp is not None and len(grasp.closing) > 1:
            told[name] = nearer(grasp, quaternion, closing)
    return replace(observation, privileged=replace(truth, quaternions=told))


def nearer(grasp: Grasp, quaternion: Vector, closing: Vector) -> Vector:
    """(4,) xyzw: as given, or a quarter further about the object's upright axis."""
    body = matrix(quaternion)
    if abs((body @ np.array(grasp.up))[2]) < 0.7:
        return quaternion  # it has fallen over
    first, second = (abs(float(body @ np.array(line) @ closing)) for line in grasp.closing)
    if first >= second:
        return quaternion
    half = math.sqrt(0.5)
    return product(quaternion, np.array([*(half * np.array(grasp.up)), half]))


def product(a: Vector, b: Vector) -> Vector:
    """The rotation ``b`` in the frame that ``a`` made; (4,) xyzw."""
    vector = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.array([*vector, a[3] * b[3] - float(a[:3] @ b[:3])])
