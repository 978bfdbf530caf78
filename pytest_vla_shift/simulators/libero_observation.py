"""What a LIBERO world tells: proprioception, and the ground truth for experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.protocol.observation import PrivilegedState

if TYPE_CHECKING:
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain

    from pytest_vla_shift.protocol.observation import Vector

GRIP_SITE = "robot0_grip_site"


def proprio(env: BDDLBaseDomain) -> dict[str, Vector]:
    """What :data:`~.libero.PROPRIO` names, float64.

    robosuite's ``robot0_*`` observables under our names, and the controller's own measurement,
    which is that of the last control step (before the first one, that of the reset). It is of the
    grip site, where ``eef_quat`` is of the hand's body: a quarter turn apart.
    """
    robot, data = env.robots[0], env.sim.data
    return {
        "eef_pos": np.array(data.site_xpos[robot.eef_site_id]),
        "eef_quat": xyzw(data.get_body_xquat(robot.robot_model.eef_name)),
        "gripper_qpos": np.array(data.qpos[robot._ref_gripper_joint_pos_indexes]),
        "joint_pos": np.array(data.qpos[robot._ref_joint_pos_indexes]),
        "controller_pos": np.array(robot.controller.ee_pos, dtype=np.float64),
        "controller_quat": _turned(robot.controller.ee_ori_mat),
    }


def privileged(env: BDDLBaseDomain) -> PrivilegedState:
    """Poses of objects, fixtures, BDDL regions and the grip site; joints of fixtures.

    Names are the BDDL file's: ``wooden_cabinet_1``, ``wooden_cabinet_1_top_region``,
    ``main_table_stove_front_region``. World frame, metres, xyzw.
    """
    data, names = env.sim.data, env.sim.model
    positions: dict[str, Vector] = {}
    quaternions: dict[str, Vector] = {}
    for name, body in env.obj_body_id.items():
        positions[name] = np.array(data.body_xpos[body])
        quaternions[name] = xyzw(data.body_xquat[body])
    sites = {name: names.site_name2id(name) for name in env.object_sites_dict}
    sites[GRIP_SITE] = int(env.robots[0].eef_site_id)
    for name, site in sites.items():
        positions[name] = np.array(data.site_xpos[site])
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, data.site_xmat[site])
        quaternions[name] = xyzw(quat)
    joints = {
        joint: float(data.get_joint_qpos(joint))
        for fixture in env.fixtures_dict.values()
        for joint in fixture.joints
    }
    return PrivilegedState(positions, quaternions, joints)


def _turned(matrix: Vector) -> Vector:
    """(4,) xyzw of a rotation matrix (3, 3), which is rounded to float32 first.

    As vla-eval 0.8 reads the controller: what it sends can then be sent bit for bit
    (vla_eval.rotation.matrix_to_quat, Shepperd's method).
    """
    m = np.asarray(matrix, dtype=np.float32).astype(np.float64)
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    if trace > 0.0:
        s = 2.0 * np.sqrt(trace + 1.0)
        return np.array(
            [(m[2, 1] - m[1, 2]) / s, (m[0, 2] - m[2, 0]) / s, (m[1, 0] - m[0, 1]) / s, 0.25 * s]
        )
    # The largest of the diagonal, the last of equals; the others are subtracted in their order.
    i = 2 - int(np.argmax(np.diagonal(m)[::-1]))
    j, k = (i + 1) % 3, (i + 2) % 3
    s = 2.0 * np.sqrt(1.0 + m[i, i] - m[min(j, k), min(j, k)] - m[max(j, k), max(j, k)])
    quat = np.empty(4)
    quat[i] = 0.25 * s
    quat[j], quat[k] = (m[i, j] + m[j, i]) / s, (m[i, k] + m[k, i]) / s
    quat[3] = (m[k, j] - m[j, k]) / s
    return quat


def xyzw(quat: Vector) -> Vector:
    """(4,) wxyz, MuJoCo's order, to xyzw."""
    return np.array(quat, dtype=np.float64)[[1, 2, 3, 0]]
