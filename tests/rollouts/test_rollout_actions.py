"""Shifts of the actions through whole rollouts on the toy: what is executed, recorded, replayed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import compounds
from pytest_vla_shift.protocol.errors import WorkerLost
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.replay import replay_frames
from pytest_vla_shift.rollouts.request import RolloutRequest, request
from pytest_vla_shift.rollouts.rollout import Measured, actions_digest, run_rollout
from pytest_vla_shift.shifts.actuation import Actuation
from pytest_vla_shift.shifts.apply import ActionPipeline
from pytest_vla_shift.shifts.protocol import Command, Draw, Parameters
from pytest_vla_shift.simulators.protocol import StepResult
from tests.fakes.toy_simulator import INFO
from tests.rollouts.toy import ToyEngine, WatchedToy, cell_of, requested, toy, toy_suite

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("gain", "bias", "misalignment", "lag", "noise")
REST = np.asarray(INFO.settle_action)
SETTLING = np.tile(REST, (10, 1))


class Broken(Actuation):
    """Raises at step 9, within the third chunk of the toy's expert."""

    def action(
        self, commanded: NDArray[np.float64], level: Parameters, draw: Draw, command: Command
    ) -> NDArray[np.float64]:
        if command.step == 9:
            raise ZeroDivisionError("no such motor")
        return super().action(commanded, level, draw, command)


class Narrow(Actuation):
    """Forgets the gripper."""

    def action(
        self, commanded: NDArray[np.float64], level: Parameters, draw: Draw, command: Command
    ) -> NDArray[np.float64]:
        return super().action(commanded, level, draw, command)[:6]


def axis(name: str, draw: dict[str, float], shift: str = "actuation") -> str:
    """The TOML of an axis whose every preset is ``draw``, at radius 8 with handy scales."""
    full = {**dict.fromkeys(NAMES, 0.0), "bias_x": 1.0, "bias_y": 0.0, "bias_z": 0.0}
    full |= {"axis_x": 0.0, "axis_y": 0.0, "axis_z": 1.0, **draw}
    preset = ", ".join(f"{key} = {value!r}" for key, value in full.items())
    return f"""
[axes.{name}]
shift = "{shift}"
presets = [{{ {preset} }}, {{ {preset} }}, {{ {preset} }}]
L1 = {{ radius = 8.0 }}
sigma = {{ gain_log2 = 0.125, bias_percent = 0.74, misalignment_deg = 0.9, lag_ms = 16.0, \
noise_percent = 2.35 }}
"""


def suite_of(*axes: str) -> Suite:
    return toy_suite(("[axes.blur]", "".join(axes) + "\n[axes.blur]"))


LAG = axis("actuation", {"lag": 1.0})
"""128 ms at the toy's 50 ms: two whole periods and 0.56 of a third."""

NOISE = axis("actuation", {"noise": 1.0})


class Scheduled:
    """Gives out one fixed sequence of commands, ``chunk`` at a time."""

    def __init__(
        self, commands: NDArray[np.float64], chunk: int, cameras: tuple[str, ...] = ()
    ) -> None:
        self._commands = commands
        self._spec = PolicySpec("scheduled", "1", cameras, chunk=chunk, replan=chunk)

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        pass

    def act(self, observation: Observation) -> NDArray[np.floating]:
        return self._commands[observation.step : observation.step + self._spec.chunk]

    def close(self) -> None:
        pass


def commands(steps: int = 60) -> NDArray[np.float64]:
    """Never closes the gripper, so that the rollout runs to its horizon."""
    made = np.random.default_rng(8).uniform(-0.9, 0.9, (steps, 7))
    made[:, 6] = -1.0
    return made


def run(
    suite: Suite, policy: Scheduled, condition: str = "actuation-L1"
) -> tuple[Measured, WatchedToy]:
    simulator = toy(suite)
    return run_rollout(simulator, policy, requested(suite, condition, policy), None), simulator


