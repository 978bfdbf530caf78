"""LIBERO's arm: joint angles for a pose of the hand, and a controller that is carried along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.protocol.errors import UnreachablePose

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from robosuite.controllers.base_controller import Controller

    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.simulators.libero_world import World

    Matrix = NDArray[np.float64]

# Attributes of robosuite's OSC controller in the world's frame. Points are carried by the whole
# rigid motion, (3,); the others, (3,) or (3, n), are turned.
GOAL = ("goal_pos", "goal_ori")
_POINTS = ("goal_pos", "ee_pos", "initial_ee_pos")
_TURNED = ("goal_ori", "ee_ori_mat", "initial_ee_ori_mat", "ee_pos_vel", "ee_ori_vel")
_JACOBIANS = ("J_pos", "J_ori")

RESIDUAL = 1e-7
"""Metres and radians, each: where the search for joint angles ends."""

_ITERATIONS = 200
_STRIDE = 0.2
"""Longest step of one iteration, rad of any joint: keeps the arm on the branch it is on."""


def carry(controller: Controller, rotation: Matrix, translation: Vector) -> None:
    """Everything in the controller that is expressed in the world's frame, by a rigid motion.

    That is its goal, and what it last measured of the hand. Joint angles, the Jacobians and the
    mass matrix are left: see :func:`carry_base` for a robot that is moved as a whole.

    Args:
        controller: robosuite's OSC controller.
        rotation: (3, 3).
        translation: (3,) metres; a point goes to ``rotation @ point + translation``.
    """
    # New arrays throughout: robosuite lets several attributes share one.
    for name in _POINTS:
        setattr(controller, name, rotation @ getattr(controller, name) + translation)
    for name in _TURNED:
        setattr(controller, name, rotation @ getattr(controller, name))


def carry_base(controller: Controller, rotation: Matrix, translation: Vector) -> None:
    """As :func:`carry`, and the Jacobians: they turn with the base where joints keep their angles.

    Joint angles and the mass matrix do not see where the base stands.
    """
    carry(controller, rotation, translation)
    for name in _JACOBIANS:
        setattr(controller, name, rotation @ getattr(controller, name))
    controller.J_full = np.vstack([controller.J_pos, controller.J_ori])


def site_pose(data: mujoco.MjData, site: int) -> tuple[Vector, Vector]:
    """(3,) metres and (4,) wxyz of a site in the world frame, copies."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, data.site_xmat[site])
    return np.array(data.site_xpos[site]), quat


def released_hands(world: World) -> tuple[Matrix, Matrix]:
    """(N, 3) metres and (N, 4) xyzw: the grip site in every released initial state.

    Forward kinematics on a copy of the state: the world stays as it is.
    """
    data = mujoco.MjData(world.model)
    site = int(world.env.robots[0].eef_site_id)
    positions, quats = np.empty((len(world.states), 3)), np.empty((len(world.states), 4))
    for i, state in enumerate(world.states):
        data.qpos[:] = state[1 : 1 + world.model.nq]
        mujoco.mj_kinematics(world.model, data)
        positions[i], wxyz = site_pose(data, site)
        quats[i] = wxyz[[1, 2, 3, 0]]
    return positions, quats


def joints_for(world: World, position: Vector, quat: Vector) -> Vector:
    """(7,) rad: angles that bring the grip site to a pose, reached from the present ones.

    Levenberg-Marquardt (damped least squares whose damping goes with the error, so that it is
    robust far from the pose and quadratic near it) on a copy of the state. The arm has one joint
    more than a pose needs: the shortest steps are taken, so that a small shift of the hand is a
    small shift of every joint. A joint that would leave its limits is held there.

    Args:
        world: prepared; neither its state nor its model is written.
        position: (3,) metres, of the site in the world frame.
        quat: (4,) wxyz, unit.

    Raises:
        UnreachablePose: no angles within the limits give the pose to :data:`RESIDUAL`.
    """
    model, robot = world.model, world.env.robots[0]
    data = mujoco.MjData(model)
    data.qpos[:] = world.data.qpos
    site = int(robot.eef_site_id)
    angles = np.asarray(robot._ref_joint_pos_indexes)
    columns = np.asarray(robot._ref_joint_vel_indexes)
    low, high = model.jnt_range[np.asarray(robot._ref_joint_indexes)].T
    jacobian = np.empty((6, model.nv))
    for _ in range(_ITERATIONS):
        mujoco.mj_kinematics(model, data)
        error = _error(data, site, position, quat)
        if max(np.linalg.norm(error[:3]), np.linalg.norm(error[3:])) < RESIDUAL:
            found: Vector = data.qpos[angles].copy()
            return found
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], site)
        step = _step(jacobian[:, columns], error, data.qpos[angles], low, high)
        data.qpos[angles] = np.clip(data.qpos[angles] + step, low, high)
    away = 1000 * np.linalg.norm(error[:3]), np.degrees(np.linalg.norm(error[3:]))
    raise UnreachablePose(
        f"no joint angles within the limits bring the hand to {np.round(position, 4).tolist()} m,"
        f" {np.round(quat, 4).tolist()} wxyz: the nearest found are {away[0]:.2f} mm and"
        f" {away[1]:.3f} degrees away"
    )


def _error(data: mujoco.MjData, site: int, position: Vector, quat: Vector) -> Vector:
    """(6,) metres and rotation vector in the world frame, from the site to the pose."""
    here, turned = site_pose(data, site)
    inverse, between, error = np.empty(4), np.empty(4), np.empty(6)
    mujoco.mju_negQuat(inverse, turned)
    mujoco.mju_mulQuat(between, quat, inverse)
    mujoco.mju_quat2Vel(error[3:], between, 1.0)
    error[:3] = position - here
    return error


def _step(jacobian: Matrix, error: Vector, angles: Vector, low: Vector, high: Vector) -> Vector:
    """(7,) rad: one damped step; joints that it would push out of their limits are held."""
    held = np.zeros(len(angles), dtype=bool)
    while True:
        free = np.where(held, 0.0, jacobian)
        damping = 0.01 * float(error @ error) + 1e-12
        step = free.T @ np.linalg.solve(free @ free.T + damping * np.eye(6), error)
        step *= min(1.0, _STRIDE / max(float(np.abs(step).max()), 1e-12))
        out = ~held & (((angles >= high) & (step > 0)) | ((angles <= low) & (step < 0)))
        if not out.any():
            found: Vector = step
            return found
        held |= out
