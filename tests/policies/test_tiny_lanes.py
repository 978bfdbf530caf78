"""Rollouts of ``tiny`` side by side, in one process and in two: the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

from tests.plugin.toy_project import SUITE, ToyProject
from tests.policies.tiny_models import Recipe

POLICY = "tests.fakes.tiny_on_toy:OnToy"


def test_the_rows_are_the_same_whatever_runs_beside(tmp_path: Path) -> None:
    suite = SUITE.replace("height = 16\nwidth = 16", "height = 128\nwidth = 128")
    suite = suite.replace('"0:3"', '"0:2"').replace("horizon = 60", "horizon = 24")
    made = ToyProject(tmp_path / "project", suite=suite, options=("--vla-video=off",))
    path = Recipe(bias=-1.0, mean=0.1).write(tmp_path)
    given = [f"--vla-policy-arg=weights={path}", "--vla-policy-arg=temperature=0.5"]
    cut = ["--vla-axis=base,null", "--vla-level=L1"]
    made.run("--vla-run=alone", "--vla-envs=0", *given, *cut, policy=POLICY, code=0)
    made.run("--vla-run=beside", "--vla-envs=2", "-n2", *given, *cut, policy=POLICY, code=0)
    rows = made.outcomes("alone")
    assert made.outcomes("beside") == rows
    assert {row["status"] for row in rows} == {"done"}
    assert {row["seed_note"] for row in rows} == {"shared", "other"}
    where = [row["where"] for row in made.rows("beside")]
    assert len({(place["worker"], place["lane"]) for place in where}) > 1  # type: ignore[index]
    assert len({row["actions_digest"] for row in rows}) == len(rows)  # it looked and drew