def executed(measured: Measured) -> NDArray[np.float64]:
    assert measured.actions is not None
    return measured.actions


def delayed(given: NDArray[np.float64]) -> NDArray[np.float64]:
    """What :data:`LAG` makes of commands, by its definition."""
    padded = np.concatenate([np.tile(REST, (3, 1)), given])
    late = 0.44 * padded[1:-2] + 0.56 * padded[:-3]
    late[:, 6] = given[:, 6]
    return late


def test_what_is_executed_and_recorded_is_what_the_shift_makes_of_the_commands() -> None:
    measured, simulator = run(suite_of(LAG), Scheduled(commands(), 4))
    np.testing.assert_allclose(executed(measured), delayed(commands()), atol=1e-12)
    np.testing.assert_array_equal(np.concatenate(simulator.chunks[1:]), executed(measured))
    fields = {receipt.field: receipt.after for receipt in measured.receipts}
    assert fields["action actuation.radius"] == 8.0


def test_settling_and_the_clean_arm_are_untouched() -> None:
    _, shifted = run(suite_of(LAG), Scheduled(commands(), 4))
    measured, clean = run(suite_of(LAG), Scheduled(commands(), 4), "clean")
    np.testing.assert_array_equal(shifted.chunks[0], SETTLING)
    np.testing.assert_array_equal(clean.chunks[0], SETTLING)
    np.testing.assert_array_equal(executed(measured), commands())
    assert measured.receipts == []


@pytest.mark.parametrize("made", [LAG, NOISE], ids=["lag", "noise"])
def test_where_chunks_are_cut_changes_nothing(made: str) -> None:
    one, *others = (
        executed(run(suite_of(made), Scheduled(commands(), chunk))[0]) for chunk in (1, 7, 8, 60)
    )
    assert np.abs(one - commands())[:, :6].max() > 0.1
    for other in others:
        np.testing.assert_array_equal(other, one)


def test_two_shifts_of_the_actions_chain_in_the_order_of_their_axes() -> None:
    suite = suite_of(axis("aside", {"bias": 1.0}), axis("boost", {"gain": -1.0}))
    (both,) = compounds(suite.axes, ("aside", "boost"))
    policy = Scheduled(commands(), 4)
    wanted = request(suite, Episode("toy", "reach_left", 0), both, INFO, policy.spec, {})
    measured = run_rollout(toy(suite), policy, wanted, None)
    expected = commands()
    expected[:, 0] += 0.0592
    expected[:, :6] *= 0.5
    np.testing.assert_allclose(executed(measured), expected, atol=1e-12)


def test_noise_depends_on_nothing_that_ran_or_looked_before() -> None:
    suite = suite_of(NOISE)
    blind, _ = run(suite, Scheduled(commands(), 4))
    seeing, _ = run(suite, Scheduled(commands(), 4, ("front", "wrist")))
    np.testing.assert_array_equal(executed(seeing), executed(blind))
    simulator = toy(suite)
    policy = Scheduled(commands(), 4)
    other = requested(suite, "actuation-L1", policy, task="reach_right", index=1)
    another = run_rollout(simulator, policy, other, None)
    np.random.seed(3)
    wanted = requested(suite, "actuation-L1", policy)
    again = run_rollout(simulator, policy, wanted, None)
    np.testing.assert_array_equal(executed(again), executed(blind))
    assert not np.isclose(executed(another)[:, :6], executed(blind)[:, :6]).any()


class LosesItsWorker(WatchedToy):
    """Loses its worker once, in the third chunk of a rollout."""

    lost = False

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        if len(self.chunks) == 3 and not self.lost:
            self.lost = True
            raise WorkerLost("gone")
        return super().step(actions, stop_on_success=stop_on_success)


