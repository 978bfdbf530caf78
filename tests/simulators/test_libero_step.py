"""A control step is robosuite's own to the last bit, and refuses what it does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("libero.libero")

import mujoco

from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators import libero_step_check
from pytest_vla_shift.simulators.libero_step import ControlStep, StepOutcome
from pytest_vla_shift.simulators.libero_step_check import check_environment
from tests.simulators import libero_support as support
from tests.simulators.libero_step_support import differing, everything, robosuites_step
from tests.simulators.libero_support import BOWL, MILK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
    from pytest_vla_shift.simulators.libero_world import World

    Step = Callable[[World, NDArray[np.float64]], StepOutcome]
    Left = tuple[dict[str, bytes], StepOutcome, dict[str, bool]]

STEPS = 150
HALF = STEPS // 2

STOVE = Episode("libero_goal", "turn_on_the_stove", 2)
DRAWER = Episode("libero_goal", "open_the_middle_drawer_of_the_cabinet", 4)
RAMEKIN = Episode(
    "libero_spatial", "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate", 9
)
MICROWAVE = Episode(
    "libero_10", "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it", 1
)
HAND = Intervention(
    "robot_pose",
    "robot_pose",
    "L3",
    {"radius": 2.0, "sigma_position_m": 0.02, "sigma_rotation_deg": 5.0},
    {"x": 0.5, "y": -0.5, "z": 0.0, "rx": 0.5, "ry": -0.3, "rz": 0.4},
)


def actions(seed: int) -> NDArray[np.float64]:
    """(150, 7): moves held for ten steps, out of range, often down onto things; a busy gripper."""
    rng = np.random.default_rng(seed)
    held = rng.uniform(-1.4, 1.4, (STEPS // 10, 7))
    held[:, 2] -= 0.5
    return np.repeat(held, 10, axis=0) + rng.uniform(-0.3, 0.3, (STEPS, 7))


def turn_the_knob(world: World) -> None:
    world.env.sim.data.set_joint_qpos("flat_stove_1_button", 0.7)


def trajectory(
    sim: LiberoSimulator,
    episode: Episode,
    shift: Intervention | None,
    meanwhile: Callable[[World], None] | None,
    step: Step,
) -> tuple[list[Left], NDArray[np.uint8]]:
    """What each step leaves, and the last picture."""
    sim.prepare(episode)
    if shift is not None:
        sim.apply([shift])
    world = support.world_of(sim)
    left = []
    for count, action in enumerate(actions(episode.index)):
        if meanwhile is not None and count == HALF:
            meanwhile(world)
        outcome = step(world, action)
        left.append((everything(world), outcome, dict(sim.predicates())))
    return left, sim.observe(("agentview",)).images["agentview"]


@pytest.mark.parametrize(
    "episode, shift, meanwhile",
    [
        pytest.param(MILK, None, None, id="object"),
        pytest.param(RAMEKIN, None, None, id="spatial"),
        pytest.param(STOVE, support.intervention("base"), turn_the_knob, id="stove and base"),
        pytest.param(DRAWER, HAND, None, id="drawer and hand"),
        pytest.param(MICROWAVE, None, None, id="microwave"),
    ],
)
def test_everything_that_a_step_leaves_is_what_robosuites_own_leaves(
    episode: Episode, shift: Intervention | None, meanwhile: Callable[[World], None] | None
) -> None:
    sim = support.simulator()
    ours, picture = trajectory(sim, episode, shift, meanwhile, lambda w, a: w.step(a))
    theirs, original = trajectory(sim, episode, shift, meanwhile, robosuites_step)
    for count, (here, there) in enumerate(zip(ours, theirs, strict=True)):
        assert differing(here[0], there[0]) == [], count
        assert here[1:] == there[1:], count
    assert np.array_equal(picture, original)
    first, last = ours[0][0], ours[-1][0]
    assert {"data.qpos", "controller.torques", "env.timestep"} <= set(differing(first, last))
    if meanwhile is not None:  # the stove is on: success, and a flame that is seen
        assert ours[-1][1] == StepOutcome(1.0, True)
        assert "model.site_rgba" in differing(first, last)


def test_the_comparison_sees_a_difference_of_one_bit() -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    world = support.world_of(sim)
    world.step(np.zeros(7))
    before = everything(world)
    world.data.xpos[3, 0] = np.nextafter(world.data.xpos[3, 0], 9.0)
    world.env.robots[0].controller.mass_matrix[0, 0] += 1e-12
    assert differing(before, everything(world)) == ["controller.mass_matrix", "data.xpos"]


def test_the_environments_own_horizon_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    world = support.world_of(sim)
    monkeypatch.setattr(world.env, "ignore_done", False)
    monkeypatch.setattr(world.env, "timestep", world.env.horizon - 1)
    monkeypatch.setattr(world.env, "done", False)
    world.step(np.zeros(7))
    with pytest.raises(SimulatorError, match="the environment's own horizon"):
        world.step(np.zeros(7))


def test_a_controller_that_is_another_after_a_reset_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = support.simulator()
    sim.prepare(BOWL)
    world = support.world_of(sim)
    monkeypatch.setattr(world.env.robots[0].controller, "interpolator_pos", object())
    with pytest.raises(SimulatorError, match="the controller interpolates"):
        world.step(np.zeros(7))


class TestRefusals:
    """Each of these would make a step that leaves something out a wrong one."""

    @pytest.fixture
    def world(self) -> World:
        sim = support.simulator()
        sim.prepare(BOWL)
        return support.world_of(sim)

    def refused(self, world: World, why: str) -> None:
        with pytest.raises(SimulatorError, match=f"does not know this environment: .*{why}"):
            ControlStep(world.env)

    def test_what_libero_has_is_known(self, world: World) -> None:
        check_environment(world.env)

    def test_another_robosuite(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        import robosuite

        monkeypatch.setattr(robosuite, "__version__", "1.5.1")
        self.refused(world, r"robosuite is 1\.5\.1, not 1\.4\.0")

    def test_another_robot(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.env, "robots", world.env.robots * 2)
        self.refused(world, "the robots are SingleArm, SingleArm")

    def test_another_gripper(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        from robosuite.models.grippers import RethinkGripper

        monkeypatch.setattr(world.env.robots[0], "gripper", RethinkGripper())
        self.refused(world, "the gripper is RethinkGripper")

    def test_another_controller(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.env.robots[0], "controller", object())
        self.refused(world, "the controller is object")

    @pytest.mark.parametrize(
        "name, value, why",
        [
            ("impedance_mode", "variable", "fixed impedance"),
            ("uncoupling", False, "fixed impedance"),
            ("use_ori", False, "fixed impedance"),
            ("interpolator_ori", object(), "interpolates"),
        ],
    )
    def test_another_way_of_controlling(
        self, world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: object, why: str
    ) -> None:
        monkeypatch.setattr(world.env.robots[0].controller, name, value)
        self.refused(world, why)

    def test_observables_that_are_on(self, world: World) -> None:
        observable = world.env._observables["robot0_joint_pos"]
        observable.set_enabled(True)
        try:
            self.refused(world, "observables are on: robot0_joint_pos")
        finally:
            observable.set_enabled(False)

    def test_a_viewer(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.env, "viewer", object())
        self.refused(world, "a viewer")

    def test_one_substep(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world.env, "control_timestep", world.env.model_timestep)
        self.refused(world, "a single substep")

    def test_an_integrator_that_is_not_split_in_two(self, world: World) -> None:
        before = world.model.opt.integrator
        world.model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        try:
            self.refused(world, "the integrator")
        finally:
            world.model.opt.integrator = before

    def test_a_method_that_a_subclass_has_of_its_own(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(world.env), "step", lambda self, action: None, raising=False)
        self.refused(world, "env.step is not the code that it replaces")

    def test_a_method_that_was_replaced_by_one_that_wraps_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import functools

        controller = world.env.robots[0].controller
        owner = type(controller)

        @functools.wraps(owner.run_controller)
        def traced(self: object) -> object:
            return owner.run_controller(self)

        monkeypatch.setattr(owner, "run_controller", traced)
        self.refused(world, "controller.run_controller is not the code")

    def test_a_method_of_the_object_itself(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(world.env.sim, "forward", world.env.sim.forward)
        self.refused(world, "sim.forward is not the code that it replaces .its own")

    def test_a_method_without_a_source(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(world.env.sim), "step", len)
        self.refused(world, "no source")

    def test_joints_that_are_not_neighbours(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order = [0, 1, 2, 3, 5, 4, 6]
        monkeypatch.setattr(world.env.robots[0], "_ref_joint_vel_indexes", order)
        self.refused(world, "velocities do not follow one another")

    def test_a_simulation_that_was_replaced(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        step = ControlStep(world.env)
        monkeypatch.setattr(world.env.sim.data, "_data", mujoco.MjData(world.model))
        with pytest.raises(SimulatorError, match="its simulation was replaced"):
            step(np.zeros(7))


def test_the_known_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert version("robosuite") == libero_step_check.ROBOSUITE
