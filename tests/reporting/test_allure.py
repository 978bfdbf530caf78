"""Allure results, read back as the files that a report is generated from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.reporting.allure_writer import write_aggregates, write_broken
from pytest_vla_shift.rollouts.manifest import PlannedNode
from tests.reporting.runs import FACTS, odd_run

ROOT = Path(__file__).parents[2]
Result = dict[str, Any]

SUITE = """
import pytest

@pytest.mark.parametrize("cell", ["pick-e00-camera-L1", "pick-e00-camera-L2", "pick-e01-null"])
def test_shift(cell):
    if cell.endswith("L1"):
        pytest.fail("S>F degraded", pytrace=False)
    if cell.endswith("L2"):
        pytest.skip("F>F, nothing to compare")
"""

CONFTEST = """
import os
import pytest
from pathlib import Path
from pytest_vla_shift.reporting.allure_node import NodeStory, decorate

WORDS = {"L1": "S>F", "L2": "F>F", "null": "S>S"}

def draw():
    Path("drawn").touch()
    if "BROKEN" in os.environ:
        raise ValueError("sizes differ")
    return b"PNG"

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    *_, name = item.callspec.params["cell"].split("-")
    axis = "camera" if name != "null" else None
    decorate(NodeStory(
        policy="scripted", suite="demo", task="pick", condition=name,
        axis=axis, level=name if axis else None, transition=WORDS[name],
        parameters={"policy seed": int(os.environ["SEED"]), "sigma": 1.5},
        explanation="what happened",
        pictures={"first frames": draw},
        video=Path("pair.mp4") if name == "L1" else None,
    ))
    return (yield)
