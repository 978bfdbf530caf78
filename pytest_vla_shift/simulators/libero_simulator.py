"""LIBERO as a :class:`~pytest_vla_shift.simulators.protocol.Simulator`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import InfrastructureError, SimulatorError, UsageError
from pytest_vla_shift.protocol.observation import Episode, Observation
from pytest_vla_shift.shifts.apply import ImagePipeline, apply_interventions
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators import libero_observation, libero_stages, libero_state
from pytest_vla_shift.simulators.libero import CAMERAS
from pytest_vla_shift.simulators.libero_predicates import Predicates
from pytest_vla_shift.simulators.libero_scene import LiberoScene
from pytest_vla_shift.simulators.libero_world import World
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


# MuJoCo answers these by resetting the simulation to its defaults and carrying on.
_FATAL = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
    mujoco.mjtWarning.mjWARN_BADCTRL,
)


class LiberoSimulator:
    """Keeps the world of the present task; another task's replaces it.

    One world, because each costs about 1 GB and a plan is sorted by task: building the next one
    takes 1.5 s of CPU, restoring another episode of the same one under 0.1 s.
    """

    def __init__(self, settings: SimulatorSettings, info: SimulatorInfo) -> None:
        unknown = sorted(set(settings.cameras) - set(CAMERAS))
        if unknown:
            raise UsageError(f"LIBERO has no camera {unknown[0]!r}; it has {', '.join(CAMERAS)}")
        if settings.height < 1 or settings.width < 1:
            raise UsageError(f"pictures of {settings.width} x {settings.height} pixels")
        self._settings = settings
        self._info = info
        self._world: World | None = None
        self._task: tuple[str, str] | None = None
        self._ready = False
        self._device = ""

    @property
    def info(self) -> SimulatorInfo:
        """Versions and action layout."""
        return self._info

    @property
    def device(self) -> str:
        """What draws: GL's name of it, and EGL's number if one was asked for.

        Empty before the first world; every world of a process draws with the same.
        """
        return self._device

    def prepare(self, episode: Episode) -> Prepared:
        """Restore a released initial state by the recipe of :mod:`.libero_world`.

        Raises:
            UsageError: no such task suite, task or initial state.
            MissingAsset: a file of the task is not there.
            SimulatorError: the world cannot be built or restored.
        """
        _check(episode)
        self._ready = False
        world = self._world_of(episode)
        world.restore(episode.index)
        self._predicates.rest()
        self._pipeline = ImagePipeline()
        self._touched = False
        self._steps = 0
        fingerprint = {
            "task.bddl": libero_state.digest(world.bddl),
            "task.instruction": libero_state.digest(self._instruction),
            **libero_state.fingerprint(world.env),
        }
        self._ready = True
        return Prepared(
            fingerprint=fingerprint,
            instruction=self._instruction,
            goal=world.goal,
            predicates=tuple(subgoal.name for subgoal in self._subgoals),
            stages=libero_stages.specification(self._subgoals),
        )

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        """Shift the prepared episode, once, before any step.

        Raises:
            UsageError: a shift cannot be loaded, or its magnitudes do not fit it.
            SimulatorError: called twice, after a step or before ``prepare``; or a shift raised.
        """
        world = self._prepared()
        if self._touched:
            raise SimulatorError("apply is called once, after prepare and before any step")
        self._touched = True
        scene = LiberoScene(world)
        try:
            self._pipeline = apply_interventions(scene, interventions)
        except (UsageError, InfrastructureError):
            self._ready = False
            raise
        except Exception as error:
            self._ready = False
            raise SimulatorError(f"a shift could not be applied: {error}") from error
        return [*scene.receipts, *self._pipeline.receipts()]

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        """The present state; ``cameras`` are rendered upright, then shifted.

        ``step`` counts control steps of policies: those that settle are told by
        ``stop_on_success=False`` and are not counted.
        """
        world = self._prepared()
        unknown = sorted(set(cameras) - set(self._settings.cameras))
        if unknown:
            raise SimulatorError(f"camera {unknown[0]!r} is not among the settings'")
        height, width = self._settings.height, self._settings.width
        return Observation(
            images={
                camera: self._pipeline(world.render(camera, height, width), camera, self._steps)
                for camera in cameras
            },
            proprio=libero_observation.proprio(world.env),
            instruction=self._instruction,
            step=self._steps,
            privileged=libero_observation.privileged(world.env) if privileged else None,
        )

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        """Execute an action chunk without rendering; clipping is robosuite's.

        Raises:
            SimulatorError: not (T, 7) finite numbers with T >= 1, or the physics diverged.
        """
        world = self._prepared()
        chunk = self._chunk(actions)
        self._touched = True
        rows: list[NDArray[np.bool_]] = []
        success = False
        for action in chunk:
            success = world.step(action).success
            rows.append(self._predicates(success))
            self._steps += stop_on_success
            if success and stop_on_success:
                break
        if not stop_on_success:
            self._predicates.rest()
        self._check_physics(world)
        return StepResult(len(rows), success, np.stack(rows), self._predicates.object_speed())

    def success(self) -> bool:
        """LIBERO's own check: the conjunction of the goal's predicates."""
        return bool(self._prepared().env._check_success())

    def predicates(self) -> Mapping[str, bool]:
        """Every predicate of the present state."""
        self._prepared()
        return self._observe_predicates()

    def close(self) -> None:
        """Free the world, its GL context first."""
        self._ready = False
        world, self._world, self._task = self._world, None, None
        if world is not None:
            del self._predicates  # which would keep the model and its data while the next is built
            # Nothing can be done about a driver that fails here, and no verdict hangs on it.
            with contextlib.suppress(Exception):
                world.close()

    def _world_of(self, episode: Episode) -> World:
        task = (episode.task_suite, episode.task)
        if self._world is not None and self._task == task:
            return self._world
        self.close()
        world = World(*task, self._settings.env_seed)
        self._instruction = libero_stages.instruction_of(episode.task)
        self._subgoals = libero_stages.subgoals(world.goal, self._instruction)
        self._predicates = Predicates(world.env, world.goal, self._subgoals)
        self._world, self._task = world, task
        if not self._device:
            with contextlib.suppress(Exception):  # it is told to people, and decides nothing
                number = os.environ.get("MUJOCO_EGL_DEVICE_ID")
                self._device = world.renderer() + (f", EGL device {number}" if number else "")
        return world

    def _prepared(self) -> World:
        if self._world is None or not self._ready:
            raise SimulatorError("no episode is prepared")
        return self._world

    def _observe_predicates(self) -> dict[str, bool]:
        assert self._world is not None
        values = self._predicates(bool(self._world.env._check_success()))
        return {subgoal.name: bool(v) for subgoal, v in zip(self._subgoals, values, strict=True)}

    def _chunk(self, actions: NDArray[np.float64]) -> NDArray[np.float64]:
        width = self._info.action_dim
        try:
            chunk = np.array(actions, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SimulatorError(f"actions are not numbers: {error}") from error
        if chunk.ndim != 2 or chunk.shape[0] < 1 or chunk.shape[1] != width:
            raise SimulatorError(f"actions of shape {chunk.shape}, not (T, {width}) with T >= 1")
        if not np.isfinite(chunk).all():
            raise SimulatorError("actions are not all finite")
        return chunk

    def _check_physics(self, world: World) -> None:
        for warning in _FATAL:
            if world.data.warning[warning].number:
                self._ready = False
                raise SimulatorError(f"the physics diverged: {warning.name}")


def _check(episode: Episode) -> None:
    """Refuse what is not in the catalogue before anything is built."""
    suite = catalog.find(episode.task_suite)
    if suite is None or suite.simulator != "libero":
        known = ", ".join(catalog.task_suites("libero"))
        raise UsageError(f"LIBERO has no task suite {episode.task_suite!r}; it has {known}")
    if episode.task not in suite.tasks:
        raise UsageError(f"{suite.name} has no task {episode.task!r}")
    if not 0 <= episode.index < suite.initial_states:
        raise UsageError(
            f"{suite.name} has initial states 0 to {suite.initial_states - 1}, not {episode.index}"
        )
