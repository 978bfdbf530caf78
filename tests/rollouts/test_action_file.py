"""Executed actions on disk: NumPy's own format, written without NumPy's way around."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla_shift.rollouts.action_file import MEMBER, actions_bytes, read_actions

RANDOM = np.random.default_rng(3).normal(size=(160, 14))


@pytest.mark.parametrize(
    "actions",
    [np.zeros((1, 7)), RANDOM, RANDOM[:, ::2], np.asfortranarray(RANDOM), RANDOM[:0]],
    ids=["one", "many", "every other column", "Fortran order", "none"],
)
def test_numpy_and_the_store_read_what_is_written(
    actions: NDArray[np.float64], tmp_path: Path
) -> None:
    path = tmp_path / "k.npz"
    path.write_bytes(actions_bytes(actions))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [MEMBER]
    with np.load(path, allow_pickle=False) as loaded:
        assert loaded.files == ["actions"]
        assert loaded["actions"].dtype == np.float64
        np.testing.assert_array_equal(loaded["actions"], actions)
    found = read_actions(path)
    assert found is not None
    np.testing.assert_array_equal(found, actions)


def test_the_packed_numbers_are_those_of_numpys_own_file() -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, actions=RANDOM)
    ours, numpys = zipfile.ZipFile(io.BytesIO(actions_bytes(RANDOM))), zipfile.ZipFile(buffer)
    assert ours.read(MEMBER) == numpys.read(MEMBER)
    assert ours.getinfo(MEMBER).date_time == numpys.getinfo(MEMBER).date_time
