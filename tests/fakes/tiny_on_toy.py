"""``tiny`` in the toy world, whose cameras and tasks have other names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.tiny import Tiny

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import Row, SimulatorSide
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.observation import Observation

NAMES = {"front": "agentview", "wrist": "robot0_eye_in_hand"}


class OnToy(Tiny):
    """Looks through the toy's cameras. What it does there is of no use, and its own."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, cameras=tuple(NAMES))

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def contract(self, side: SimulatorSide) -> list[Row]:
        return list(super().contract(replace(side, cameras=tuple(NAMES[c] for c in side.cameras))))

    def act(self, observation: Observation) -> NDArray[np.float64]:
        images = {NAMES[camera]: image for camera, image in observation.images.items()}
        return super().act(replace(observation, images=images))
