"""What a policy's state vectors are made of, from proprioception and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.profile import QUANTITIES, MappingError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector


def axis_angle(quat: Vector) -> Vector:
    """(3,) radians: rotation vector of an xyzw quaternion, as robosuite has it.

    The angle is 2 acos(w), from 0 to 2 pi: a quaternion and its antipode, the same rotation, give
    two vectors. Policies trained on robosuite's own function expect just that.
    """
    w = min(1.0, max(-1.0, float(quat[3])))
    length = math.sqrt(1.0 - w * w)
    if math.isclose(length, 0.0):
        return np.zeros(3)
    vector: Vector = np.asarray(quat[:3], dtype=np.float64) * 2.0 * math.acos(w) / length
    return vector


def rounded_axis_angle(quat: Vector) -> Vector:
    """(3,) radians: :func:`axis_angle` rounded to float32, as vla-eval sends it."""
    return axis_angle(quat).astype(np.float32).astype(np.float64)


def short_axis_angle(quat: Vector) -> Vector:
    """(3,) radians: of whichever antipode turns by pi at most, rounded to float32.

    Follows vla-eval 0.8 (vla_eval.rotation.quat_to_axisangle) bit for bit, with what it takes for
    no rotation at all and its order of operations.
    """
    nearer = np.asarray(quat, dtype=np.float64)
    if nearer[3] < 0.0:
        nearer = -nearer
    w = min(1.0, max(-1.0, float(nearer[3])))
    length = math.sqrt(1.0 - w * w)
    if length < 1e-8:
        return np.zeros(3)
    vector: Vector = nearer[:3] / length * (2.0 * np.arccos(w))
    return vector.astype(np.float32).astype(np.float64)


def quaternion(vector: Vector) -> Vector:
    """(4,) xyzw: the inverse of all of them, up to rounding."""
    angle = float(np.linalg.norm(vector))
    if angle == 0.0:
        return np.array([0.0, 0.0, 0.0, 1.0])
    axis = np.asarray(vector, dtype=np.float64) / angle
    return np.array([*(axis * math.sin(angle / 2.0)), math.cos(angle / 2.0)])


_DERIVED: Mapping[str, tuple[str, Callable[[Vector], Vector]]] = {
    "eef_axis_angle": ("eef_quat", axis_angle),
    "eef_axis_angle_rounded": ("eef_quat", rounded_axis_angle),
    "eef_axis_angle_short": ("eef_quat", short_axis_angle),
    "controller_axis_angle_short": ("controller_quat", short_axis_angle),
}


def source_of(name: str) -> str:
    """Which proprioception the vector that profiles call ``name`` is made of."""
    return _DERIVED.get(name, (name, None))[0]


def quantity(name: str, proprio: Mapping[str, Vector]) -> Vector:
    """The vector that profiles call ``name``, float64.

    Raises:
        MappingError: the simulator does not tell it.
    """
    source, function = _DERIVED.get(name, (name, np.asarray))
    if source not in proprio:
        raise MappingError(f"needs {source!r}, and the simulator tells {', '.join(proprio)}")
    return np.asarray(function(proprio[source]), dtype=np.float64)


def proprio_of(parts: Sequence[tuple[str, int, int, Vector]]) -> dict[str, Vector]:
    """Proprioception from parts of quantities, ``(name, start, stop, values)``.

    What is sent in part only is left out.
    """
    whole: dict[str, Vector] = {}
    seen: dict[str, set[int]] = {}
    for name, start, stop, values in parts:
        vector = whole.setdefault(name, np.zeros(QUANTITIES[name]))
        vector[start:stop] = values
        seen.setdefault(name, set()).update(range(start, stop))
    found: dict[str, Vector] = {}
    for name, vector in whole.items():
        if len(seen[name]) != QUANTITIES[name]:
            continue
        source = source_of(name)
        found[source] = vector if source == name else quaternion(vector)
    return found
