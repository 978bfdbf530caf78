"""A control step of LIBERO's environment without what nobody looks at, bit for bit the same.

robosuite's ``env.step`` computes MuJoCo's forward dynamics three times in each of its 25 substeps
(before the controller, within it, and in ``mj_step``), four Jacobians where there are two, looks
up names, and polls observables. Here each substep is one pass: ``mj_step1`` computes what depends
on positions and velocities, the controller reads it and writes its torques, ``mj_step2`` goes on
from there (https://mujoco.readthedocs.io/en/stable/programming/simulation.html, "mj_step1 and
mj_step2"). ``mj_forward`` moves nothing that a later pass reads, so that leaving it out changes
no number. The same arithmetic is done on the same values in the same order: matrices keep the
memory layouts that robosuite gives them, since BLAS and numba choose their routines by those.

A control step's first substep is robosuite's own, from the goal to the buffers of recent values;
so are LIBERO's reward, ``done``, stoves and success check at its end.

What is left out must be known in order to be left out: :mod:`.libero_step_check` refuses an
environment, a robot or a robosuite whose code is not the code that this was written for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.simulators.libero_step_check import (
    check_controller,
    check_environment,
    unknown,
)

if TYPE_CHECKING:
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain
    from numpy.typing import NDArray
    from robosuite.controllers.osc import OperationalSpaceController

    Array = NDArray[np.float64]


class StepOutcome(NamedTuple):
    """What LIBERO tells of a control step.

    Attributes:
        reward: LIBERO's, 1.0 on success.
        success: its check of the state after the step.
    """

    reward: float
    success: bool


class ControlStep:
    """Executes control steps of one environment, kept with it.

    The controller is looked at again whenever a reset has made another; model arrays that shifts
    write into (torque limits, the gripper's range) are read at each step.
    """

    def __init__(self, env: BDDLBaseDomain) -> None:
        """Look at the environment.

        Raises:
            SimulatorError: it is not one whose step is known here; says what is different.
        """
        check_environment(env)
        self._env = env
        self._model: mujoco.MjModel = env.sim.model._model
        self._data: mujoco.MjData = env.sim.data._data
        self._substeps = int(env.control_timestep / env.model_timestep)
        self._robot = env.robots[0]
        self._gripper = self._robot.gripper
        self._controller: OperationalSpaceController | None = None
        columns = _range(self._robot._ref_joint_vel_indexes, "velocities")
        self._arm_ctrl = _range(self._robot._ref_joint_actuator_indexes, "actuators")
        names = self._gripper.actuators
        self._grip_ctrl = _range([env.sim.model.actuator_name2id(n) for n in names], "actuators")
        self._measured = _Measured(
            self._model,
            self._data,
            site=int(self._robot.eef_site_id),
            positions=_range(self._robot._ref_joint_pos_indexes, "positions"),
            velocities=columns,
        )
        self._bias = self._data.qfrc_bias[columns]
        self._arm_range = self._model.actuator_ctrlrange[self._arm_ctrl]
        self._grip_range = self._model.actuator_ctrlrange[self._grip_ctrl]
        self._ctrl = self._data.ctrl

    def __call__(self, action: Array) -> StepOutcome:
        """Execute one action.

        Args:
            action: (7,) float64, finite; clipping is robosuite's.

        Raises:
            SimulatorError: the episode ended at the environment's own horizon, or its controller
                is not the one that is known here.
        """
        env, controller = self._env, self._robot.controller
        if env.done:
            raise SimulatorError("an action after the end of the environment's own horizon")
        if controller is not self._controller:  # a reset makes another one
            check_controller(controller)
            if env.sim.data._data is not self._data:
                raise unknown("its simulation was replaced")
            self._controller = controller
        env.timestep += 1
        self._first(action, controller)
        self._others(action, controller)
        env.cur_time += env.control_timestep
        reward, _, _ = env._post_action(action)
        return StepOutcome(float(reward), bool(env._check_success()))

    def _first(self, action: Array, controller: OperationalSpaceController) -> None:
        """The first substep: robosuite's own control, which takes the goal from the action.

        The buffers of recent values hold the forces of the state before it, which need the
        whole of the forward dynamics.
        """
        model, data = self._model, self._data
        mujoco.mj_forward(model, data)
        # After a reset, or a controller that was posed, robosuite keeps what was measured then.
        if controller.new_update:
            self._measured()
            self._measured.hand_over(controller)
        self._robot.control(action, policy_step=True)
        mujoco.mj_step(model, data)

    def _others(self, action: Array, controller: OperationalSpaceController) -> None:
        """The other substeps: the goal stays, and with it all that is computed here once."""
        from robosuite.utils.control_utils import (
            nullspace_torques,
            opspace_matrices,
            orientation_error,
        )

        model, data, measured = self._model, self._data, self._measured
        goal_pos, goal_ori = np.array(controller.goal_pos), np.array(controller.goal_ori)
        kp, kd, initial = controller.kp, controller.kd, controller.initial_joint
        low, high = self._arm_range[:, 0], self._arm_range[:, 1]
        arm, grip = self._ctrl[self._arm_ctrl], self._ctrl[self._grip_ctrl]
        middle = 0.5 * (self._grip_range[:, 1] + self._grip_range[:, 0])
        reach = 0.5 * (self._grip_range[:, 1] - self._grip_range[:, 0])
        stride = np.array([-1.0, 1.0]) * self._gripper.speed * np.sign(action[-1:])
        fingers = self._gripper.current_action
        error, wrench = np.empty(6), np.empty(6)
        force, torque = wrench[:3], wrench[3:]
        jac_transposed = measured.jac.T
        torques = limited = np.empty(0)
        for _ in range(1, self._substeps):
            mujoco.mj_step1(model, data)
            measured()
            np.subtract(goal_pos, measured.ee_pos, out=error[:3])
            error[3:] = orientation_error(goal_ori, measured.ee_ori)
            desired = error * kp + -measured.ee_vel * kd
            _, for_pos, for_ori, null = opspace_matrices(
                measured.mass, measured.jac, measured.jac_pos, measured.jac_ori
            )
            for_pos.dot(desired[:3], force)
            for_ori.dot(desired[3:], torque)
            torques = jac_transposed.dot(wrench) + self._bias
            torques += nullspace_torques(
                measured.mass, null, initial, measured.joint_pos, measured.joint_vel
            )
            limited = np.minimum(np.maximum(torques, low), high)
            fingers = np.minimum(np.maximum(fingers + stride, -1.0), 1.0)
            grip[:] = middle + reach * fingers
            arm[:] = limited
            mujoco.mj_step2(model, data)
        measured.hand_over(controller)
        controller.new_update = True
        controller.torques = torques
        self._robot.torques = limited
        self._gripper.current_action = fingers


class _Measured:
    """What the controller reads of the arm, in arrays that each substep writes again.

    Attributes:
        ee_pos: (3,) metres, the grip site in the world frame.
        ee_ori: (3, 3) its axes.
        ee_vel: (6,) m/s and rad/s.
        joint_pos, joint_vel: (7,) rad and rad/s.
        jac_pos, jac_ori: (3, 7), and jac: (6, 7), Jacobians of the site; Fortran order, as
            robosuite's indexing leaves them.
        mass: (7, 7), likewise.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        *,
        site: int,
        positions: slice,
        velocities: slice,
    ) -> None:
        self._model, self._data, self._site = model, data, site
        self.ee_pos: Array = data.site_xpos[site]
        self.ee_ori: Array = data.site_xmat[site].reshape(3, 3)
        self._qpos: Array = data.qpos[positions]
        self._arm_qvel: Array = data.qvel[velocities]
        self._qvel, self._packed = data.qvel, data.qM
        joints = velocities.stop - velocities.start
        self.joint_pos, self.joint_vel = np.zeros(joints), np.zeros(joints)
        self.ee_vel = np.zeros(6)
        self._lin, self._ang = self.ee_vel[:3], self.ee_vel[3:]
        self.jac_pos = np.zeros((3, joints), order="F")
        self.jac_ori = np.zeros((3, joints), order="F")
        self.jac = np.zeros((6, joints), order="F")
        self.mass = np.zeros((joints, joints), order="F")
        self._jac_pos = np.zeros((3, model.nv))
        self._jac_ori = np.zeros((3, model.nv))
        self._mass = np.zeros((model.nv, model.nv))
        self._arm_pos = self._jac_pos[:, velocities]
        self._arm_ori = self._jac_ori[:, velocities]
        self._arm_mass = self._mass[velocities, velocities]

    def __call__(self) -> None:
        """Measure the present state, whose positions and velocities MuJoCo has worked through."""
        mujoco.mj_jacSite(self._model, self._data, self._jac_pos, self._jac_ori, self._site)
        # Over all velocities, though the others' columns are zero: BLAS adds up by the length.
        self._jac_pos.dot(self._qvel, self._lin)
        self._jac_ori.dot(self._qvel, self._ang)
        self.joint_pos[:] = self._qpos
        self.joint_vel[:] = self._arm_qvel
        self.jac_pos[:] = self._arm_pos
        self.jac_ori[:] = self._arm_ori
        self.jac[:3] = self._arm_pos
        self.jac[3:] = self._arm_ori
        mujoco.mj_fullM(self._model, self._mass, self._packed)
        self.mass[:] = self._arm_mass

    def hand_over(self, controller: OperationalSpaceController) -> None:
        """Leave copies in the controller, as its own update would have."""
        controller.ee_pos = np.array(self.ee_pos)
        controller.ee_ori_mat = np.array(self.ee_ori)
        controller.ee_pos_vel = np.array(self.ee_vel[:3])
        controller.ee_ori_vel = np.array(self.ee_vel[3:])
        controller.joint_pos = np.array(self.joint_pos)
        controller.joint_vel = np.array(self.joint_vel)
        controller.J_pos = np.array(self.jac_pos)
        controller.J_ori = np.array(self.jac_ori)
        controller.J_full = np.array(self.jac)
        controller.mass_matrix = np.array(self.mass)
        controller.new_update = False


def _range(indices: Sequence[int], what: str) -> slice:
    """Neighbouring indices as a slice, which costs no look-up.

    Raises:
        SimulatorError: they are not neighbours.
    """
    first, count = int(indices[0]), len(indices)
    if [int(index) for index in indices] != list(range(first, first + count)):
        raise unknown(f"the robot's {what} do not follow one another")
    return slice(first, first + count)
