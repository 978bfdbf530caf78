"""What a suite's test asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vla_shift.audits import Audit
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


@pytest.fixture
def audit(request: pytest.FixtureRequest) -> Iterator[Audit]:
    """The audits of the module's suite; the test is skipped where no policy is evaluated."""
    from pytest_vla_shift.hooks import find_session

    session = find_session(request.config)
    if session is None:
        pytest.skip("a suite's audits run with a policy: --vla-policy=NAME, or vla-shift audit")
    from pytest_vla_shift.audits import Audit
    from pytest_vla_shift.collection import suite_reference
    from pytest_vla_shift.protocol.errors import UsageError

    try:
        suite, _ = session.load_suite(suite_reference(request.node))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    found = Audit(suite, session.run, session.engine, request.config)
    yield found
    found.close()
