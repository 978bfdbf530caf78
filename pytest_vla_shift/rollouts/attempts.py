"""A rollout with its attempts: run, and run once more where a worker was lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_vla_shift.protocol.errors import (
    InfrastructureError,
    MissingAsset,
    SimulatorError,
    UsageError,
)
from pytest_vla_shift.rollouts.request import RolloutRequest, settings_of
from pytest_vla_shift.rollouts.rollout import CleanStart, Measured, run_seated
from pytest_vla_shift.rollouts.seat import Abandoned
from pytest_vla_shift.simulators.launch import open_simulator

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.rollouts.seat import Seat
    from pytest_vla_shift.simulators.protocol import Simulator, SimulatorSettings

ATTEMPTS = 2
"""A rollout whose worker was lost gets one more chance on a fresh worker."""


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """How simulators are run; none of it decides a number.

    Attributes:
        envs: 0 opens them in this process, anything else in a process of their own.
        rollout_timeout_s: after this a worker counts as hung.
        recycle_rollouts: a worker is replaced after so many rollouts; None for never.
        recycle_bytes: a worker is replaced when its resident memory exceeds this; None for never.
        environment: variables for the workers, over ours.
    """

    envs: int
    rollout_timeout_s: float = 600.0
    recycle_rollouts: int | None = None
    recycle_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a rollout ended.

    Attributes:
        measured: what it gave; None if it met an infrastructure error.
        error: that error, or None.
        attempts: 1, or 2 when a first worker was lost.
        wall_seconds: all attempts together.
        device: what the simulator really drew with, for people; empty if it does not say.
        place: what else a runner says of where it ran, by name, for people.
    """

    measured: Measured | None
    error: InfrastructureError | None
    attempts: int
    wall_seconds: float
    device: str = ""
    place: Mapping[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Runs one rollout at a time, wherever that is."""

    def start(self, suite: Suite) -> None:
        """Start the simulator of a suite before any rollout, so that what is missing is said.

        Raises:
            Exception: it cannot start.
        """
        ...

    def run(self, wanted: RolloutRequest, start: CleanStart | None) -> Outcome:
        """The rollout's outcome; never raises an infrastructure error."""
        ...

    def abandon(self) -> None:
        """From another thread: end what is under way at once. ``run`` then raises Abandoned."""
        ...

    def close(self) -> None:
        """Free everything. Idempotent; never raises."""
        ...


class Simulators:
    """The simulators of one runner, by settings; opened when first needed."""

    def __init__(self, options: SimulatorOptions) -> None:
        self._options = options
        self._open: dict[SimulatorSettings, Simulator] = {}
        self.abandoned = False

    def of(self, suite: Suite) -> Simulator:
        """The open simulator of a suite; started at the first call."""
        if self.abandoned:
            raise Abandoned
        settings = settings_of(suite)
        if settings not in self._open:
            options = self._options
            self._open[settings] = open_simulator(
                settings,
                envs=options.envs,
                rollout_timeout_s=options.rollout_timeout_s,
                recycle_above_bytes=options.recycle_bytes,
                recycle_after_rollouts=options.recycle_rollouts,
                environment=options.environment,
            )
        return self._open[settings]

    def discard(self, suite: Suite) -> None:
        """Close a suite's simulator; the next rollout gets a fresh one."""
        simulator = self._open.pop(settings_of(suite), None)
        if simulator is not None:
            simulator.close()

    def abandon(self) -> None:
        """From another thread: kill the workers; ``of`` raises Abandoned from now on."""
        self.abandoned = True
        for simulator in list(self._open.values()):
            kill = getattr(simulator, "kill", None)
            if kill is not None:
                kill()

    def close(self) -> None:
        """Close all of them."""
        for simulator in self._open.values():
            simulator.close()
        self._open.clear()


class LocalRunner:
    """Rollouts in simulators of this host.

    Args:
        simulators: its own; nobody else's rollouts run in them.
        seat: its place at the policy.
    """

    def __init__(self, simulators: Simulators, seat: Seat) -> None:
        self.simulators = simulators
        self._seat = seat

    def start(self, suite: Suite) -> None:
        """Start the simulator of a suite."""
        _ = self.simulators.of(suite).info

    def run(
        self, wanted: RolloutRequest, start: CleanStart | None, attempts: int = ATTEMPTS
    ) -> Outcome:
        """The rollout's outcome, after at most ``attempts``.

        Raises:
            Abandoned: the run ends.
        """
        began = time.perf_counter()
        measured: Measured | None = None
        error: InfrastructureError | None = None
        device = ""
        attempt = 0
        while attempt < attempts:
            attempt += 1
            try:
                simulator = self.simulators.of(wanted.suite)
                measured = run_seated(simulator, self._seat, wanted, start)
                device = str(getattr(simulator, "device", ""))
                error = None
                break
            except UsageError as raised:
                # Found out too late to be a usage error of the run, for example by a simulator
                # that knows more than its description said.
                error = SimulatorError(str(raised))
                break
            except InfrastructureError as raised:
                error = raised
                if isinstance(raised, SimulatorError) and not isinstance(raised, MissingAsset):
                    # Whatever it raised, its state is not to be trusted any more.
                    self.simulators.discard(wanted.suite)
                if not raised.retry:
                    break
        if error is not None and self.simulators.abandoned:
            raise Abandoned  # its worker was killed because the run ends
        return Outcome(measured, error, attempt, time.perf_counter() - began, device)

    def abandon(self) -> None:
        """Kill the workers of what is under way."""
        self.simulators.abandon()

    def close(self) -> None:
        """Close the simulators."""
        self.simulators.close()
