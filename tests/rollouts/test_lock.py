"""A run's directory has one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.lock import held


def test_a_directory_is_held_by_one_at_a_time_and_given_back(tmp_path: Path) -> None:
    with held(tmp_path / "run"):
        with pytest.raises(UsageError, match="another run is writing to"), held(tmp_path / "run"):
            pytest.fail("two writers")
        with held(tmp_path / "other"):
            pass
    with held(tmp_path / "run"):
        pass


def test_a_file_in_the_way_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), held(tmp_path / "run"):
        pass
