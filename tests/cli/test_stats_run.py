"""``vla-shift stats RUN_DIR``: a run's records as a long table, with the run's own figures."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import kept_plan_path, read_plan
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.statistics.table_run import run_rows
from tests.plugin.test_compounds import TEXT
from tests.plugin.toy_project import ToyProject

MIXED = TEXT.replace("sigma_xy_m = 0.2,", "sigma_xy_m = 0.3,").replace(
    "L1 = { sigma_px = 1.0 }", "L1 = { sigma_px = 1.0 }\nL2 = { sigma_px = 2.0 }"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """A run with every kind of cell: levels, a compound, a nominal pass and a replicate."""
    made = ToyProject(tmp_path_factory.mktemp("toy"), suite=MIXED)
    made.run("--vla-run=r", "--vla-nominal", "--vla-replicate", code=1)
    return made


def as_json(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["stats", str(path), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def renamed(value: Any) -> Any:
    """A table has the run's suite in the place of the task suite."""
    return json.loads(json.dumps(value).replace('"toy_suite"', '"toy"'))


def test_the_figures_are_those_of_the_run(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run = renamed(project.only_suite("r"))
    blocks = renamed(as_json(project.directory("r"), capsys)["blocks"])
    assert [(b["suites"], b["replicate"]) for b in blocks] == [
        (["toy"], 0),
        (["toy"], 1),
    ]
    assert blocks[0]["policy"] == "tests.fakes.toy_policies:Expert"

    own = {(c["condition"], c["replicate"]): c for c in run["conditions"]}
    found = {
        (c["rates"]["condition"], b["replicate"]): c["rates"]
        for b in blocks
        for c in b["conditions"]
    }
    assert set(found) == set(own)
    assert len({rates["dsr"] for rates in found.values()}) > 1, "nothing to tell apart"
    # A table has no names of milestones: it knows the first from a later one, and no more.
    other = {"axes", "replicate", "depth"}
    for key, rates in found.items():
        same = [name for name in own[key] if name not in other]
        assert {n: rates[n] for n in same} == {n: own[key][n] for n in same}, key
        for name in ("pairs", "progress", "complete"):
            assert rates["depth"][name] == own[key]["depth"][name], (key, name)

    rates = {c["report"]["all"]["s_conj"]["value"] for c in run["compounds"]}
    assert len(rates) > 1, "nothing to tell apart"
    compounds = [c for b in blocks for c in b["compounds"]]
    assert [(c["axis"], c["level"], c["replicate"]) for c in compounds] == [
        *(("simultaneous", level, r) for r in (0, 1) for level in ("L1", "L2"))
    ]
    assert {c["report"]["all"]["n"] for c in compounds} == {4}
    assert compounds == run["compounds"]
    assert [r for b in blocks for r in b["replications"]] == run["replications"]

    total = run["nominal"]["total"]
    assert {name: blocks[0]["nominal"][name] for name in ("rollouts", "successes", "sr")} == {
        name: total[name] for name in ("rollouts", "successes", "sr")
    }
    assert total["rollouts"] == 12


def test_an_exported_table_says_the_same(
    project: ToyProject, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "t.csv"
    run = as_json(project.directory("r"), capsys, f"--export={target}")
    table = as_json(target, capsys)
    assert run.pop("source") != table.pop("source")
    # Rows cannot say that the policy was given ground truth.
    assert [note[:24] for note in run.pop("notes")] == ["the policy is privileged"]
    assert table.pop("notes") == []
    assert run == table
    rows = list(csv.DictReader(target.open()))
    counted = Counter((row["axis"], row["level"], row["replicate"]) for row in rows)
    assert counted["nominal", "", "0"] == 12
    assert counted["clean", "", "0"] == counted["clean", "", "1"] == 4
    assert counted["simultaneous", "L1", "1"] == 4
    assert main(["stats", str(target), f"--export={target}"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert as_json(target, capsys)["rows"] == len(rows)


def test_a_run_with_errors_has_rows_with_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ToyProject(tmp_path, suite=TEXT.replace('"reach_right"', '"reach_right_simerror"'))
    project.run("--vla-run=e", "--vla-axis=blur", code=1)
    run = project.only_suite("e")
    report = as_json(project.directory("e"), capsys)
    (block,) = report["blocks"]
    (own,), (condition,) = run["conditions"], block["conditions"]
    assert own["errors"] > 0
    for name in ("planned", "pairs", "errors", "ss", "sf", "fs", "ff", "dsr"):
        assert condition["rates"][name] == own[name], name
    assert block["clean_rate"]["rollouts"] == run["clean"]["rollouts"]


def test_an_unfinished_run_is_refused_with_the_number_of_its_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ToyProject(tmp_path)
    project.run("--vla-run=u", "--vla-axis=blur", code=0)
    (file,) = (project.directory("u") / "rollouts").glob("results-*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if '"axis":"blur"' in line)
    file.write_text("".join(line for n, line in enumerate(lines) if n != last))
    assert main(["stats", str(project.directory("u"))]) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert "1 of 6 planned cells are missing: " in ended.err
    assert "e02-blur-L1" in ended.err
    (tmp_path / "empty").mkdir()
    assert main(["stats", str(tmp_path / "empty")]) == 2
    assert "plan.json is not there" in capsys.readouterr().err
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_compound_whose_axes_were_not_all_run_keeps_their_names(project: ToyProject) -> None:
    directory = project.directory("r")
    plan = read_plan(kept_plan_path(directory))
    assert plan is not None
    records = Store(directory, "test").records()
    cut = replace(plan, nodes=tuple(n for n in plan.nodes if n.axis != "blur"))
    axes = {row.axis for row in run_rows(cut, records, "r").rows}
    assert axes == {"clean", "nominal", "base", "base+blur"}
    assert {row.axis for row in run_rows(plan, records, "r").rows} == {
        *("clean", "nominal", "base", "blur", "simultaneous")
    }


def test_tasks_of_several_task_suites_stay_distinct_and_other_records_are_counted(
    project: ToyProject,
) -> None:
    directory = project.directory("r")
    plan = read_plan(kept_plan_path(directory))
    assert plan is not None
    records = dict(Store(directory, "test").records())

    def elsewhere(found: Any) -> Any:
        return replace(found, task_suite="other") if found.task == "reach_left" else found

    moved = replace(plan, nodes=tuple(map(elsewhere, plan.nodes)))
    found = run_rows(moved, {key: elsewhere(r) for key, r in records.items()}, "r")
    assert {(row.suite, row.task) for row in found.rows} == {
        *(("toy_suite", "other/reach_left"), ("toy_suite", "toy/reach_right"))
    }
    cut = replace(plan, nodes=tuple(n for n in plan.nodes if n.task == "reach_left"))
    some = run_rows(cut, records, "r")
    assert {row.task for row in some.rows} == {"reach_left"}
    assert any("outside the plan" in note for note in some.notes)
    with pytest.raises(UsageError, match="asks for"):
        run_rows(moved, records, "r")


def test_arms_that_are_no_pair_have_no_outcome_in_the_table(project: ToyProject) -> None:
    directory = project.directory("r")
    plan = read_plan(kept_plan_path(directory))
    assert plan is not None
    records = dict(Store(directory, "test").records())
    node = next(n for n in plan.nodes if (n.condition, n.replicate) == ("blur-L1", 0))
    place = node.task, node.episode

    def outcome(found: Mapping[str, RolloutRecord]) -> tuple[bool | None, str | None]:
        (row,) = (
            row
            for row in run_rows(plan, found, "r").rows
            if (row.task, row.episode, row.condition, row.replicate) == (*place, "blur-L1", 0)
        )
        return row.success, row.error

    shifted = records[node.shifted_key]
    assert outcome(records) == (shifted.success, None)
    odd = replace(shifted, fingerprint="other")
    assert outcome({**records, node.shifted_key: odd}) == (None, "not a pair")
    lost = replace(
        records[node.clean_key], status="error", success=None, stages=None, error=("policy", "x")
    )
    assert outcome({**records, node.clean_key: lost}) == (None, "policy")


def test_that_a_policy_was_given_ground_truth_goes_along(project: ToyProject) -> None:
    directory = project.directory("r")
    plan = read_plan(kept_plan_path(directory))
    assert plan is not None
    records = Store(directory, "test").records()
    for privileged in (True, False):
        policy = {**plan.policy, "privileged": privileged}
        notes = run_rows(replace(plan, policy=policy), records, "r").notes
        assert any("privileged" in note for note in notes) is privileged
