"""Hooks for conftest files and other plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vla_shift.pair import Pair
    from pytest_vla_shift.rollouts.record import RolloutRecord
    from pytest_vla_shift.statistics.report import RunReport


@pytest.hookspec
def pytest_vla_rollout_finished(config: pytest.Config, record: RolloutRecord) -> None:
    """A rollout was executed and its record is on disk.

    Called in the process that ran it (under xdist: the worker), once a rollout; not for rollouts
    that were found in the store.
    """


@pytest.hookspec
def pytest_vla_pair_finished(config: pytest.Config, pair: Pair) -> None:
    """Both arms of a cell are known, before the test's own assertions run.

    Called in the process that runs the node. Not called for a pair with an infrastructure error.
    """


@pytest.hookspec
def pytest_vla_aggregate(config: pytest.Config, report: RunReport) -> None:
    """The run's aggregates, once, in the controller, before they are written and printed."""
