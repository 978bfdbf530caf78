"""A whole simulator in a few hundred lines of numpy: a hand on a plane picks up a target.

Suite ``toy``, tasks ``reach_left`` and ``reach_right``, 20 episodes each, and every fault of
:mod:`tests.fakes.toy_faults` as ``reach_left_<fault>``. Name it in a suite or in
:class:`SimulatorSettings` as ``tests.fakes.toy_simulator:factory``. It does nothing that depends
on wall-clock time, global random state or what ran before, unless a fault asks for it.

The world: the hand starts at the robot's base and reaches no further than :data:`REACH` from
it, so a base moved away from the target makes the task impossible. Actions are 7 wide like
LIBERO's: x, y, z motion of :data:`STRIDE` metres a unit, three ignored, gripper (-1 open, +1
closed). A closed gripper near the target holds it; the goal is to hold it :data:`LIFT` high.
A target falls :data:`DROP` metres when the episode begins, so settling takes four steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import SimulatorError, UsageError
from pytest_vla_shift.protocol.observation import Episode, Goal, Observation, PrivilegedState
from pytest_vla_shift.protocol.stages import Milestone, StageSpec
from pytest_vla_shift.shifts.apply import ImagePipeline, apply_interventions
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)
from tests.fakes import toy_faults
from tests.fakes.toy_scene import CAMERAS, Model, ToyScene, render

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector

NAME = "tests.fakes.toy_simulator:factory"
SUITE = "toy"
TASKS = ("reach_left", "reach_right")
EPISODES = 20
HORIZON = 60
"""The expert needs about 40 steps."""

SETTLE_STEPS = 10
STRIDE = 0.01
REACH = 0.36
NEAR, TOUCH, LIFT, DROP = 0.06, 0.02, 0.05, 0.07
CONTROL_HZ = 20.0
PREDICATES = ("reached target_1", "grasped target_1", "up target_1")
STAGES = StageSpec(((tuple(Milestone(name, name) for name in PREDICATES),),))

INFO = SimulatorInfo(
    name=NAME,
    versions={"toy": "1"},
    recipe=1,
    renderer="none",
    action_dim=7,
    action_low=-1.0,
    action_high=1.0,
    settle_action=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0),
    control_hz=CONTROL_HZ,
    cameras=CAMERAS,
    position=(0, 3),
    rotation=(3, 6),
    proprio=("eef_pos", "eef_quat", "gripper_qpos", "joint_pos"),
)


class Toy:
    """The simulator. Wrong worlds on request: the fault

    - ``jitter`` moves the target by 3 mm more at every prepare (not a pair);
    - ``drift`` draws the fixture's place from global random state, which nothing seeds;
    - ``unsettled`` never lets the target come to rest;
    - ``early`` begins with the hand near the target, ``solved`` with the goal reached;
    - ``nan`` gives a proprioception that is not a number.
    """

    def __init__(self, settings: SimulatorSettings) -> None:
        unknown = set(settings.cameras) - set(CAMERAS)
        if unknown:
            raise UsageError(f"the toy has no camera {sorted(unknown)}; it has {list(CAMERAS)}")
        self._settings = settings
        self._prepares = 0
        self._model: Model | None = None
        self._pipeline = ImagePipeline()
        self.renders = 0

    @property
    def info(self) -> SimulatorInfo:
        return INFO

    def prepare(self, episode: Episode) -> Prepared:
        if episode.task_suite != SUITE:
            raise UsageError(f"the toy has only the suite {SUITE!r}, not {episode.task_suite!r}")
        if not 0 <= episode.index < EPISODES:
            raise UsageError(f"the toy has episodes 0 to {EPISODES - 1}, not {episode.index}")
        task, by_name = toy_faults.split_task(episode.task, TASKS)
        self._fault = toy_faults.fault_of(episode, by_name)
        toy_faults.in_prepare(self._fault)
        self._prepares += 1
        self._task = task
        self._clock = 0
        self._steps = 0
        self._shifted = False
        self._pipeline = ImagePipeline()
        self._model = model = self._fresh_model(task, episode.index)
        self._hand = np.zeros(3)
        self._closed = False
        self._held = False
        self._speed = 0.0
        if self._fault == "early":
            model.target_pos[:2] = 0.5 * NEAR
        if self._fault == "solved":
            model.target_pos[:] = self._hand[:] = (0.0, 0.0, LIFT + 0.02)
            self._closed = self._held = True
        if self._fault == "jitter":
            model.target_pos[0] += 0.003 * self._prepares
        if self._fault == "drift":
            model.fixture_pos[0] = np.random.uniform(-0.2, 0.2)
        state = {"state.hand": self._hand, "state.held": np.array([self._held, self._closed])}
        return Prepared(
            fingerprint={
                name: hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
                for name, array in {**state, **model.arrays()}.items()
            },
            instruction=f"pick up the target on the {task.removeprefix('reach_')}",
            goal=Goal((("up", "target_1"),)),
            predicates=PREDICATES,
            stages=STAGES,
        )

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        model = self._prepared()
        if self._shifted or self._clock:
            raise SimulatorError("apply is called once, after prepare and before any step")
        self._shifted = True
        scene = ToyScene(model, self._hand)
        self._pipeline = apply_interventions(scene, interventions)
        return [*scene.receipts, *self._pipeline.receipts()]

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        model = self._prepared()
        unknown = set(cameras) - set(self._settings.cameras)
        if unknown:
            raise SimulatorError(f"cameras {sorted(unknown)} are not among the settings'")
        images = {}
        for camera in cameras:
            image = render(model, self._hand, camera, self._settings.height, self._settings.width)
            images[camera] = self._pipeline(image, camera, self._steps)
            self.renders += 1
        state = None
        if privileged:
            state = PrivilegedState(
                positions={
                    "target_1": model.target_pos.copy(),
                    "robot0_grip_site": self._hand.copy(),
                    "robot0_base": model.base_pos.copy(),
                },
                quaternions={"robot0_base": np.roll(model.base_quat, -1)},
                joints={"gripper": float(self._closed)},
            )
        eef = self._hand.copy()
        if self._fault == "nan":
            eef[0] = np.nan
        gap = 0.0 if self._closed else 0.04
        return Observation(
            images=images,
            proprio={
                "eef_pos": eef,
                "eef_quat": np.roll(model.hand_quat, -1),
                "gripper_qpos": np.array([gap, -gap]),
                "joint_pos": np.zeros(7),
            },
            instruction=f"pick up the target on the {self._task.removeprefix('reach_')}",
            step=self._steps,
            privileged=state,
        )

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        self._prepared()
        if actions.ndim != 2 or actions.shape[0] < 1 or actions.shape[1] != INFO.action_dim:
            raise SimulatorError(f"actions of shape {actions.shape}, not (T, {INFO.action_dim})")
        if not np.isfinite(actions).all():
            raise SimulatorError("actions are not all finite")
        rows: list[list[bool]] = []
        for action in actions:
            self._control_step(np.clip(action, -1.0, 1.0))
            rows.append(list(self.predicates().values()))
            if stop_on_success and self.success():
                break
        self._steps += len(rows) if stop_on_success else 0
        return StepResult(len(rows), self.success(), np.array(rows, dtype=np.bool_), self._speed)

    def success(self) -> bool:
        return self.predicates()["up target_1"]

    def predicates(self) -> Mapping[str, bool]:
        model = self._prepared()
        near = float(np.linalg.norm((self._hand - model.target_pos)[:2])) < NEAR
        up = self._held and float(model.target_pos[2]) >= LIFT
        return dict(zip(PREDICATES, (near, self._held, up), strict=True))

    def close(self) -> None:
        self._model = None

    def _prepared(self) -> Model:
        if self._model is None:
            raise SimulatorError("no episode is prepared, or the simulator is closed")
        return self._model

    def _fresh_model(self, task: str, index: int) -> Model:
        side = -1.0 if task == "reach_left" else 1.0
        along, across = np.random.default_rng([TASKS.index(task), index]).uniform(-1, 1, 2)
        target = np.array([side * (0.28 + 0.03 * along), 0.08 * across, DROP])
        fixture = np.random.default_rng(self._settings.env_seed).uniform(-0.2, 0.2, 3)
        return Model(target_pos=target, fixture_pos=fixture)

    def _control_step(self, action: Vector) -> None:
        model = self._prepared()
        self._clock += 1
        toy_faults.in_step(self._fault, self._clock)
        self._hand[:] += STRIDE * action[:3]
        self._hand[2] = np.clip(self._hand[2], 0.0, 0.3)
        out = (self._hand - model.base_pos)[:2]
        distance = float(np.linalg.norm(out))
        if distance > REACH:
            self._hand[:2] = model.base_pos[:2] + out * (REACH / distance)
        before = model.target_pos.copy()
        self._closed = bool(action[6] > 0)
        touching = float(np.linalg.norm(self._hand - before)) < TOUCH
        self._held = self._closed and (self._held or touching)
        if self._held:
            model.target_pos[:] = self._hand
        elif self._fault == "unsettled":
            model.target_pos[2] += STRIDE
        else:
            model.target_pos[2] = max(0.0, model.target_pos[2] - 0.02)
        self._speed = float(np.linalg.norm(model.target_pos - before)) * CONTROL_HZ


class ToyFactory:
    """What ``tests.fakes.toy_simulator:factory`` names."""

    def __call__(self, settings: SimulatorSettings) -> Toy:
        return Toy(settings)

    def describe(self) -> SimulatorInfo:
        return INFO


factory = ToyFactory()
