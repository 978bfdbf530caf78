"""Fixtures that several modules of policies share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.lerobot_checkpoints import forget, stand_in


@pytest.fixture
def lerobot_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """``lerobot`` and ``torch`` are the stand-ins of tests/fakes/lerobot_site."""
    stand_in(monkeypatch)
    yield
    forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a checkpoint that is to be written."""
    return tmp_path / "checkpoint"
