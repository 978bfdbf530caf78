"""What draws LIBERO is recorded, and hidden GPUs do not stop it."""

from __future__ import annotations

import pytest

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.gpus import CUDA, Place
from pytest_vla_shift.simulators.hardware import find_hardware
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from pytest_vla_shift.simulators.remote import RemoteSimulator
from pytest_vla_shift.simulators.rendering import EGL, assign

pytest.importorskip("libero")

SETTINGS = SimulatorSettings("libero", env_seed=7, cameras=("agentview",), height=64, width=64)
EPISODE = Episode("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket", 0)


def test_an_empty_list_of_gpus_draws_in_software_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """robosuite takes the list for EGL's number, and int("") fails."""
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setenv(CUDA, "")
    monkeypatch.delenv(EGL, raising=False)
    hardware = find_hardware({CUDA: ""}, asked=False)
    (lane,) = assign(Place(), 1, hardware, {CUDA: ""}).lanes
    if EGL not in lane:
        pytest.skip("this host's EGL has no software device")
    simulator = RemoteSimulator(SETTINGS, timeout_s=120, environment=lane)
    try:
        assert simulator.device == ""
        simulator.prepare(EPISODE)
        (picture,) = simulator.observe(["agentview"]).images.values()
    finally:
        simulator.close()
    drawn = {str(device.index): device.renderer for device in hardware.egl}
    assert simulator.device == f"{drawn[lane[EGL]]}, EGL device {lane[EGL]}"
    assert picture.std() > 0
