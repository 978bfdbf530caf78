"""Which initial states ``tiny`` may learn from: none that it is evaluated on."""

from __future__ import annotations

import functools

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.suite import load_suite

SUITES = ("libero_object", "libero_spatial", "libero_goal")
"""The task suites that ``tiny`` learns."""

FIRST = range(10)
"""States that quickstarts and first tries begin with: left out as well."""


@functools.cache
def evaluation(task_suite: str, task: str) -> tuple[int, ...]:
    """The ten evaluation states of a task: those that LIBERO-CTRL drew."""
    every = load_suite("libero_ctrl").all_episodes()
    return tuple(e.index for e in every if (e.task_suite, e.task) == (task_suite, task))


def training(task_suite: str, task: str) -> tuple[int, ...]:
    """Every released state but the ten of LIBERO-CTRL and the first ten: 30 or a few more."""
    held_out = {*evaluation(task_suite, task), *FIRST}
    suite = catalog.find(task_suite)
    assert suite is not None
    return tuple(index for index in range(suite.initial_states) if index not in held_out)


def tasks(task_suite: str) -> tuple[str, ...]:
    """The tasks of a suite, in its own order."""
    suite = catalog.find(task_suite)
    assert suite is not None
    return suite.tasks
