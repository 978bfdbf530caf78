"""The parent's side of the process boundary: a Simulator that lives in a worker process."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import SimulatorError, WorkerLost
from pytest_vla_shift.simulators import messages
from pytest_vla_shift.simulators.connection import Connection
from pytest_vla_shift.simulators.frames import FrameMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Episode, Observation
    from pytest_vla_shift.shifts.protocol import Intervention, Receipt
    from pytest_vla_shift.simulators.protocol import (
        Prepared,
        SimulatorInfo,
        SimulatorSettings,
        StepResult,
    )
    from pytest_vla_shift.simulators.wire import Array, Frame

START_TIMEOUT_S = 180.0


class RemoteSimulator:
    """The Simulator protocol, answered by a worker process.

    The worker starts when it is first needed. When it dies, hangs past the deadline or answers
    nonsense, it is killed with everything that it started, WorkerLost is raised, and the next
    ``prepare`` starts a fresh one. An exception inside the simulator arrives as the same class of
    protocol/errors.py, the worker's traceback in a note; the worker lives on.

    One instance serves one thread at a time.

    Attributes:
        device: what the worker's simulator draws with, as it said after the last ``prepare``; empty
            if it does not say.
    """

    def __init__(
        self,
        settings: SimulatorSettings,
        *,
        python: str | None = None,
        timeout_s: float,
        start_timeout_s: float = START_TIMEOUT_S,
        recycle_above_bytes: int | None = None,
        recycle_after_rollouts: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Set up; nothing is started.

        Args:
            settings: the simulator and its cameras.
            python: the worker's interpreter; this one if None.
            timeout_s: how long one rollout may keep us waiting, from ``prepare`` on, in seconds
                of wall time. The policy's own time does not count.
            start_timeout_s: added to that for a ``prepare`` that starts a worker.
            recycle_above_bytes: a worker whose resident memory exceeded this at its last
                ``prepare`` is replaced before the next.
            recycle_after_rollouts: a worker is replaced after so many calls of ``prepare``.
            environment: variables for the worker, over ours.
        """
        self._settings = settings
        self._python = python or sys.executable
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._recycle_above_bytes = recycle_above_bytes
        self._recycle_after_rollouts = recycle_after_rollouts
        self._prepared = 0
        self._ended = False
        self._environment = dict(environment or {})
        self._connection: Connection | None = None
        self._frames: FrameMemory | None = None
        self._info: SimulatorInfo | None = None
        self._resident = 0
        self._left_s = 0.0
        self._where = ""
        self.device = ""

    @property
    def info(self) -> SimulatorInfo:
        """What the simulator says of itself; starts the worker if there is none."""
        return self._info if self._info is not None else self._start()

    @property
    def pid(self) -> int | None:
        """The worker's process number, for records; None while there is no worker."""
        connection = self._connection
        return connection.pid if connection is not None and connection.alive else None

    def prepare(self, episode: Episode) -> Prepared:
        self._where = f"{episode.task_suite} {episode.task} e{episode.index:02d}"
        self._left_s = self._timeout_s
        if self._worn():
            self.close()
        if self._connection is None or not self._connection.alive:
            began = time.monotonic()
            self._start()
            self._left_s += max(0.0, self._start_timeout_s - (time.monotonic() - began))
        connection, reply = self._ask("prepare", asdict(episode))
        self._prepared += 1
        # The allowance was for starting and for the first world, not for the rollout.
        self._left_s = min(self._left_s, self._timeout_s)
        connection.trim_output()
        with connection.reading():
            self._resident = messages.get(reply.body, "rss", int)
            self.device = messages.get(reply.body, "device", str)
            return messages.read_prepared(reply.body)

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        connection, reply = self._ask("apply", messages.interventions_body(interventions))
        with connection.reading():
            return messages.read_receipts(reply.body)

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        connection, reply = self._ask(
            "observe", {"cameras": list(cameras), "privileged": privileged}
        )
        with connection.reading():
            return messages.read_observation(reply, self._frames)

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        chunk = np.ascontiguousarray(actions, dtype=np.float64)
        connection, reply = self._ask("step", {"stop_on_success": stop_on_success}, [chunk])
        with connection.reading():
            return messages.read_step(reply)

    def success(self) -> bool:
        connection, reply = self._ask("success")
        with connection.reading():
            return messages.get(reply.body, "success", bool)

    def predicates(self) -> Mapping[str, bool]:
        connection, reply = self._ask("predicates")
        with connection.reading():
            return messages.read_predicates(reply.body)

    def close(self) -> None:
        """Let the simulator free its contexts, then end the worker. Idempotent; never raises."""
        if self._connection is not None:
            self._connection.close()
        self.relaunch()

    def relaunch(self) -> None:
        """Kill the worker, if there is one; the next ``prepare`` starts a fresh one."""
        connection, self._connection = self._connection, None
        frames, self._frames = self._frames, None
        self._resident = self._prepared = 0
        if connection is not None:
            connection.kill()
        if frames is not None:
            frames.close()

    def kill(self) -> None:
        """From another thread: end the worker at once. A call under way raises WorkerLost, and no
        other worker is started."""
        self._ended = True
        connection = self._connection
        if connection is not None:
            connection.terminate()

    def _worn(self) -> bool:
        """Whether the worker is due to be replaced: MuJoCo, drivers and simulators leak."""
        many, large = self._recycle_after_rollouts, self._recycle_above_bytes
        return (many is not None and self._prepared >= many) or (
            large is not None and self._resident > large
        )

    def _start(self) -> SimulatorInfo:
        """Start a worker and open the simulator in it."""
        self.relaunch()
        until = time.monotonic() + self._start_timeout_s
        limit = f"the {self._start_timeout_s:g} s for starting"
        try:
            self._frames = FrameMemory(self._settings)
            self._connection = connection = Connection(
                self._python, self._frames.fd, self._environment
            )
            if self._ended:
                raise WorkerLost("the simulator was killed on request")
            connection.greet(self._start_timeout_s)
            reply = connection.call(
                "open",
                messages.settings_body(self._settings),
                within_s=until - time.monotonic(),
                limit=limit,
                where=self._settings.simulator,
            )
            with connection.reading():
                self._info = info = messages.read_info(reply.body)
        except BaseException:
            self.relaunch()
            raise
        return info

    def _ask(
        self, op: str, body: Mapping[str, object] | None = None, arrays: Sequence[Array] = ()
    ) -> tuple[Connection, Frame]:
        """One request within what is left of the rollout's time."""
        connection = self._connection
        if connection is None or not connection.alive:
            raise SimulatorError(f"{op}: no episode is prepared, or the simulator is closed")
        began = time.monotonic()
        try:
            reply = connection.call(
                op,
                body,
                arrays,
                within_s=self._left_s,
                limit=f"the {self._timeout_s:g} s that a rollout has",
                where=self._where,
            )
        finally:
            self._left_s -= time.monotonic() - began
        return connection, reply
