"""All that a control step leaves behind, to compare two ways of taking it.

``benchmarks/libero_control.py`` compares with it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.simulators.libero_state import state_fields
from pytest_vla_shift.simulators.libero_step import StepOutcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_world import World

CONTACT = ("dist", "pos", "frame", "friction", "geom", "efc_address", "H", "mu", "solref", "solimp")
RECENT = ("qpos", "actions", "torques", "ee_forcetorques", "ee_pose", "ee_vel", "ee_acc")

# Room in MuJoCo's arena that is not all written, so that what was there before shows through:
# robosuite's own step does not leave the same there twice. It is for what LIBERO's solver does not
# do: dual solvers, solving island by island, and Jacobians that are sparse.
UNWRITTEN = ("efc_AR", "iM", "iLD", "iefc_J")
SPARSE = ("efc_J_rownnz", "efc_J_rowadr", "efc_J_rowsuper", "efc_J_colind")


def robosuites_step(world: World, action: NDArray[np.float64]) -> StepOutcome:
    """The step that LIBERO's environment has of its own."""
    _, reward, done, _ = world.env.step(action)
    return StepOutcome(float(reward), bool(done))


def everything(world: World) -> dict[str, bytes]:
    """Name -> bytes of all that MuJoCo, the controller, the robot and the environment hold."""
    return {
        name: f"{value.shape}".encode() + value.tobytes()
        for name, value in ((name, np.asarray(value)) for name, value in _fields(world))
    }


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Names of what is not the same to the last bit."""
    return sorted(name for name in one | other if one.get(name) != other.get(name))


def _fields(world: World) -> Iterator[tuple[str, object]]:
    model, data, env = world.model, world.data, world.env
    yield from state_fields(model, data)
    unwritten = UNWRITTEN if mujoco.mj_isSparse(model) else UNWRITTEN + SPARSE
    for name in dir(data):
        if name.startswith(("_", *unwritten)):
            continue
        value = getattr(data, name)
        if isinstance(value, np.ndarray | int | float):
            yield f"data.{name}", value
    for name in CONTACT:
        yield f"contact.{name}", getattr(data.contact, name)
    yield "model.site_rgba", model.site_rgba  # a stove's flame
    robot = env.robots[0]
    for name, value in vars(robot.controller).items():
        if isinstance(value, np.ndarray):
            yield f"controller.{name} order", value.flags.f_contiguous
        if isinstance(value, np.ndarray | bool | int | float):
            yield f"controller.{name}", value
    yield "gripper.current_action", robot.gripper.current_action
    yield "robot.torques", robot.torques
    for name in RECENT:
        buffer = getattr(robot, f"recent_{name}")
        yield f"recent.{name}.last", buffer.last
        yield f"recent.{name}.current", buffer.current
    yield "recent.ee_vel_buffer", robot.recent_ee_vel_buffer.buf
    yield "recent.ee_vel_buffer.ptr", robot.recent_ee_vel_buffer.ptr
    yield "env.timestep", env.timestep
    yield "env.cur_time", env.cur_time
    yield "env.done", env.done
