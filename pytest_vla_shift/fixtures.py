"""What a suite's test asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vla_shift.pair import Pair
    from pytest_vla_shift.protocol.conditions import Condition


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> str:
    """The cell's id: ``<task suite>-<task>-e<episode>-<condition>``. Set for each node."""
    raise pytest.UsageError(
        f"{request.node.nodeid} asks for a cell, but its module has no suite: put a suite.toml"
        " beside it, or mark it with pytest.mark.vla_suite('quickstart')"
    )


@pytest.fixture
def condition(request: pytest.FixtureRequest, cell: str) -> Condition:
    """The cell's condition: its axis, level and parameters. Runs nothing."""
    from pytest_vla_shift.hooks import session_of

    return session_of(request.config).cell(request.node, cell)[1].condition


@pytest.fixture
def pair(request: pytest.FixtureRequest, cell: str) -> Pair:
    """The cell's clean and shifted rollouts, run now or found in the store.

    An infrastructure error in either arm is an error of the node, never a failure.
    """
    from pytest_vla_shift.hooks import session_of

    return session_of(request.config).pair(request.node, cell)
