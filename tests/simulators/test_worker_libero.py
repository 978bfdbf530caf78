"""A real LIBERO episode through the process boundary, against the same one in this process."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators.check import check_simulator
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.protocol import Simulator, SimulatorInfo, SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator
from tests.simulators.test_worker_equality import flat

pytest.importorskip("libero")

SETTINGS = SimulatorSettings(
    "libero", env_seed=7, cameras=("agentview", "robot0_eye_in_hand"), height=128, width=128
)
TASK = "pick_up_the_alphabet_soup_and_place_it_in_the_basket"
SHIFTS = [
    Intervention("light", "illumination", "L2", {"alpha": 0.6}, {}),
    Intervention(
        "base",
        "base",
        "L1",
        {"sigma_xy_m": 0.02, "sigma_yaw_deg": 2.0},
        {"x": 0.7, "y": -0.4, "yaw": 1.1},
    ),
    Intervention("blur", "gaussian_blur", "L1", {"sigma_px": 1.0}, {}),
]


def remote() -> RemoteSimulator:
    return RemoteSimulator(SETTINGS, timeout_s=120)


def episode_trace(simulator: Simulator) -> list[object]:
    """Everything that a shifted rollout sees: state, pictures, ground truth, predicates."""
    info = simulator.info
    seen: list[object] = [simulator.prepare(Episode("libero_object", TASK, 3))]
    seen.append(simulator.apply(SHIFTS))
    settle = np.tile(info.settle_action, (10, 1))
    seen.append(simulator.step(settle, stop_on_success=False))
    for chunk in np.random.default_rng(2).uniform(-1, 1, (3, 8, info.action_dim)):
        seen.append(simulator.observe(SETTINGS.cameras, privileged=True))
        seen.append(simulator.step(chunk))
    seen += [simulator.success(), dict(simulator.predicates())]
    return flat(seen)


def test_a_shifted_libero_episode_is_the_same_bit_for_bit_with_and_without_a_process() -> None:
    outside = remote()
    try:
        through = episode_trace(outside)
    finally:
        outside.close()
    inside = load_factory("libero")(SETTINGS)
    try:
        assert episode_trace(inside) == through
    finally:
        inside.close()


def test_libero_in_a_worker_passes_check_simulator() -> None:
    class Factory:
        def __call__(self, settings: SimulatorSettings) -> RemoteSimulator:
            return RemoteSimulator(settings, timeout_s=120)

        def describe(self) -> SimulatorInfo:
            return load_factory("libero").describe()

    check_simulator(
        Factory(),
        SETTINGS,
        Episode("libero_object", TASK, 0),
        other=Episode("libero_object", TASK, 5),
    )
