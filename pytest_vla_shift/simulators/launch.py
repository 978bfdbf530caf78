"""Opening a simulator by name: in this process, or in a worker of its own.

A name is that of an entry point of the group ``pytest_vla_shift.simulators`` (``libero``), or
``module:attr`` for an object of your own (``my_package.sim:factory``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_vla_shift.simulators import messages
from pytest_vla_shift.simulators.connection import Connection
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.inprocess import InProcessSimulator
from pytest_vla_shift.simulators.remote import START_TIMEOUT_S, RemoteSimulator

if TYPE_CHECKING:
    from pytest_vla_shift.simulators.protocol import (
        Simulator,
        SimulatorInfo,
        SimulatorSettings,
    )


def describe(simulator: str, *, python: str | None = None) -> SimulatorInfo:
    """What a simulator says of itself, without opening it.

    Args:
        simulator: its name.
        python: the interpreter that it will run in; this one if None. Another one is started for
            the question, since the versions that count are those installed there.

    Raises:
        UsageError: unknown, or its packages are missing.
        WorkerLost: the other interpreter did not answer.
    """
    if python is None:
        return load_factory(simulator).describe()
    connection = Connection(python)
    try:
        connection.greet(START_TIMEOUT_S)
        reply = connection.call("describe", {"simulator": simulator}, within_s=START_TIMEOUT_S)
        with connection.reading():
            return messages.read_info(reply.body)
    finally:
        connection.close()


def open_simulator(
    settings: SimulatorSettings,
    *,
    envs: int,
    rollout_timeout_s: float,
    python: str | None = None,
    recycle_above_bytes: int | None = None,
    recycle_after_rollouts: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Simulator:
    """One simulator, ready for ``prepare``.

    Args:
        settings: which one, and its cameras.
        envs: ``--vla-envs``. 0 opens it in this process, for a debugger: no deadline, and a crash
            ends the run. Anything else gives a worker process, started at the first ``prepare``.
        rollout_timeout_s: see :class:`RemoteSimulator`.
        python: the worker's interpreter; this one if None.
        recycle_above_bytes, recycle_after_rollouts: see :class:`RemoteSimulator`.
        environment: variables for the worker, over ours.

    Raises:
        UsageError: the simulator's name or settings are wrong.
    """
    if envs == 0:
        return InProcessSimulator(load_factory(settings.simulator)(settings))
    return RemoteSimulator(
        settings,
        python=python,
        timeout_s=rollout_timeout_s,
        recycle_above_bytes=recycle_above_bytes,
        recycle_after_rollouts=recycle_after_rollouts,
        environment=environment,
    )
