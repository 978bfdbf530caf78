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
    """robosuite's ``robot0_*`` observables under our names, float64."""
    robot, data = env.robots[0], env.sim.data
    return {
        "eef_pos": np.array(data.site_xpos[robot.eef_site_id]),
        "eef_quat": xyzw(data.get_body_xquat(robot.robot_model.eef_name)),
        "gripper_qpos": np.array(data.qpos[robot._ref_gripper_joint_pos_indexes]),
        "joint_pos": np.array(data.qpos[robot._ref_joint_pos_indexes]),
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


def xyzw(quat: Vector) -> Vector:
    """(4,) wxyz, MuJoCo's order, to xyzw."""
    return np.array(quat, dtype=np.float64)[[1, 2, 3, 0]]
