"""The plan and the manifest on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import (
    PlannedNode,
    SessionPlan,
    check_manifest,
    plan_path,
    read_plan,
    write_manifest,
    write_plan,
)

PLAN = SessionPlan(
    policy={"name": "p", "args": {"k": "v"}},
    versions={"toy": "1"},
    renderers={"toy": "egl"},
    protocols={"small": "abc"},
    grid={"small": 30},
    suites={"small": "schema = 1"},
    nodes=(
        PlannedNode(
            "t.py::t[a]",
            "small",
            "a",
            "toy",
            "left",
            3,
            "base-L2",
            "base",
            "L2",
            0,
            ("base",),
            "c",
            "s",
        ),
        PlannedNode(
            "t.py::t[n]", "small", "n", "toy", "left", 3, "null", None, None, 1, (), "c", "n"
        ),
    ),
)


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    path = plan_path(tmp_path, "s1")
    assert read_plan(path) is None
    write_plan(path, PLAN)
    assert read_plan(path) == PLAN
    write_plan(path, PLAN)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert plan_path(tmp_path, "s2") != path


def test_a_shards_plan_knows_the_whole_selection_in_its_order(tmp_path: Path) -> None:
    first, last = PLAN.nodes
    elsewhere = [replace(first, node=f"t.py::t[{n}]", cell=str(n)) for n in range(3)]
    others = ((0, elsewhere[0]), (2, elsewhere[1]), (3, elsewhere[2]))
    plan = replace(PLAN, shard=(2, 3), others=others)
    write_plan(tmp_path / "plan.json", plan)
    read = read_plan(tmp_path / "plan.json")
    assert read == plan
    assert read.selection == (elsewhere[0], first, elsewhere[1], elsewhere[2], last)
    write_manifest(tmp_path, "s1", "0.1.0", {}, plan)
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert (manifest["planned"], manifest["shard"], manifest["in_other_shards"]) == (2, [2, 3], 3)
    for wrong in (((0, first), (0, last)), ((9, first),), ((-1, first),)):
        with pytest.raises(ValueError, match="one place in the selection"):
            _ = replace(plan, others=wrong).selection


def test_a_plan_from_before_there_were_shards_is_of_everything_that_was_selected(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, PLAN)
    raw = json.loads(path.read_text())
    del raw["shard"], raw["others"]
    path.write_text(json.dumps(raw))
    read = read_plan(path)
    assert read == PLAN
    assert read.selection == PLAN.nodes


def test_the_manifest_says_what_ran(tmp_path: Path) -> None:
    write_manifest(tmp_path, "s1", "0.1.0", {"envs": 1}, PLAN)
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert manifest["planned"] == 2
    assert manifest["nodes"] == ["t.py::t[a]", "t.py::t[n]"]
    assert manifest["options"] == {"envs": 1}
    assert manifest["policy"] == {"name": "p", "args": {"k": "v"}}
    assert manifest["protocols"] == {"small": "abc"}
    check_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}", "\x00"])
def test_a_manifest_that_says_nothing_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    check_manifest(tmp_path)


def test_no_manifest_is_no_trouble_and_another_schema_is(tmp_path: Path) -> None:
    check_manifest(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 1}')
    with pytest.raises(UsageError, match=r"run\.json has schema 1.*--vla-run"):
        check_manifest(tmp_path)