"""


def run_suite(folder: Path, *options: str, seed: str = "7", broken: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "test_demo.py").write_text(SUITE)
    (folder / "conftest.py").write_text(CONFTEST)
    environment = {"PYTHONPATH": str(ROOT), "SEED": seed, "PATH": "/usr/bin:/bin"}
    if broken:
        environment["BROKEN"] = "1"
    else:
        (folder / "pair.mp4").write_bytes(b"MP4")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:vla-shift", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # The outcomes are the suite's own, whatever happens to pictures and videos.
    assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr


def results(alluredir: Path) -> dict[str, Result]:
    found = [json.loads(p.read_text("utf-8")) for p in alluredir.glob("*-result.json")]
    by_name = {result["name"]: result for result in found}
    assert len(by_name) == len(found), "a result is there twice"
    return by_name


def labels(result: Result) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for label in result["labels"]:
        out.setdefault(label["name"], []).append(label["value"])
    return out


def test_a_node_carries_its_labels_and_attachments(tmp_path: Path) -> None:
    run_suite(tmp_path / "s", "--alluredir=out")
    out = tmp_path / "s" / "out"
    degraded = results(out)["test_shift[pick-e00-camera-L1]"]
    found = labels(degraded)
    assert degraded["status"] == "failed"
    for name, value in {
        "epic": "scripted",
        "feature": "camera",
        "story": "L1",
        "parentSuite": "demo",
        "suite": "pick",
        "transition": "S>F",
        "tag": "S>F",
    }.items():
        assert found[name] == [value], name
    content = {a["name"]: (a["type"], (out / a["source"])) for a in degraded["attachments"]}
    assert content["first frames"][0] == "image/png"
    assert content["first frames"][1].read_bytes() == b"PNG"
    assert content["clean | shifted"][0] == "video/mp4"
    assert content["clean | shifted"][1].read_bytes() == b"MP4"
    assert "what happened" in degraded["description"]
    null = results(out)["test_shift[pick-e01-null]"]
    assert labels(null)["feature"] == ["null"]
    assert "clean | shifted" not in {a["name"] for a in null["attachments"]}


def test_history_spans_seeds_and_two_xdist_workers_write_the_same_once(tmp_path: Path) -> None:
    run_suite(tmp_path / "s", "--alluredir=one", seed="7")
    run_suite(tmp_path / "s", "--alluredir=two", "-n2", seed="8")
    one, two = results(tmp_path / "s" / "one"), results(tmp_path / "s" / "two")
    assert {n: r["historyId"] for n, r in one.items()} == {
        n: r["historyId"] for n, r in two.items()
    }
    assert len({r["historyId"] for r in one.values()}) == 3
    (seed,) = [
        p for p in two["test_shift[pick-e01-null]"]["parameters"] if p["name"] == "policy seed"
    ]
    assert (seed["value"], seed["excluded"]) == ("8", True)


def test_nothing_is_drawn_when_allure_does_not_collect(tmp_path: Path) -> None:
    run_suite(tmp_path / "s")
    assert not (tmp_path / "s" / "drawn").exists()
    run_suite(tmp_path / "s", "--alluredir=out")
    assert (tmp_path / "s" / "drawn").exists()


def test_what_cannot_be_attached_is_told_and_turns_no_verdict(tmp_path: Path) -> None:
    run_suite(tmp_path / "s", "--alluredir=out", broken=True)
    out = tmp_path / "s" / "out"
    degraded = results(out)["test_shift[pick-e00-camera-L1]"]
    assert degraded["status"] == "failed"
    told = {a["name"]: (out / a["source"]).read_text() for a in degraded["attachments"]}
    assert told["first frames"] == "no picture: sizes differ"
    assert told["clean | shifted"] == "no video: pair.mp4 is not there"


def node(cell: str, level: str | None = "L1") -> PlannedNode:
    return PlannedNode(
        node=f"test_demo.py::test_shift[{cell}]",
        suite="demo",
        cell=cell,
        task_suite="libero_object",
        task="pick",
        episode=0,
        condition=f"camera-{level}" if level else "null",
        axis="camera" if level else None,
        level=level,
        replicate=0,
        axes=("camera",) if level else (),
        clean_key="c",
        shifted_key="s",
    )


def test_a_node_that_nobody_reported_is_broken_under_the_history_it_would_have(
    tmp_path: Path,
) -> None:
    run_suite(tmp_path / "s", "--alluredir=real")
    cells = ("pick-e00-camera-L1", "pick-e00-camera-L2")
    nodes = [node(cells[0]), node(cells[1], "L2"), node("pick-e01-null", None)]
    assert write_broken(tmp_path / "gap", "scripted", nodes, "its worker crashed") == 3
    real, gap = results(tmp_path / "s" / "real"), results(tmp_path / "gap")
    assert set(gap) == set(real)
    for name, result in gap.items():
        for field in ("historyId", "testCaseId", "fullName", "titlePath"):
            assert result[field] == real[name][field], field
        assert result["status"] == "broken"
        assert result["statusDetails"]["message"] == "not reported: its worker crashed"
        assert labels(result)["transition"] == ["error"]
        for label in ("epic", "feature", "parentSuite", "suite"):
            want = labels(real[name])[label]
            assert labels(result)[label] == want, label


def test_full_names_of_folders_and_classes(tmp_path: Path) -> None:
    deep = replace(node("a"), node="suites/demo/test_x.py::TestAll::test_shift[a]")
    write_broken(tmp_path, "scripted", [deep], "gone")
    (result,) = results(tmp_path).values()
    assert result["fullName"] == "suites.demo.test_x.TestAll#test_shift"
    assert result["name"] == "test_shift[a]"


def test_each_condition_has_one_aggregate_with_its_numbers(tmp_path: Path) -> None:
    assert write_aggregates(tmp_path, odd_run()) == 3
    found = results(tmp_path)
    assert set(found) == {"dSR null (floor)", "dSR camera L1", "dSR camera L2"}
    worst = found["dSR camera L2"]
    assert worst["status"] == "passed"
    assert "dSR +.250" in worst["statusDetails"]["message"]
    assert "S>S 3, S>F 2, F>S 0, F>F 1; 6 pairs, 1 with an error" in worst["description"]
    marks = labels(worst)
    assert (marks["epic"], marks["feature"], marks["story"]) == (["scripted"], ["camera"], ["L2"])
    assert (marks["parentSuite"], marks["suite"]) == (["demo"], ["aggregates"])
    (attachment,) = worst["attachments"]
    assert "camera L2" in (tmp_path / attachment["source"]).read_text("utf-8")
    # One shared file would be shown in one of the results only.
    assert len({result["attachments"][0]["source"] for result in found.values()}) == 3


def test_aggregates_keep_their_history_over_revisions(tmp_path: Path) -> None:
    write_aggregates(tmp_path / "a", odd_run())
    write_aggregates(tmp_path / "b", odd_run(replace(FACTS, policy_revision="sha256:other")))
    one, two = results(tmp_path / "a"), results(tmp_path / "b")
    ids = {name: result["historyId"] for name, result in one.items()}
    assert len(set(ids.values())) == 3
    assert ids == {name: result["historyId"] for name, result in two.items()}


def test_environment_is_a_properties_file_that_reads_back(tmp_path: Path) -> None:
    odd = replace(FACTS, run="night: run=1 \\ é", versions={"some lib": "1.0 rc"})
    write_aggregates(tmp_path, odd_run(odd))
    lines = (tmp_path / "environment.properties").read_text("ascii").splitlines()
    assert r"run=night\:\ run\=1\ \\\ \u00e9" in lines
    assert r"version.some\ lib=1.0\ rc" in lines
    assert "protocol.demo=a1b2c3" in lines
    assert not list(tmp_path.glob("*.tmp"))


def test_categories_match_the_words_that_nodes_fail_with(tmp_path: Path) -> None:
    import re

    run_suite(tmp_path / "s", "--alluredir=out")
    write_aggregates(tmp_path / "s" / "out", odd_run())
    categories = json.loads((tmp_path / "s" / "out" / "categories.json").read_text())

    def category(result: Result) -> list[str]:
        return [
            c["name"].partition(":")[0]
            for c in categories
            if result["status"] in c["matchedStatuses"]
            and re.fullmatch(c.get("messageRegex", r"[\s\S]*"), result["statusDetails"]["message"])
        ]

    found = results(tmp_path / "s" / "out")
    assert category(found["test_shift[pick-e00-camera-L1]"]) == ["Degraded"]
    assert category(found["test_shift[pick-e00-camera-L2]"]) == ["Unsolved"]


@pytest.mark.skipif(shutil.which("allure") is None, reason="needs npm's allure on PATH")
def test_allure_generates_a_report_of_nodes_aggregates_and_gaps(tmp_path: Path) -> None:
    run_suite(tmp_path / "s", "--alluredir=out")
    out = tmp_path / "s" / "out"
    write_aggregates(out, odd_run())
    write_broken(out, "scripted", [node("pick-e02-camera-L1")], "its worker crashed")
    command = ["allure", "generate", str(out), "-o", str(tmp_path / "html")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "html" / "index.html").is_file()
    pages = [p.read_text("utf-8") for p in (tmp_path / "html").rglob("*.json")]
    for name in ("dSR camera L2", "pick-e02-camera-L1", "pick-e00-camera-L1"):
        assert any(name in page for page in pages), name
