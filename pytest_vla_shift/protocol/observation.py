"""What crosses between a simulator and a policy: episodes, observations, privileged state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Image = NDArray[np.uint8]
    Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, order=True)
class Episode:
    """One initial state of one task, identified by arguments and never by a reset count.

    Attributes:
        task_suite: the simulator's own group of tasks, for example ``libero_object``.
        task: the task's name within it.
        index: the number of the released initial state, from 0.
    """

    task_suite: str
    task: str
    index: int


@dataclass(frozen=True, slots=True)
class Goal:
    """A task's goal: a conjunction of predicates, each ``(name, argument, ...)`` in lower case."""

    predicates: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """What a policy is told at reset.

    Attributes:
        episode: which task and initial state.
        instruction: the sentence that the policy is given (after any language shift).
        horizon: the number of control steps after which the rollout ends.
        goal: the task's goal. Privileged: filled only for a policy that asks for it.
    """

    episode: Episode
    instruction: str
    horizon: int
    goal: Goal = Goal()


@dataclass(frozen=True, slots=True)
class PrivilegedState:
    """Ground truth that no camera gives. Only for experts and diagnostics.

    Attributes:
        positions: name -> (3,) float64 metres in the world frame. Names are those of
            objects and fixtures (``akita_black_bowl_1``), of sites and of the grip site.
        quaternions: the same names -> (4,) float64, xyzw, body to world.
        joints: joint name -> qpos of articulated fixtures, metres or radians.
    """

    positions: Mapping[str, Vector] = field(default_factory=dict)
    quaternions: Mapping[str, Vector] = field(default_factory=dict)
    joints: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees at a decision.

    Attributes:
        images: camera name -> (H, W, 3) uint8 RGB, upright, C-contiguous. Only the cameras
            asked for.
        proprio: name -> float64 vector. ``eef_pos`` (3,) metres in the world frame,
            ``eef_quat`` (4,) xyzw, ``gripper_qpos`` (2,) metres, ``joint_pos`` (7,) radians;
            where a controller measures for itself, ``controller_pos`` (3,) metres and
            ``controller_quat`` (4,) xyzw, world frame. A simulator's
            ``SimulatorInfo.proprio`` says which of them it has.
        instruction: the task's sentence.
        step: control steps executed since settling.
        privileged: ground truth, or None for a policy that did not ask for it.
    """

    images: Mapping[str, Image]
    proprio: Mapping[str, Vector]
    instruction: str
    step: int
    privileged: PrivilegedState | None = None
