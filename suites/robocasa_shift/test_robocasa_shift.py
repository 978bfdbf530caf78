"""RoboCasa-Shift as published, on RoboCasa365. Its simulator is not in this version: list it."""

import pytest

from pytest_vla_shift import Pair

pytestmark = pytest.mark.vla_suite("robocasa_shift")


def test_shift(pair: Pair) -> None:
    pair.assert_not_degraded()
