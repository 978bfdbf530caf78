"""What the scripted expert knows at a decision: poses by name, and the geometry of its hand.

Frames: everything is in the world frame, metres and radians; quaternions are xyzw. The hand's
rotation has its columns x, y, z in the world: z is the approach direction (out of the palm) and
y the line along which the fingers close. With the Panda hand over the table z is (0, 0, -1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_vla_shift.protocol.errors import PolicyError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Observation, Vector

T = TypeVar("T")

DOWN: tuple[float, float, float] = (0.0, 0.0, -1.0)


class World:
    """The latest observation, as the motion primitives read it.

    Primitives are generators that yield one action and find the world moved on when they are
    resumed, so this object is updated in place and never handed over again.

    Attributes:
        note: what the expert is doing, for people who debug it.
        home: (3,) where the grip site was at the rollout's first decision.
        eef: (3,) the grip site.
        hand: (3, 3) the hand's rotation.
        opening: metres between the fingers, 0 to 0.08.
        rims: what is to be held at a certain point of its rim -> the point's angle about its
            centre, in the world, and the hand's lean outwards, radians.
    """

    def __init__(self, rims: Mapping[str, tuple[float, float]] | None = None) -> None:
        self.rims: Mapping[str, tuple[float, float]] = rims or {}
        self.note = ""
        self._positions: Mapping[str, Vector] = {}
        self._quaternions: Mapping[str, Vector] = {}
        self._joints: Mapping[str, float] = {}
        self.home: Vector | None = None
        self.eef: Vector = np.zeros(3)
        self.hand: Vector = np.eye(3)
        self.opening = 0.0

    def update(self, observation: Observation) -> None:
        """Take in the present observation.

        Raises:
            PolicyError: the observation carries no ground truth, or lacks a proprio vector.
        """
        truth = observation.privileged
        if truth is None:
            raise PolicyError("scripted needs the privileged state, and this observation has none")
        try:
            fingers = np.asarray(observation.proprio["gripper_qpos"], dtype=np.float64)
            self.eef = np.asarray(observation.proprio["eef_pos"], dtype=np.float64)
            self.hand = matrix(np.asarray(observation.proprio["eef_quat"], dtype=np.float64))
        except KeyError as error:
            raise PolicyError(f"scripted needs the proprio vector {error}") from error
        if self.home is None:
            self.home = self.eef
        self.opening = float(np.abs(fingers).sum())
        self._positions = truth.positions
        self._quaternions = truth.quaternions
        self._joints = truth.joints

    def position(self, name: str) -> Vector:
        """(3,) position of an object, fixture or site.

        Raises:
            PolicyError: the simulator does not tell it.
        """
        return np.asarray(_known(self._positions, name, "position"), dtype=np.float64)

    def rotation(self, name: str) -> Vector:
        """(3, 3) rotation, body to world.

        Raises:
            PolicyError: the simulator does not tell it.
        """
        return matrix(np.asarray(_known(self._quaternions, name, "quaternion"), dtype=np.float64))

    def point(self, name: str, offset: Vector) -> Vector:
        """The world position of a point given in the frame of ``name``."""
        return self.position(name) + self.rotation(name) @ offset

    def joint(self, name: str) -> float:
        """The qpos of a fixture's joint.

        Raises:
            PolicyError: the simulator does not tell it.
        """
        return float(_known(self._joints, name, "joint"))

    def joints(self) -> Mapping[str, float]:
        """Every articulated joint that is told."""
        return self._joints

    def names(self) -> list[str]:
        """Everything that has a position, sorted."""
        return sorted(self._positions)


def _known(table: Mapping[str, T], name: str, kind: str) -> T:
    try:
        return table[name]
    except KeyError:
        raise PolicyError(f"scripted needs the {kind} of {name!r}, which is not told") from None


def matrix(quaternion: Vector) -> Vector:
    """(3, 3) rotation of a unit quaternion xyzw; a zero quaternion gives the identity."""
    x, y, z, w = quaternion
    n = x * x + y * y + z * z + w * w
    if n < 1e-12:
        return np.eye(3)
    s = 2.0 / n
    return np.array(
        [
            [1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)],
            [s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w)],
            [s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)],
        ]
    )


def rotation_vector(target: Vector, current: Vector) -> Vector:
    """(3,) axis times angle, in the world frame, that takes ``current`` to ``target``.

    At half a turn the axis is not unique and any valid one is returned.
    """
    turn = target @ current.T
    skew = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine, cosine = float(np.linalg.norm(skew)) / 2, (float(np.trace(turn)) - 1) / 2
    if sine > 1e-6:
        return skew / (2 * sine) * math.atan2(sine, cosine)
    if cosine > 0:
        return np.zeros(3)
    axis = np.sqrt(np.maximum(np.diag(turn) + 1, 0) / 2)
    largest = int(np.argmax(axis))
    signs = np.where(turn[largest] < 0, -1.0, 1.0)
    signs[largest] = 1.0
    return math.pi * signs * axis / float(np.linalg.norm(axis))


def hand_rotation(approach: Vector, closing: Vector, near: Vector) -> Vector:
    """The hand that points along ``approach`` and closes along ``closing``, turned the short way.

    A parallel gripper is the same when turned by half a turn, so of the two hands the one is
    given that is the smaller turn away from ``near``.

    Args:
        approach: (3,) direction out of the palm.
        closing: (3,) line of closing; its part along ``approach`` is ignored.
        near: (3, 3) the hand to stay close to.
    """
    z = approach / np.linalg.norm(approach)
    y = closing - z * float(z @ closing)
    length = float(np.linalg.norm(y))
    if length < 1e-6:  # closing along the approach: keep the fingers as they are
        kept = max((near[:, 1], near[:, 0]), key=lambda line: 1 - abs(float(z @ line)))
        y = kept - z * float(z @ kept)
        length = float(np.linalg.norm(y))
    y = y / length
    if float(y @ near[:, 1]) < 0:
        y = -y
    return np.column_stack([np.cross(y, z), y, z])
