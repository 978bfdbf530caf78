from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.inprocess import Inside
from tests.plugin.survival import NULL, SESSIONS
from tests.plugin.toy_project import ToyProject


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    return ToyProject(tmp_path / "project")


@pytest.fixture
def inside(pytester: pytest.Pytester) -> Inside:
    """The same, run in this process."""
    return Inside(pytester.path, pytester=pytester)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """A run of ``survival.NULL`` to which nothing happened, ``r``. To be read only."""
    project = ToyProject(tmp_path_factory.mktemp("calm"))
    project.run("--vla-run=r", *NULL, code=0)
    return project


@pytest.fixture(scope="session")
def calm_sessions(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """The same by a policy with sessions."""
    project = ToyProject(tmp_path_factory.mktemp("calm"))
    project.run("--vla-run=r", *NULL, policy=SESSIONS, code=0)
    return project
