"""Open-loop replay: on the toy, where the answer is arithmetic, and on real LIBERO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.commands.calibration.actuation import SUITE, shifts
from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.protocol.conditions import NOMINAL
from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import parse_suite
from pytest_vla_shift.rollouts.attempts import SimulatorOptions
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.rollouts.tracking import OpenLoop
from tests.fakes.toy_policies import Expert
from tests.fakes.toy_simulator import STRIDE
from tests.rollouts.test_rollout_actions import axis, suite_of
from tests.rollouts.toy import ToyEngine, cell_of


def test_a_bias_leads_away_by_the_same_step_every_time(tmp_path: Path) -> None:
    made = ToyEngine(tmp_path, suite_of(axis("actuation", {"bias": 1.0, "bias_x": -1.0})), Expert())
    # Task reach_right moves along +x: nothing of the bias is lost at the toy's clip or reach.
    cell = cell_of(made.suite, "actuation-L1", task="reach_right")
    clean = made.engine.pair(made.suite, cell).clean
    commands = made.engine.store.actions(clean.key)
    assert commands is not None
    loop = OpenLoop(made.simulator, made.engine.clean_request(made.suite, cell), commands)
    (bias,) = made.engine.request(made.suite, cell).interventions
    executed = np.clip(commands[:, 0] - 0.0592, -1, 1) - commands[:, 0]
    expected = 1000 * STRIDE * np.abs(np.cumsum(executed))
    error = loop.error(bias)
    assert error.mean_mm == pytest.approx(expected.mean(), rel=1e-9)
    assert error.peak_mm == pytest.approx(expected[-1], rel=1e-9)
    assert loop.error(bias) == error


def test_commands_that_do_not_solve_the_task_are_refused(tmp_path: Path) -> None:
    made = ToyEngine(tmp_path, suite_of(axis("actuation", {"bias": 1.0})), Expert())
    cell = cell_of(made.suite, "null")
    clean = made.engine.pair(made.suite, cell).clean
    commands = made.engine.store.actions(clean.key)
    assert commands is not None
    request = made.engine.clean_request(made.suite, cell)
    with pytest.raises(SimulatorError, match="no longer solve the task"):
        OpenLoop(made.simulator, request, commands[: len(commands) // 2])


def test_real_commands_are_led_astray_by_about_as_much_as_published(tmp_path: Path) -> None:
    pytest.importorskip("libero.libero", reason="needs the extra 'libero'")
    task = "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate"
    suite = parse_suite(SUITE.format(tasks=f'["{task}"]', episodes=1), "one task")
    (episode,) = suite.all_episodes()
    cell = Cell(suite.name, episode, NOMINAL)
    engine = Engine(Store(tmp_path, "main"), Scripted(), {}, options=SimulatorOptions(envs=0))
    try:
        clean = engine.pair(suite, cell).clean
        commands = engine.store.actions(clean.key)
        assert clean.success
        assert commands is not None
        loop = OpenLoop(engine.simulator(suite), engine.clean_request(suite, cell), commands)
        wanted = [s for what, s in shifts(suite.axes[0], 0, episode) if what == "preset 1"]
        errors = {s.parameters["radius"]: loop.error(s) for s in (wanted[0], wanted[2])}
    finally:
        engine.close()
    # The largest distance is about as published; one preset of one task scatters around that.
    for radius, published in ((2.0, 10), (8.0, 40)):
        assert 0.5 * published < errors[radius].peak_mm < 2.0 * published
        assert errors[radius].mean_mm < errors[radius].peak_mm
