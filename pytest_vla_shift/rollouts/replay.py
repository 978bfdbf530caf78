"""Replaying a recorded rollout with pictures: the same actions, the same states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import InfrastructureError, SimulatorError
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest
from pytest_vla_shift.rollouts.rollout import Measured, actions_digest, settle, start

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ReplayDiffers(InfrastructureError):
    """A replayed rollout did not end as it was recorded."""

    kind = "replay differs"


def replay_frames(
    engine: Engine, request: RolloutRequest, record: RolloutRecord, *, camera: str, every: int
) -> NDArray[np.uint8]:
    """Frames of ``record``, (T, H, W, 3) uint8, after settling and then every ``every`` steps.

    The last frame shows the state in which the rollout ended.

    Raises:
        ReplayDiffers: the actions are gone or are not those of the record, or the replay ended
            differently.
        UnreadableActions: their file is damaged.
        SimulatorError: the simulator failed.
    """
    actions = engine.store.actions(record.key)
    if actions is None:
        raise ReplayDiffers("the recorded actions are gone")
    if actions_digest(actions) != record.actions_digest:
        raise ReplayDiffers("the actions on disk are not those that the record is about")
    simulator = engine.simulator(request.suite)
    frames: list[NDArray[np.uint8]] = []
    measured = Measured()
    success, steps = False, 0
    try:
        prepared = start(simulator, request, measured)
        settle(simulator, request, prepared, measured)
        frames.append(simulator.observe((camera,)).images[camera])
        for first in range(0, len(actions), every):
            result = simulator.step(actions[first : first + every])
            frames.append(simulator.observe((camera,)).images[camera])
            success, steps = result.success, steps + result.steps
            if success:
                break
    except SimulatorError:
        engine.discard_simulator(request.suite)
        raise
    if (success, steps) != (record.success, record.steps):
        raise ReplayDiffers(
            f"recorded success {record.success} at step {record.steps},"
            f" replayed success {success} at step {steps}"
        )
    return np.stack(frames)
