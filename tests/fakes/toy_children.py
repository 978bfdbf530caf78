"""A toy simulator that starts a process of its own and never ends it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings
from tests.fakes.toy_simulator import INFO, Toy


class Parent(Toy):
    def __init__(self, settings: SimulatorSettings) -> None:
        super().__init__(settings)
        self.child = subprocess.Popen(["sleep", "600"])
        Path(os.environ["TOY_CHILD_PID"]).write_text(str(self.child.pid))


class Factory:
    def __call__(self, settings: SimulatorSettings) -> Parent:
        return Parent(settings)

    def describe(self) -> SimulatorInfo:
        return INFO


factory = Factory()
