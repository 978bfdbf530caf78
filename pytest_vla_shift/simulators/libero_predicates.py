"""The predicates of a LIBERO task, evaluated on the present state; about 0.1 ms for all of them.

- ``reached X``: the gripper touches X, or its grip site is within :data:`NEAR` of a collision
  box of X. For a fixture, X is the part that moves: a drawer, a door, a knob.
- ``grasped X``: both finger pads touch X (robosuite's ``_check_grasp``).
- ``lifted X``: X is :data:`RISE` above the height that it came to rest at in settling, and the
  gripper touches it. (Initial states drop objects, and on landing they dip by centimetres.)
- ``at target X``: X is horizontally over or in the place where the goal wants it, in LIBERO's own
  geometry widened by :data:`MARGIN`, and not below it. It follows from the goal predicate.
- the goal predicate: LIBERO's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.protocol.observation import Goal
from pytest_vla_shift.simulators.libero_stages import Kind, Subgoal

if TYPE_CHECKING:
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector

NEAR = 0.02
"""Metres from the grip site to a collision box."""

RISE = 0.03
"""Metres."""

MARGIN = 0.02
"""Metres, horizontally."""

_ON_OBJECT = 0.03  # LIBERO's own tolerance for "on" an object
_FLOOR = 0.01  # and the slack below a region that it allows for "in"
_TOP_SLACK = 0.005  # and below the top of one for "on"
_LEFT, _RIGHT, _HAND = 1, 2, 4


@dataclass(frozen=True)
class _Part:
    """Something that the gripper is to reach: its bodies' collision geoms.

    Attributes:
        body: the body whose height and place count.
        geoms: ids of the collision geoms.
        center, half: (n, 3) their boxes in their own frames, metres.
    """

    body: int
    geoms: NDArray[np.intp]
    center: Vector
    half: Vector


class Predicates:
    """Evaluates a task's subgoals. Holds one thing that outlives a step: rest heights."""

    def __init__(self, env: BDDLBaseDomain, goal: Goal, subgoals: tuple[Subgoal, ...]) -> None:
        self._env = env
        self._model: mujoco.MjModel = env.sim.model._model
        self._data: mujoco.MjData = env.sim.data._data
        self._subgoals = subgoals
        self._single = len(goal.predicates) == 1
        self._goals = goal.predicates
        self._parts = [_part(env, predicate[1]) for predicate in goal.predicates]
        self._gripper = _gripper_labels(env)
        self._owner = np.full(self._model.ngeom, -1)
        self._owners: list[int] = []
        self._label_parts()
        self._grip = int(env.robots[0].eef_site_id)
        self.rest()

    def rest(self) -> None:
        """Take the present heights as those that objects are lifted from."""
        self._rest = self._heights()

    def __call__(self, success: bool) -> NDArray[np.bool_]:
        """(P,) bool in the order of the subgoals.

        Args:
            success: the simulator's check of the present state, known from its step.
        """
        touches = self._touches()
        heights = self._heights()
        values = np.zeros(len(self._subgoals), dtype=np.bool_)
        for number, subgoal in enumerate(self._subgoals):
            goal = subgoal.goal
            touch = touches[self._owners[goal]]
            match subgoal.kind:
                case Kind.REACHED:
                    value = touch > 0 or self._near(self._parts[goal])
                case Kind.GRASPED:
                    value = touch & (_LEFT | _RIGHT) == _LEFT | _RIGHT
                case Kind.LIFTED:
                    value = touch > 0 and heights[goal] >= self._rest[goal] + RISE
                case Kind.AT_TARGET:
                    value = self._at_target(goal)
                case Kind.GOAL:
                    value = success if self._single else self._holds(goal)
            values[number] = value
        return values

    def object_speed(self) -> float:
        """The largest linear speed of any movable object, m/s."""
        fastest = 0.0
        for body in self._env.objects_dict.values():
            start, _ = self._env.sim.model.get_joint_qvel_addr(body.joints[-1])
            velocity = self._data.qvel[start : start + 3]
            fastest = max(fastest, float(velocity @ velocity))
        return float(np.sqrt(fastest))

    def _heights(self) -> list[float]:
        return [float(self._data.xpos[part.body, 2]) for part in self._parts]

    def _label_parts(self) -> None:
        """Geom id -> number of the distinct part it belongs to; goal -> that number."""
        known: dict[bytes, int] = {}
        for part in self._parts:
            owner = known.setdefault(part.geoms.tobytes(), len(known))
            self._owner[part.geoms] = owner
            self._owners.append(owner)

    def _touches(self) -> list[int]:
        """For every part, which of left pad, right pad and rest of the gripper touch it."""
        touches = [0] * len(self._parts)
        pairs = self._data.contact.geom
        for one, other in (pairs.T, pairs.T[::-1]) if len(pairs) else ():
            owner, hand = self._owner[one], self._gripper[other]
            for contact in np.flatnonzero((owner >= 0) & (hand > 0)):
                touches[owner[contact]] |= int(hand[contact])
        return touches

    def _near(self, part: _Part) -> bool:
        """Whether the grip site is within NEAR of a box of the part."""
        offset = self._data.site_xpos[self._grip] - self._data.geom_xpos[part.geoms]
        frames = self._data.geom_xmat[part.geoms].reshape(-1, 3, 3)
        local = np.matmul(offset[:, None, :], frames)[:, 0, :] - part.center
        outside = np.maximum(np.abs(local) - part.half, 0.0)
        return bool((np.square(outside).sum(axis=1) < NEAR * NEAR).any())

    def _holds(self, goal: int) -> bool:
        return bool(self._env._eval_predicate(self._goals[goal]))

    def _at_target(self, goal: int) -> bool:
        """LIBERO's geometry of ``on`` and ``in``, wider and open above (see SiteObject)."""
        name, moved, target = self._goals[goal]
        place = self._data.xpos[self._env.obj_body_id[moved]]
        region = self._env.object_sites_dict.get(target)
        if region is None:
            offset = place - self._data.xpos[self._env.obj_body_id[target]]
            reach = _ON_OBJECT + MARGIN
            return bool(offset[2] >= 0 and offset[0] ** 2 + offset[1] ** 2 < reach * reach)
        site = self._env.sim.model.site_name2id(target)
        offset = place - self._data.site_xpos[site]
        frame = self._data.site_xmat[site].reshape(3, 3)
        size = np.asarray(region.size)
        if name == "on":
            offset = frame @ offset
            half, bottom = size, size[2] - _TOP_SLACK
        else:
            half = np.abs(frame @ size)
            bottom = -half[2] - _FLOOR
        inside = abs(offset[0]) < half[0] + MARGIN and abs(offset[1]) < half[1] + MARGIN
        return bool(inside and offset[2] > bottom)


