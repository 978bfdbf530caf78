from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.toy_project import ToyProject


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    return ToyProject(tmp_path / "project")
