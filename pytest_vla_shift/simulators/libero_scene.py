"""The prepared LIBERO world as far as a shift may reach into it; every write has a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.shifts.protocol import Receipt
from pytest_vla_shift.simulators import libero_arm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from robosuite.controllers.base_controller import Controller

    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.simulators.libero_world import World

    Matrix = NDArray[np.float64]

HEADLIGHT = "headlight"

_COMPONENTS = ("ambient", "diffuse", "specular")
_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


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

    def camera_pose(self, camera: str) -> tuple[Vector, Vector]:
        """(3,) metres and (4,) wxyz of a camera, in the world frame.

        Raises:
            ValueError: no such camera.
            SimulatorError: the camera tracks a body, so that its own numbers are not its pose.
        """
        index = self._fixed_camera(camera)
        origin, frame = self._frame(self._model.cam_bodyid[index])
        place: Vector = origin + _matrix(frame) @ self._model.cam_pos[index]
        return place, _product(frame, self._model.cam_quat[index])

    def set_camera_pose(self, camera: str, position: Vector, quat: Vector) -> None:
        """Move and turn a camera. Physics and everything else stay bit-identical.

        Raises:
            ValueError: no such camera, ``position`` is not three finite numbers, or ``quat`` is
                not a unit quaternion.
            SimulatorError: the camera tracks a body.
        """
        index = self._fixed_camera(camera)
        place, turn = _position(camera, position), _unit_quat(quat)
        origin, frame = self._frame(self._model.cam_bodyid[index])
        self._write(
            f"model.cam_pos[{camera}]",
            self._model.cam_pos[index],
            _matrix(frame).T @ (place - origin),
        )
        self._write(
            f"model.cam_quat[{camera}]",
            self._model.cam_quat[index],
            _product(frame * _CONJUGATE, turn),
        )
        mujoco.mj_camlight(self._model, self._world.data)

    @property
    def placed_lights(self) -> tuple[str, ...]:
        """The model's named lights."""
        return tuple(self._world.env.sim.model.light_names)

    def light_pose(self, light: str) -> tuple[Vector, Vector]:
        """(3,) metres and (3,) unit direction of a light's rays, in the world frame.

        Raises:
            ValueError: no such light, or the headlight, which stands where the camera does.
            SimulatorError: the light tracks a body.
        """
        index = self._fixed_light(light)
        origin, frame = self._frame(self._model.light_bodyid[index])
        turn = _matrix(frame)
        place: Vector = origin + turn @ self._model.light_pos[index]
        return place, turn @ self._model.light_dir[index]

    def set_light_pose(self, light: str, position: Vector, direction: Vector) -> None:
        """Move and turn a light. Physics and everything else stay bit-identical.

        Raises:
            ValueError: no such light, ``position`` is not three finite numbers, or ``direction``
                is not a unit vector.
            SimulatorError: the light tracks a body.
        """
        index = self._fixed_light(light)
        place, rays = _position(light, position), np.asarray(direction, dtype=np.float64)
        if rays.shape != (3,) or not abs(np.linalg.norm(rays) - 1.0) < 1e-6:
            raise ValueError(f"{light}: {direction!r} is not a unit vector")
        origin, frame = self._frame(self._model.light_bodyid[index])
        back = _matrix(frame).T
        self._write(
            f"model.light_pos[{light}]", self._model.light_pos[index], back @ (place - origin)
        )
        self._write(f"model.light_dir[{light}]", self._model.light_dir[index], back @ rays)
        mujoco.mj_camlight(self._model, self._world.data)

    @property
    def work_surface(self) -> float:
        """World height in metres of the table, floor or desk on which the objects stand."""
        return float(self._world.env.workspace_offset[2])

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
        place, turn = _position("robot base", position), _unit_quat(quat)
        body = self._base()
        old_place, old_turn = self.robot_base_pose()
        self._write("robot.base_pos", self._model.body_pos[body], place)
        self._write("robot.base_quat", self._model.body_quat[body], turn)
        env = self._world.env
        env.sim.forward()
        # As robosuite's Robot.reset does; base_pos is a view into data.xpos and needs no update.
        env.robots[0].base_ori = _xyzw(self._world.data.xquat[body])
        rotation = _matrix(turn) @ _matrix(old_turn).T
        self._carry(libero_arm.carry_base, rotation, place - rotation @ old_place)

    def eef_pose(self) -> tuple[Vector, Vector]:
        """(3,) metres and (4,) wxyz of the grip site, in the world frame."""
        return libero_arm.site_pose(self._world.data, int(self._world.env.robots[0].eef_site_id))

    def set_eef_pose(self, position: Vector, quat: Vector) -> None:
        """Bring the grip site to a pose by the arm's seven joints, at once and at rest.

        No simulated time passes; velocities, fingers and everything else in the scene stay. The
        controller's goal is carried along as if it were fixed to the hand, for the reason that
        :meth:`set_robot_base_pose` gives. Its posture (``initial_joint``, towards which it moves
        the elbow where that does not move the hand) stays: it is a setting of the controller, and
        belongs to no pose of the hand.

        Raises:
            UnreachablePose: no joint angles within the limits give the pose.
            ValueError: ``position`` is not three finite numbers, or ``quat`` not a unit quaternion.
        """
        place, turn = _position("hand", position), _unit_quat(quat)
        before, before_turn = self.eef_pose()
        joints = libero_arm.joints_for(self._world, place, turn)
        data, env = self._world.data, self._world.env
        angles = np.asarray(env.robots[0]._ref_joint_pos_indexes)
        # One field, one receipt: the indices make a copy, so it is written back as a whole.
        written = data.qpos[angles]
        self._write("robot.joint_pos", written, joints)
        data.qpos[angles] = written
        env.sim.forward()
        after, after_turn = self.eef_pose()
        self.receipts.append(Receipt("robot.eef_pos", _numbers(before), _numbers(after)))
        self.receipts.append(Receipt("robot.eef_quat", _numbers(before_turn), _numbers(after_turn)))
        rotation = _matrix(after_turn) @ _matrix(before_turn).T
        self._carry(libero_arm.carry, rotation, after - rotation @ before)

    def _carry(
        self,
        carry: Callable[[Controller, Matrix, Vector], None],
        rotation: Matrix,
        translation: Vector,
    ) -> None:
        """Carry the controller. Its goal has receipts; the rest is derived from the arm's pose."""
        controller = self._world.env.robots[0].controller
        goals = {name: _numbers(getattr(controller, name)) for name in libero_arm.GOAL}
        carry(controller, rotation, translation)
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

    def _fixed_camera(self, camera: str) -> int:
        index = self._camera(camera)
        if self._model.cam_mode[index] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED:
            raise SimulatorError(f"camera {camera!r} tracks a body: its pose is not its own")
        return index

    def _fixed_light(self, light: str) -> int:
        if light not in self.placed_lights:
            known = ", ".join(self.placed_lights)
            raise ValueError(f"no placed light {light!r}; the scene has {known}")
        index = self.placed_lights.index(light)
        if self._model.light_mode[index] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED:
            raise SimulatorError(f"light {light!r} tracks a body: its pose is not its own")
        return index

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

    def _frame(self, body: int) -> tuple[Vector, Vector]:
        """(3,) metres and (4,) wxyz of a body, in the world frame; views."""
        return self._world.data.xpos[body], self._world.data.xquat[body]

    def _base(self) -> int:
        sim_model = self._world.env.sim.model
        return int(sim_model.body_name2id(self._world.env.robots[0].robot_model.root_body))


def _position(what: str, position: Vector) -> Vector:
    place = np.asarray(position, dtype=np.float64)
    if place.shape != (3,) or not np.isfinite(place).all():
        raise ValueError(f"{what}: {position!r} is not a finite position")
    return place


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


def _product(first: Vector, second: Vector) -> Vector:
    """(4,) wxyz: not normalised, so that a product with no rotation changes no bit."""
    product = np.empty(4)
    mujoco.mju_mulQuat(product, first, second)
    return product


def _xyzw(quat: Vector) -> Vector:
    return np.array(quat)[[1, 2, 3, 0]]


def _numbers(value: NDArray[np.floating]) -> list[float]:
    """Flat and JSON-able."""
    return [float(number) for number in np.ravel(value)]
