"""Unit quaternions in MuJoCo's order, wxyz. Multiplication composes like rotation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector

X = (1.0, 0.0, 0.0)
Y = (0.0, 1.0, 0.0)
Z = (0.0, 0.0, 1.0)


def about(axis: Sequence[float], radians: float) -> Vector:
    """(4,) wxyz: the right-handed rotation by ``radians`` about the unit vector ``axis``."""
    half = 0.5 * radians
    return np.array([math.cos(half), *(math.sin(half) * component for component in axis)])


def compose(first: Vector, second: Vector) -> Vector:
    """(4,) wxyz: the matrix product ``first @ second``, of unit length.

    ``compose(q, about(axis, a))`` turns the frame of ``q`` about its *own* axis;
    ``compose(about(axis, a), q)`` turns it about the axis of the frame that ``q`` lives in.

    Raises:
        ValueError: an operand is not a unit quaternion (to 1e-6), so not a rotation.
    """
    for quat in (first, second):
        if not abs(float(np.linalg.norm(quat)) - 1.0) < 1e-6:
            raise ValueError(f"not a unit quaternion: {quat.tolist()}")
    a, b, c, d = (float(value) for value in first)
    e, f, g, h = (float(value) for value in second)
    product = np.array(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ]
    )
    unit: Vector = product / np.linalg.norm(product)
    return unit


def from_vector(vector: Sequence[float]) -> Vector:
    """(4,) wxyz: the rotation about ``vector``'s direction by its length in radians."""
    radians = math.sqrt(sum(component * component for component in vector))
    if radians == 0.0:
        return np.array([1.0, 0.0, 0.0, 0.0])
    return about([component / radians for component in vector], radians)


def elevation(direction: Vector) -> float:
    """Radians that a direction, (3,) of any length, points above the horizontal plane."""
    return math.atan2(float(direction[2]), math.hypot(float(direction[0]), float(direction[1])))


def lift(direction: Vector, radians: float) -> Vector:
    """(4,) wxyz: the rotation about a horizontal axis that raises ``direction`` by ``radians``.

    It stays in its vertical plane: beyond 90 degrees it comes down on the other side. A vertical
    direction lies in every such plane; it is taken to lean towards +x.
    """
    x, y = float(direction[0]), float(direction[1])
    length = math.hypot(x, y)
    axis = (0.0, -1.0, 0.0) if length == 0.0 else (y / length, -x / length, 0.0)
    return about(axis, radians)


def rotate(quat: Vector, vector: Sequence[float]) -> Vector:
    """(3,) ``vector`` of the frame of ``quat``, expressed in the frame that ``quat`` lives in."""
    w, axis = float(quat[0]), np.asarray(quat[1:], dtype=np.float64)
    v = np.asarray(vector, dtype=np.float64)
    t = 2.0 * np.cross(axis, v)
    turned: Vector = v + w * t + np.cross(axis, t)
    return turned
