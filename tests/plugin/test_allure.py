"""What Allure gets of every node, read back from its own result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.reporting.pictures import decode_png
from tests.plugin.toy_project import ToyProject

Result = dict[str, Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    project = ToyProject(tmp_path_factory.mktemp("allure"), options=("--vla-envs=0",))
    project.environment["TOY_FAULTS"] = "reach_right/2=simerror"
    project.run("--vla-run=a", "--vla-axis=null,base", code=1)
    return project


def folder(project: ToyProject) -> Path:
    return project.directory("a") / "allure-results"


def nodes(project: ToyProject) -> dict[str, Result]:
    """Node name -> result."""
    found: dict[str, Result] = {}
    for file in folder(project).glob("*-result.json"):
        result = json.loads(file.read_text())
        assert result["name"] not in found, "twice"
        found[result["name"]] = result
    return found


def labels(result: Result) -> dict[str, str]:
    return {label["name"]: label["value"] for label in result["labels"]}


def attachments(result: Result) -> dict[str, tuple[str, str]]:
    """Name -> type and file name."""
    return {a["name"]: (a["type"], a["source"]) for a in result.get("attachments", ())}


def test_every_node_and_every_condition_has_one_result(project: ToyProject) -> None:
    names = nodes(project)
    cells = [name for name in names if name.startswith("test_shift[")]
    assert len(cells) == 24
    assert len(names) == 24 + 4


def test_a_degraded_pair_is_failed_and_shows_everything(project: ToyProject) -> None:
    degraded = [r for r in nodes(project).values() if labels(r).get("transition") == "S>F"]
    assert degraded
    for result in degraded:
        assert result["status"] == "failed"
        assert "S>F degraded" in result["statusDetails"]["message"]
        found = labels(result)
        assert found["epic"] == "tests.fakes.toy_policies:Expert"
        assert found["feature"] == "base"
        assert found["story"] in ("L2", "L3")
        assert found["suite"] in ("reach_left", "reach_right")
        shown = attachments(result)
        kind, source = shown["clean | shifted"]
        assert kind == "video/mp4"
        assert (folder(project) / source).stat().st_size > 500
        assert "sigma_xy_m" in result["description"]
        assert "replay   pytest" in result["description"]


def test_every_measured_pair_shows_its_first_frames(project: ToyProject) -> None:
    for name, result in nodes(project).items():
        if not name.startswith("test_shift[") or labels(result)["transition"] == "error":
            continue
        kind, source = attachments(result)["first frame, clean | shifted"]
        assert kind == "image/png"
        picture = decode_png((folder(project) / source).read_bytes())
        # Two cameras below each other, two arms beside each other, and captions.
        assert picture.shape[0] > 2 * 16
        assert picture.shape[1] >= 2 * 16
        assert picture.std() > 0


def test_robust_pairs_pass_without_a_video(project: ToyProject) -> None:
    robust = [r for r in nodes(project).values() if labels(r).get("transition") == "S>S"]
    assert robust
    assert {r["status"] for r in robust} == {"passed"}
    assert all("clean | shifted" not in attachments(r) for r in robust)


def test_an_infrastructure_error_is_broken_never_failed(project: ToyProject) -> None:
    errors = [r for r in nodes(project).values() if labels(r).get("transition") == "error"]
    assert len(errors) == 4
    for result in errors:
        assert result["status"] == "broken"
        assert labels(result)["suite"] == "reach_right"


def test_the_history_of_a_node_spans_policy_seeds_and_revisions(project: ToyProject) -> None:
    for name, result in nodes(project).items():
        if name.startswith("test_shift["):
            kept = [p["name"] for p in result["parameters"] if not p.get("excluded")]
            assert kept == ["cell"]


def test_a_results_folder_of_the_users_own_is_kept(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    (own / "kept.txt").write_text("mine")
    options = ("--vla-axis=null", "--vla-task=reach_left", f"--alluredir={own}")
    project.run("--vla-run=o", *options, code=0)
    assert (own / "kept.txt").read_text() == "mine"
    assert len(list(own.glob("*-result.json"))) == 3 + 1
    assert not (project.directory("o") / "allure-results").exists()


def test_nothing_depends_on_allure_being_switched_on(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    options = ("--vla-axis=base", "--vla-task=reach_left", "-p", "no:allure_pytest")
    run = project.run("--vla-run=n", *options, code=1)
    assert "degraded" in run.out.splitlines()[-1]
    assert (project.directory("n") / "summary.md").exists()
