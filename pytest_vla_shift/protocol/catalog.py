"""Which tasks the known simulators have, as data: a plan is made before any simulator starts."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class TaskSuite:
    """One group of tasks of one simulator.

    Attributes:
        name: for example ``libero_object``; unique over all simulators.
        simulator: the entry point of the simulator that runs it.
        tasks: task names in the official order.
        initial_states: the number of released initial states of each task.
        horizon: control steps after which an episode customarily ends.
    """

    name: str
    simulator: str
    tasks: tuple[str, ...]
    initial_states: int
    horizon: int


def find(name: str) -> TaskSuite | None:
    """The catalogued task suite of that name, or None."""
    return _catalogue().get(name)


def task_suites(simulator: str | None = None) -> tuple[str, ...]:
    """Names of all catalogued task suites, or of one simulator's, in catalogue order."""
    return tuple(
        suite.name for suite in _catalogue().values() if simulator in (None, suite.simulator)
    )


@functools.cache
def _catalogue() -> Mapping[str, TaskSuite]:
    """Every ``catalogs/<simulator>.toml`` of the package."""
    found: dict[str, TaskSuite] = {}
    folder = resources.files("pytest_vla_shift.protocol") / "catalogs"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".toml"):
            continue
        for name, table in tomllib.loads(file.read_text("utf-8")).items():
            found[name] = TaskSuite(
                name=name,
                simulator=file.name.removesuffix(".toml"),
                tasks=tuple(table["tasks"]),
                initial_states=int(table["initial_states"]),
                horizon=int(table["horizon"]),
            )
    return MappingProxyType(found)
