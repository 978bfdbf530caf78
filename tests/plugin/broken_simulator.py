"""A simulator whose packages are there and whose GL library is not."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings
from tests.fakes.toy_simulator import INFO


class _Broken:
    def describe(self) -> SimulatorInfo:
        return replace(INFO, name="broken")

    def __call__(self, settings: SimulatorSettings) -> NoReturn:
        # What PyOpenGL says when libEGL is missing.
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")


factory = _Broken()
