"""check_simulator passes an honest simulator and finds each way to be a dishonest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode, Observation
from pytest_vla_shift.simulators.check import CheckFailed, check_simulator
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)
from tests.fakes.toy_policies import pick_up
from tests.fakes.toy_simulator import INFO, NAME, SETTLE_STEPS, Toy, factory

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTINGS = SimulatorSettings(NAME, env_seed=7, cameras=("front", "wrist"), height=16, width=24)
EPISODE = Episode("toy", "reach_left", 0)


def solution() -> NDArray[np.float64]:
    simulator = Toy(SETTINGS)
    simulator.prepare(EPISODE)
    settle = np.tile(INFO.settle_action, (SETTLE_STEPS, 1))
    simulator.step(settle, stop_on_success=False)
    state = simulator.observe(privileged=True).privileged
    assert state is not None
    actions = pick_up(np.zeros(3), state.positions["target_1"], closed=False, chunk=60)
    return np.concatenate([settle, actions])


def test_the_toy_passes() -> None:
    other = Episode("toy", "reach_right", 3)
    check_simulator(factory, SETTINGS, EPISODE, other=other, solution=solution())


@pytest.mark.parametrize(
    "fault, field", [("jitter", "model.target_pos"), ("drift", "model.fixture_pos")]
)
def test_a_reset_that_moves_a_body_by_millimetres_is_found_and_named(
    fault: str, field: str
) -> None:
    with pytest.raises(CheckFailed, match=rf"second prepare .*{field}\."):
        check_simulator(factory, SETTINGS, Episode("toy", f"reach_left_{fault}", 0))


def test_without_cameras_the_check_is_refused() -> None:
    blind = SimulatorSettings(NAME, env_seed=7, cameras=(), height=16, width=24)
    with pytest.raises(UsageError, match="at least one camera"):
        check_simulator(factory, blind, EPISODE)


class KeepsLights(Toy):
    """Prepare does not give back what a shift did to the lights."""

    _lights: dict[str, NDArray[np.float64]] | None = None

    def prepare(self, episode: Episode) -> Prepared:
        prepared = super().prepare(episode)
        if self._lights is None:
            self._lights = self._prepared().lights
        self._prepared().lights = self._lights
        digest = str(sorted((k, v.tolist()) for k, v in self._lights.items()))
        return Prepared(
            {**prepared.fingerprint, "model.lights": digest},
            prepared.instruction,
            prepared.goal,
            prepared.predicates,
            prepared.stages,
        )


class KeepsController(Toy):
    """State outside the fingerprint that no prepare restores: every trajectory differs."""

    _offset = 0.0

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        result = super().step(actions, stop_on_success=stop_on_success)
        self._offset += 1e-9
        self._hand[0] += self._offset
        return result


class DrawingMoves(Toy):
    """Rendering changes the physics."""

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        observation = super().observe(cameras, privileged=privileged)
        self._hand[1] += 1e-12 * len(cameras)
        return observation


class OwnBuffer(Toy):
    """Gives its own buffer away instead of a copy."""

    def __init__(self, settings: SimulatorSettings) -> None:
        super().__init__(settings)
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        for name, image in seen.images.items():
            self._buffers.setdefault(name, image)
        images = {name: self._buffers[name] for name in seen.images}
        return Observation(images, seen.proprio, seen.instruction, seen.step, seen.privileged)


class UpsideDown(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        images = {name: image[::-1] for name, image in seen.images.items()}
        return Observation(images, seen.proprio, seen.instruction, seen.step, seen.privileged)


class DrawsAll(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        return super().observe(("front", "wrist"), privileged=privileged)


class TellsAll(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        return super().observe(cameras, privileged=True)


class StopsAnyway(Toy):
    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        result = super().step(actions, stop_on_success=True)
        self._steps -= 0 if stop_on_success else result.steps
        return result


class NeverStops(Toy):
    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        result = super().step(actions, stop_on_success=False)
        self._steps += result.steps if stop_on_success else 0
        return result


class TakesAnything(Toy):
    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        fitting = np.nan_to_num(actions[:, :7]) if len(actions) else np.zeros((1, 7))
        return super().step(fitting, stop_on_success=stop_on_success)


class Reordered(Toy):
    def predicates(self) -> dict[str, bool]:
        return dict(reversed(list(super().predicates().items())))


class CountsSettling(Toy):
    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        result = super().step(actions, stop_on_success=stop_on_success)
        self._steps += 0 if stop_on_success else result.steps
        return result


class CloseRaises(Toy):
    def close(self) -> None:
        raise RuntimeError("eglMakeCurrent")


class OtherInfo(Toy):
    @property
    def info(self) -> SimulatorInfo:
        return SimulatorInfo(
            "toy",
            {"toy": "2"},
            1,
            "none",
            7,
            -1,
            1,
            (0.0,) * 7,
            20,
            ("front", "wrist"),
            (0, 3),
            (3, 6),
        )


class Factory:
    def __init__(
        self, make: Callable[[SimulatorSettings], Toy], described: SimulatorInfo = INFO
    ) -> None:
        self._make = make
        self._described = described

    def __call__(self, settings: SimulatorSettings) -> Toy:
        return self._make(settings)

    def describe(self) -> SimulatorInfo:
        return self._described


def test_a_description_without_its_cameras_is_found() -> None:
    described = replace(INFO, cameras=("front",))
    with pytest.raises(CheckFailed, match=r"does not name the cameras \['wrist'\]"):
        check_simulator(Factory(Toy, described), SETTINGS, EPISODE)


class Forgets(Toy):
    """Says in its description that it tells joints, and does not."""

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        proprio = {name: value for name, value in seen.proprio.items() if name != "joint_pos"}
        return Observation(seen.images, proprio, seen.instruction, seen.step, seen.privileged)


def test_the_description_must_name_the_proprioception_that_there_is() -> None:
    with pytest.raises(CheckFailed, match=r"says proprio \('eef_pos'.*'joint_pos'\), and an"):
        check_simulator(Factory(Forgets), SETTINGS, EPISODE)


@pytest.mark.parametrize(
    "kind, message",
    [
        (KeepsLights, r"prepare after shifts and steps gave another state in model\.lights"),
        (KeepsController, "same actions gave another trajectory in chunk 0"),
        (DrawingMoves, "rendering that changes the physics"),
        (OwnBuffer, "simulator's own buffer"),
        (UpsideDown, "not C-contiguous"),
        (DrawsAll, "without cameras rendered"),
        (TellsAll, "without being asked"),
        (StopsAnyway, r"stopped after 4\d of 70"),
        (NeverStops, "must stop at the first success"),
        (TakesAnything, "accepted actions of a wrong width"),
        (Reordered, "in the order"),
        (CountsSettling, "step is 12 after settling"),
        (CloseRaises, "first close"),
        (OtherInfo, "differs from describe"),
    ],
)
def test_each_breach_is_found_and_taught(kind: type[Toy], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_simulator(Factory(kind), SETTINGS, EPISODE, solution=solution())
