"""pytest within this process, for tests that need no rollouts: a tenth of a process's time.

pytester forgets whatever such a run has imported, and NumPy and SciPy refuse to be imported twice
in one process. So everything that a run without rollouts imports is imported here, once.
"""

from __future__ import annotations

import pytest

import pytest_vla_shift.hooks
import pytest_vla_shift.reporting.publish
import pytest_vla_shift.reporting.tables
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.request import check_axes
from tests.fakes import toy_policies, toy_simulator

__all__ = ["run"]

_KEPT = (pytest_vla_shift, toy_policies, toy_simulator)
check_axes(load_suite("quickstart"))


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest in pytester's folder, in this process."""
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *args)
