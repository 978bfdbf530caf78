"""First frames on disk: written whole, read back, and left out where Pillow does not work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.rollouts import frames

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    frames.available.cache_clear()
    yield
    frames.available.cache_clear()


def picture(shade: int) -> Image:
    return np.full((16, 24, 3), shade, dtype=np.uint8)


def test_frames_come_back_under_their_cameras(tmp_path: Path) -> None:
    frames.write_frames(tmp_path / "key", {"front": picture(40), "wrist": picture(200)})
    found = frames.read_frames(tmp_path / "key")
    assert set(found) == {"front", "wrist"}
    assert found["front"].shape == (16, 24, 3)
    assert abs(int(found["front"].mean()) - 40) <= 1  # JPEG
    assert not list((tmp_path / "key").glob(".*"))


def test_a_damaged_picture_is_left_out(tmp_path: Path) -> None:
    frames.write_frames(tmp_path / "key", {"front": picture(40), "wrist": picture(200)})
    (tmp_path / "key" / "front.jpg").write_bytes(b"\x00 no picture")
    assert set(frames.read_frames(tmp_path / "key")) == {"wrist"}


def test_a_broken_pillow_costs_the_pictures_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in sys.modules makes an import of that name fail, as a broken library does.
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert not frames.available()
    frames.write_frames(tmp_path / "key", {"front": picture(40)})
    assert frames.read_frames(tmp_path / "key") == {}
    assert not (tmp_path / "key").exists()
