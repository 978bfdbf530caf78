"""The factory behind a simulator's name."""

from __future__ import annotations

from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.protocol import SimulatorFactory


def load_factory(name: str) -> SimulatorFactory:
    """The factory of an entry point's name, or of ``module:attr``.

    Raises:
        UsageError: unknown, not importable, or not a factory.
    """
    found = registry.load("simulators", name)
    if isinstance(found, type) or not callable(found) or not hasattr(found, "describe"):
        raise UsageError(
            f"simulator {name!r} is not a SimulatorFactory: an object that can be called with"
            " SimulatorSettings and has describe() (see simulators/protocol.py)"
        )
    factory: SimulatorFactory = found
    return factory
