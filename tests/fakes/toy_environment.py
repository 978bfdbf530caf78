"""A toy whose description tells its process's environment."""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings
from tests.fakes.toy_simulator import INFO, Toy


class Factory:
    def __call__(self, settings: SimulatorSettings) -> Toy:
        return Toy(settings)

    def describe(self) -> SimulatorInfo:
        return replace(INFO, renderer=os.environ.get("MUJOCO_GL", "none"))


factory = Factory()
