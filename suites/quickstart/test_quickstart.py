"""Three LIBERO tasks under RoboCasa-Shift's four axes and the null arm."""

import pytest

from pytest_vla_shift import Pair

pytestmark = pytest.mark.vla_suite("quickstart")


def test_shift(pair: Pair) -> None:
    pair.assert_not_degraded()