def _part(env: BDDLBaseDomain, name: str) -> _Part:
    """The part that a goal's first argument names: an object, or what moves of a fixture."""
    model: mujoco.MjModel = env.sim.model._model
    if name in env.objects_dict:
        root = int(env.obj_body_id[name])
        collision = [env.sim.model.geom_name2id(g) for g in env.objects_dict[name].contact_geoms]
        geoms = np.array(collision, dtype=np.intp)
    else:
        holder = env.object_sites_dict.get(name) or env.fixtures_dict[name]
        roots = [int(model.jnt_bodyid[env.sim.model.joint_name2id(j)]) for j in holder.joints]
        root = roots[0]
        bodies = [body for body in range(model.nbody) if _descends(model, body, roots)]
        collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        geoms = np.flatnonzero(np.isin(model.geom_bodyid, bodies) & collides)
    boxes = model.geom_aabb[geoms]
    return _Part(root, geoms, boxes[:, :3].copy(), boxes[:, 3:].copy())


def _descends(model: mujoco.MjModel, body: int, ancestors: list[int]) -> bool:
    while body:
        if body in ancestors:
            return True
        body = int(model.body_parentid[body])
    return False


def _gripper_labels(env: BDDLBaseDomain) -> NDArray[np.int_]:
    """Geom id -> which part of the gripper it is, 0 for none."""
    gripper = env.robots[0].gripper
    labels = np.zeros(env.sim.model.ngeom, dtype=np.int_)
    for names, label in (
        (gripper.contact_geoms, _HAND),
        (gripper.important_geoms["left_fingerpad"], _LEFT),
        (gripper.important_geoms["right_fingerpad"], _RIGHT),
    ):
        for name in names:
            labels[env.sim.model.geom_name2id(name)] = label
    return labels
