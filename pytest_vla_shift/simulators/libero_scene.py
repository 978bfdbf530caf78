"""The prepared LIBERO world as far as a shift may reach into it; every write has a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.shifts.protocol import Receipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.simulators.libero_world import World

    Matrix = NDArray[np.float64]

HEADLIGHT = "headlight"

# Attributes of robosuite's OSC controller in the world's frame. Points are carried by the whole
# rigid motion of the base; orientations, velocities and Jacobians, (3,) or (3, n), are turned.
_GOAL = ("goal_pos", "goal_ori")
_POINTS = ("goal_pos", "ee_pos", "initial_ee_pos")
_TURNED = (
    *("goal_ori", "ee_ori_mat", "initial_ee_ori_mat"),
    *("ee_pos_vel", "ee_ori_vel", "J_pos", "J_ori"),
)
_COMPONENTS = ("ambient", "diffuse", "specular")


class LiberoScene:
    """A :class:`~pytest_vla_shift.shifts.protocol.Scene` over one prepared world.

    Attributes:
        receipts: what was written so far, in order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._model = world.model
        self.receipts: list[Receipt] = []

    @property
    def third_person_cameras(self) -> tuple[str, ...]:
        """LIBERO's policies are given one external camera."""
        return ("agentview",)

    @property
    def lights(self) -> tuple[str, ...]:
        """The model's named lights, and the headlight."""
        return (*self._world.env.sim.model.light_names, HEADLIGHT)

    def camera_quat(self, camera: str) -> Vector:
        """(4,) wxyz in the frame of the camera's parent body (the world, for ``agentview``)."""
        return np.array(self._model.cam_quat[self._camera(camera)])

    def set_camera_quat(self, camera: str, quat: Vector) -> None:
        """Turn a camera in place. Physics and everything else stay bit-identical.

        Raises:
            ValueError: no such camera, or ``quat`` is not a unit quaternion.
        """
        self._write(
            f"model.cam_quat[{camera}]",
            self._model.cam_quat[self._camera(camera)],
            _unit_quat(quat),
        )
        # Camera poses only: a forward call would also move the solver's warm start.
        mujoco.mj_camlight(self._model, self._world.data)

    def light_color(self, light: str, component: str) -> Vector:
        """(3,) RGB of ``ambient``, ``diffuse`` or ``specular``."""
        return np.array(self._light(light, component), dtype=np.float64)

    def set_light_color(self, light: str, component: str, rgb: Vector) -> None:
        """Recolour one component of one light; MuJoCo keeps it in single precision.

        Raises:
            ValueError: no such light or component, or a colour that is negative or not finite.
        """
        color = np.asarray(rgb, dtype=np.float64)
        if color.shape != (3,) or not np.isfinite(color).all() or (color < 0).any():
            raise ValueError(f"{light} {component}: {rgb!r} is not three finite colours >= 0")
        name = f"model.light_{component}[{light}]"
        if light == HEADLIGHT:
            name = f"model.vis.headlight.{component}"
        self._write(name, self._light(light, component), color)

    def robot_base_pose(self) -> tuple[Vector, Vector]:
        """(3,) metres in the world frame, (4,) wxyz: the base is a child of the world."""
        body = self._base()
        return np.array(self._model.body_pos[body]), np.array(self._model.body_quat[body])

    def set_robot_base_pose(self, position: Vector, quat: Vector) -> None:
        """Move the robot, its mount and its wrist camera as one; joints keep their angles.

        The arm's controller thinks in the world's frame: its goal, and the pose that it last
        measured, are carried along as if they were fixed to the base. Setting the goal to the
        hand's present pose instead (``reset_goal``) would take away the pull towards the goal of
        the reset that the clean arm has: after settling, the hands of the two arms would differ by
        up to 8 mm and 3.6 degrees for a shift of a nanometre.

        Raises:
            ValueError: ``position`` is not three finite numbers, or ``quat`` not a unit quaternion.
        """
        place = np.asarray(position, dtype=np.float64)
        if place.shape != (3,) or not np.isfinite(place).all():
            raise ValueError(f"robot base: {position!r} is not a finite position")
        turn = _unit_quat(quat)
        body = self._base()
        old_place, old_turn = self.robot_base_pose()
        self._write("robot.base_pos", self._model.body_pos[body], place)
        self._write("robot.base_quat", self._model.body_quat[body], turn)
        env = self._world.env
        env.sim.forward()
        # As robosuite's Robot.reset does; base_pos is a view into data.xpos and needs no update.
        env.robots[0].base_ori = _xyzw(self._world.data.xquat[body])
        rotation = _matrix(turn) @ _matrix(old_turn).T
        self._carry_controller(rotation, place - rotation @ old_place)

    def _carry_controller(self, rotation: Matrix, translation: Vector) -> None:
        """Everything in the controller that is expressed in the world's frame, by a rigid motion.

        The goal has receipts; the rest is what was measured of the arm, derived from its pose.
        Joint angles and the mass matrix do not see where the base stands.
        """
        controller = self._world.env.robots[0].controller
        goals = {name: _numbers(getattr(controller, name)) for name in _GOAL}
        # New arrays throughout: robosuite lets several attributes share one.
        for name in _POINTS:
            setattr(controller, name, rotation @ getattr(controller, name) + translation)
        for name in _TURNED:
            setattr(controller, name, rotation @ getattr(controller, name))
        controller.J_full = np.vstack([controller.J_pos, controller.J_ori])
        for name, before in goals.items():
            after = _numbers(getattr(controller, name))
            self.receipts.append(Receipt(f"controller.{name}", before, after))

    def _write(self, field: str, target: NDArray[np.floating], value: Vector) -> None:
        before = _numbers(target)
        target[...] = value
        self.receipts.append(Receipt(field, before, _numbers(target)))

    def _camera(self, camera: str) -> int:
        names = self._world.env.sim.model.camera_names
        if camera not in names:
            raise ValueError(f"no camera {camera!r}; the scene has {', '.join(names)}")
        return int(names.index(camera))

    def _light(self, light: str, component: str) -> NDArray[np.float32]:
        """A view of three numbers in the model."""
        if component not in _COMPONENTS:
            raise ValueError(f"no light component {component!r}; known: {', '.join(_COMPONENTS)}")
        found: NDArray[np.float32]
        if light == HEADLIGHT:
            found = getattr(self._model.vis.headlight, component)
            return found
        names = self._world.env.sim.model.light_names
        if light not in names:
            raise ValueError(f"no light {light!r}; the scene has {', '.join(self.lights)}")
        found = getattr(self._model, f"light_{component}")[names.index(light)]
        return found

    def _base(self) -> int:
        sim_model = self._world.env.sim.model
        return int(sim_model.body_name2id(self._world.env.robots[0].robot_model.root_body))


def _unit_quat(quat: Vector) -> Vector:
    value = np.asarray(quat, dtype=np.float64)
    if value.shape != (4,) or not abs(np.linalg.norm(value) - 1.0) < 1e-6:
        raise ValueError(f"{quat!r} is not a unit quaternion (wxyz)")
    return value


def _matrix(quat: Vector) -> Matrix:
    """(3, 3) of a unit quaternion, wxyz."""
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def _xyzw(quat: Vector) -> Vector:
    return np.array(quat)[[1, 2, 3, 0]]


def _numbers(value: NDArray[np.floating]) -> list[float]:
    """Flat and JSON-able."""
    return [float(number) for number in np.ravel(value)]