def test_a_retry_begins_with_an_empty_history(tmp_path: Path) -> None:
    undisturbed, _ = run(suite_of(LAG), Scheduled(commands(), 4))
    made = ToyEngine(tmp_path, suite_of(LAG), Scheduled(commands(), 4))
    clean = made.engine.pair(made.suite, cell_of(made.suite, "null")).clean
    assert clean.attempts == 1
    made.simulator = LosesItsWorker(made.simulator._settings)
    made.engine.discard_simulator = lambda suite: None  # type: ignore[method-assign]
    shifted = made.engine.pair(made.suite, cell_of(made.suite, "actuation-L1")).shifted
    assert shifted is not None
    assert (shifted.status, shifted.attempts) == ("done", 2)
    assert shifted.actions_digest == actions_digest(executed(undisturbed))


@pytest.mark.parametrize(
    "shift, message",
    [
        ("Broken", "a shift of the actions failed: no such motor"),
        ("Narrow", "a shift of the actions failed: shift 'actuation' makes"),
    ],
)
def test_a_shift_that_fails_is_an_infrastructure_error_and_never_the_policys(
    tmp_path: Path, shift: str, message: str
) -> None:
    suite = suite_of(axis("actuation", {"gain": 1.0}, f"{__name__}:{shift}"))
    made = ToyEngine(tmp_path, suite)
    pair = made.engine.pair(made.suite, cell_of(made.suite, "actuation-L1"))
    assert pair.clean.success is True
    assert pair.shifted is not None
    assert (pair.shifted.status, pair.shifted.success) == ("error", None)
    assert pair.shifted.error is not None
    kind, said = pair.shifted.error
    assert kind == "simulator"
    assert said.startswith(message)


def expert_under_lag(folder: Path) -> tuple[ToyEngine, RolloutRequest, RolloutRecord]:
    """The toy's expert, which corrects what it sees, under a lag and half the gain."""
    draw = {"lag": math.sqrt(0.5), "gain": -math.sqrt(0.5)}
    made = ToyEngine(folder, suite_of(axis("actuation", draw)))
    cell = Cell(
        made.suite.name,
        Episode("toy", "reach_left", 0),
        made.suite.condition("actuation-L1"),
    )
    shifted = made.engine.pair(made.suite, cell).shifted
    assert shifted is not None
    return made, made.engine.request(made.suite, cell), shifted


def test_a_video_replays_what_was_executed_and_shifts_it_no_second_time(tmp_path: Path) -> None:
    made, wanted, record = expert_under_lag(tmp_path)
    actions = made.engine.store.actions(record.key)
    assert actions is not None
    assert record.steps == len(actions)
    # An expert that commands full speed is seen to have been slowed down.
    assert np.abs(actions[:, :3]).max() < 0.7
    made.simulator.chunks.clear()
    frames = replay_frames(made.engine, wanted, record, camera="front", every=7)
    assert len(frames) == 1 + -(-record.steps // 7)
    settled, *replayed = made.simulator.chunks
    np.testing.assert_array_equal(settled, SETTLING)
    np.testing.assert_array_equal(np.concatenate(replayed), actions)


def test_a_stage_is_given_all_commands_so_far_and_cannot_write_to_them() -> None:
    suite = suite_of(LAG)
    seen: list[NDArray[np.float64]] = []

    class Listener(Actuation):
        def action(
            self, commanded: NDArray[np.float64], level: Parameters, draw: Draw, command: Command
        ) -> NDArray[np.float64]:
            seen.append(commanded)
            return super().action(commanded, level, draw, command)

    policy = Scheduled(commands(), 4)
    wanted = requested(suite, "actuation-L1", policy)
    pipeline = ActionPipeline(wanted.interventions, INFO.layout, REST)
    pipeline._stages = [(Listener(), item) for _, item in pipeline._stages]
    for first in range(0, 12, 4):
        pipeline(commands()[first : first + 4], first)
    assert [len(given) for given in seen] == list(range(1, 13))
    np.testing.assert_array_equal(seen[-1], commands()[:12])
    assert not any(given.flags.writeable for given in seen)
