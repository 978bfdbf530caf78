"""The factory behind a simulator's name."""

from __future__ import annotations

from pytest_vla_shift.protocol import catalog, registry
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.protocol import SimulatorFactory


def is_listed_only(name: str) -> bool:
    """Whether the catalogue knows the simulator's tasks, and nothing here can run them."""
    return bool(catalog.task_suites(name)) and name not in registry.targets("simulators")


def load_factory(name: str) -> SimulatorFactory:
    """The factory of an entry point's name, or of ``module:attr``.

    Raises:
        UsageError: unknown, not importable, or not a factory.
    """
    if is_listed_only(name):
        raise UsageError(
            f"the {name} simulator is not available in this version: suites of it can be listed"
            " (--vla-list), not run"
        )
    found = registry.load("simulators", name)
    if isinstance(found, type) or not callable(found) or not hasattr(found, "describe"):
        raise UsageError(
            f"simulator {name!r} is not a SimulatorFactory: an object that can be called with"
            " SimulatorSettings and has describe() (see simulators/protocol.py)"
        )
    factory: SimulatorFactory = found
    return factory
