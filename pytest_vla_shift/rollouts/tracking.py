"""Open-loop replay: how far the hand strays when recorded commands are executed under a shift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.rollouts.request import RolloutRequest
from pytest_vla_shift.rollouts.rollout import Measured, settle, start
from pytest_vla_shift.shifts.apply import ActionPipeline
from pytest_vla_shift.shifts.protocol import Intervention

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.protocol import Simulator


@dataclass(frozen=True, slots=True)
class TrackingError:
    """Distance of the end effector from where the same commands brought it without a shift.

    Attributes:
        mean_mm: averaged over the control steps.
        peak_mm: the largest.
    """

    mean_mm: float
    peak_mm: float


class OpenLoop:
    """The commands of one clean rollout, to be executed again and again.

    Args:
        simulator: where.
        clean: the clean rollout that the commands are of.
        commands: (T, action_dim) float64, as the policy gave them.

    Raises:
        SimulatorError: the replay without a shift does not solve the task as the rollout did.
    """

    def __init__(
        self, simulator: Simulator, clean: RolloutRequest, commands: NDArray[np.float64]
    ) -> None:
        self._simulator = simulator
        self._clean = clean
        self._commands = commands
        self._path = self._executed(commands)
        if not simulator.success():
            raise SimulatorError("the recorded commands no longer solve the task")

    def error(self, shift: Intervention) -> TrackingError:
        """What a shift of the actions does to the path; nothing corrects it on the way."""
        info = self._simulator.info
        pipeline = ActionPipeline([shift], info.layout, np.asarray(info.settle_action))
        apart = self._executed(pipeline(self._commands, 0)) - self._path
        distance = 1000.0 * np.linalg.norm(apart, axis=1)
        return TrackingError(float(distance.mean()), float(distance.max()))

    def _executed(self, actions: NDArray[np.float64]) -> NDArray[np.float64]:
        """(T, 3) world position of the end effector after every action, in metres."""
        measured = Measured()
        prepared = start(self._simulator, self._clean, measured)
        settle(self._simulator, self._clean, prepared, measured)
        path = np.empty((len(actions), 3))
        for row, action in zip(path, actions, strict=True):
            self._simulator.step(action[np.newaxis], stop_on_success=False)
            row[:] = self._simulator.observe().proprio["eef_pos"]
        return path
