"""A toy simulator and a policy that tell which GPUs their processes were given, and when."""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings
from tests.fakes.toy_policies import Expert
from tests.fakes.toy_simulator import INFO, Toy


def seen() -> str:
    """CUDA's and EGL's variable in this process."""
    return " ".join(
        os.environ.get(f"{name}", "-") for name in ("CUDA_VISIBLE_DEVICES", "MUJOCO_EGL_DEVICE_ID")
    )


AT_IMPORT = seen()


class GpuToy(Toy):
    @property
    def device(self) -> str:
        return AT_IMPORT


class Factory:
    def __call__(self, settings: SimulatorSettings) -> GpuToy:
        return GpuToy(settings)

    def describe(self) -> SimulatorInfo:
        return INFO


factory = Factory()


class GpuExpert(Expert):
    """Its revision is what its process showed when it was imported."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, revision=AT_IMPORT)

    def session(self) -> GpuExpert:
        """For another lane of the same process."""
        return GpuExpert()
