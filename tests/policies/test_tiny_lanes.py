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
    runs = {"alone": [], "lanes": ["--vla-envs=2"], "processes": ["-n2"]}
    for name, options in runs.items():
        made.run(f"--vla-run={name}", *options, *given, *cut, policy=POLICY, code=0)
    rows = made.outcomes("alone")
    assert made.outcomes("lanes") == rows
    assert made.outcomes("processes") == rows
    assert {row["status"] for row in rows} == {"done"}
    assert {row["seed_note"] for row in rows} == {"shared", "other"}
    where = {row["where"]["lane"] for row in made.rows("lanes")}  # type: ignore[index]
    assert len(where) == 2
    assert len({row["actions_digest"] for row in rows}) == len(rows)  # it looked and drew
