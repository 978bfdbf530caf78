"""Compounds, the nominal pass and the replicate through a real pytest run on the toy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.inprocess import Inside
from tests.plugin.toy_project import SUITE, ToyProject

TEXT = SUITE.replace("null = true", "null = false\nsimultaneous = true").replace(
    'episodes = "0:3"', 'episodes = [1, 4]\nnominal = "0:6"'
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> ToyProject:
    return Inside(pytester.path, suite=TEXT, pytester=pytester)


def by_condition(project: ToyProject, run: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in project.rows(run):
        name = str(row["condition"]) + (" r1" if row["replicate"] else "")
        found.setdefault(name, []).append(row)
    return found


def test_all_at_once_records_every_axis_with_its_own_receipts(project: ToyProject) -> None:
    project.run("--vla-run=all", "--vla-level=1", code=0)
    rows = by_condition(project, "all")
    assert {name: len(found) for name, found in rows.items()} == {
        **{"clean": 4, "base-L1": 4, "blur-L1": 4, "simultaneous-L1": 4}
    }
    for row in rows["simultaneous-L1"]:
        place = row["task"], row["episode"]
        singles = [
            r for n in ("base-L1", "blur-L1") for r in rows[n] if (r["task"], r["episode"]) == place
        ]
        assert row["interventions"] == [r["interventions"][0] for r in singles]
        assert row["receipts"] == [receipt for r in singles for receipt in r["receipts"]]
        assert (row["axis"], row["level"]) == ("simultaneous", "L1")
        assert row["fingerprint"] == singles[0]["fingerprint"]


def test_the_plan_counts_what_was_asked_for_on_top(project: ToyProject) -> None:
    out = project.run("--vla-list", "--vla-nominal", "--vla-replicate", code=0).out
    assert "  compound simultaneous: L1\n" in out
    assert "  nominal pass: 12 initial states\n" in out
    assert "  replicate: every compared cell again with another policy seed\n" in out
    # 4 episodes x 5 conditions x 2, and 12 nominal ones; clean: 12, and 4 of the replicate.
    assert "  52 nodes, 56 rollouts: 40 shifted or null, 16 clean\n" in out


def test_the_nominal_pass_runs_every_state_once_and_shares_it(project: ToyProject) -> None:
    ended = project.run("--vla-run=nominal", "--vla-nominal", "--vla-axis=blur", code=0)
    rows = by_condition(project, "nominal")
    assert {name: len(found) for name, found in rows.items()} == {"clean": 12, "blur-L1": 4}
    suite = project.only_suite("nominal")
    assert suite["nominal"]["total"] == {
        **{"task_suite": "", "tasks": 2, "rollouts": 12, "successes": 12, "sr": 1.0}
    }
    assert suite["clean"]["rollouts"] == 4
    assert "nominal: 12 of 12 solved" in ended.out
    assert "4 robust" in ended.out
    assert "12 solved" in ended.out


def test_an_unsolved_nominal_state_is_skipped_and_counted(project: ToyProject) -> None:
    ended = project.run("--vla-run=n", "--vla-nominal", "--vla-axis=blur", policy="zero", code=0)
    messages = [
        json.loads(path.read_text())["statusDetails"]["message"]
        for path in (project.directory("n") / "allure-results").glob("*-result.json")
    ]
    assert sum("F, nominal and not solved" in message for message in messages) == 12
    assert project.only_suite("n")["nominal"]["total"]["successes"] == 0
    assert "16 unsolved" in ended.out


def test_a_nominal_state_with_an_error_is_in_no_rate(pytester: pytest.Pytester) -> None:
    text = TEXT.replace('"reach_right"', '"reach_right_simerror"')
    project = Inside(pytester.path, suite=text, pytester=pytester)
    project.run("--vla-run=e", "--vla-nominal", "--vla-axis=blur", "--vla-task=right", code=2)
    nominal = project.only_suite("e")["nominal"]
    assert (nominal["total"]["rollouts"], nominal["total"]["sr"]) == (0, None)
    assert nominal["planned"] == nominal["errors"] + nominal["missing"] == 6
    assert nominal["errors"] == 3  # then the run stopped: nothing had worked


def test_a_replicate_has_a_clean_arm_of_its_own_and_stays_apart(project: ToyProject) -> None:
    project.run("--vla-run=r", "--vla-replicate", "--vla-level=1", code=0)
    rows = by_condition(project, "r")
    assert {name: len(found) for name, found in rows.items()} == {
        **{"clean": 4, "base-L1": 4, "blur-L1": 4, "simultaneous-L1": 4},
        **{"clean r1": 4, "base-L1 r1": 4, "blur-L1 r1": 4, "simultaneous-L1 r1": 4},
    }
    conditions = project.only_suite("r")["conditions"]
    assert [(c["condition"], c["replicate"], c["pairs"]) for c in conditions] == [
        (name, replicate, 4)
        for replicate in (0, 1)
        for name in ("base-L1", "blur-L1", "simultaneous-L1")
    ]


def test_a_subset_is_asked_for_by_name(pytester: pytest.Pytester) -> None:
    project = Inside(pytester.path, pytester=pytester)
    project.run("--vla-run=c", "--vla-axis=blur", "--vla-compound=blur+base", code=0)
    names = {str(row["condition"]) for row in project.rows("c")}
    assert names == {"clean", "blur-L1", "simultaneous-L1"}


@pytest.mark.parametrize(
    "option, message",
    [
        ("--vla-compound=blur+wind", "suite 'toy_suite' has no axis 'wind'"),
        ("--vla-compound=blur", "'blur' is not two axes or more"),
        ("--vla-compound=blur+", "'blur+' is not like camera+lighting"),
        ("--vla-configuration=7", "no suite of this run has '7'"),
    ],
)
def test_what_cannot_be_is_a_usage_error(project: ToyProject, option: str, message: str) -> None:
    ended = project.run(option, code=4)
    assert message in ended.out
    assert not project.rows("x")


def test_replay_commands_bring_the_extras_along(project: ToyProject) -> None:
    text = TEXT.replace("sigma_xy_m = 0.001", "sigma_xy_m = 1.0")
    (project.path / "suite.toml").write_text(text, "utf-8")
    ended = project.run(
        "--vla-run=b", "--vla-replicate", "--vla-axis=base", "--vla-level=1", code=1
    )
    (replay, *_) = [line for line in ended.out.splitlines() if "-r1]" in line and "replay" in line]
    assert "--vla-replicate" in replay


def test_both_parts_of_a_compound_are_in_the_allure_parameters(project: ToyProject) -> None:
    project.run("--vla-run=a", "--vla-axis=simultaneous", "--vla-episodes=1", code=0)
    results = (project.directory("a") / "allure-results").glob("*-result.json")
    names = {
        p["name"]
        for path in results
        for p in json.loads(path.read_text())["parameters"]
        if p["name"].startswith("shift ")
    }
    assert names == {"shift base", "shift blur"}
