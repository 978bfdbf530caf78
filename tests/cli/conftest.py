from __future__ import annotations

import pytest

from tests.plugin.toy_project import ToyProject

FAULT = "reach_right/2=simerror"
"""A clean arm with an error: five cells that are in no rate."""


@pytest.fixture(scope="session")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """One run of everything, ``whole``, and three shards of it, ``part-shard1of3`` to 3."""
    project = ToyProject(tmp_path_factory.mktemp("toy"))
    project.environment["TOY_FAULTS"] = FAULT
    (project.path / "test_plain.py").write_text("def test_plain(): pass\n")
    (project.path / "whole.txt").write_text(project.run("--vla-run=whole", code=1).out)
    for shard in (1, 2, 3):
        project.run("--vla-run=part", f"--vla-shard={shard}/3", code=1)
    return project
