"""LIBERO-CTRL: 8,400 cells; with --vla-nominal, all 2,000 released initial states clean as well."""

import pytest

from pytest_vla_shift import Pair

pytestmark = pytest.mark.vla_suite("libero_ctrl")


def test_shift(pair: Pair) -> None:
    pair.assert_not_degraded()
