"""The episode that whole rollouts are compared on: the same state, the same actions, for everyone.

Imports nothing of this project: the other harness's interpreter reads it too.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUITE = "libero_object"
TASK = "pick_up_the_ketchup_and_place_it_in_the_basket"
INDEX = 0
ENV_SEED = 7
CAMERAS = ("agentview", "robot0_eye_in_hand")
SIZE = 256
CHUNK = 8
STEPS = 160
SETTLE = 10
IDLE = (0.0,) * 6 + (-1.0,)


def actions() -> NDArray[np.float64]:
    """(STEPS, 7): random moves that do not solve the task; the gripper is told -1 or 1."""
    rng = np.random.default_rng(4)
    found = np.repeat(rng.uniform(-0.5, 0.5, (STEPS // CHUNK, 7)), CHUNK, axis=0)
    found[:, 6] = np.where(found[:, 6] < 0.0, -1.0, 1.0)
    return found


def digest(state: NDArray[np.float64]) -> str:
    """Of MuJoCo's flattened state: time, positions, velocities."""
    return hashlib.sha256(np.ascontiguousarray(state, dtype="<f8").tobytes()).hexdigest()[:16]
