"""RoboCasa-Shift's protocol on four LIBERO tasks: 20 episodes, clean and twelve conditions."""

import pytest

from pytest_vla_shift import Pair

pytestmark = pytest.mark.vla_suite("robocasa_shift_on_libero")


def test_shift(pair: Pair) -> None:
    pair.assert_not_degraded()
