"""summary.md and summary.json: whole files, all numbers, Markdown that cannot be broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla_shift.reporting.summary import markdown, write_summary
from pytest_vla_shift.statistics.report import SCHEMA, build_report
from tests.reporting.runs import FACTS, SF, SS, odd_run
from tests.statistics.build import world


def test_json_has_the_counts_the_conditions_and_where_they_come_from(tmp_path: Path) -> None:
    _, path = write_summary(tmp_path / "run", odd_run())
    summary = json.loads(path.read_text("utf-8"))
    assert (summary["kind"], summary["schema"]) == ("summary", SCHEMA)
    assert summary["cells"] == {"planned": 24, "reported": 23, "missing": 1, "errors": 1}
    assert summary["facts"]["policy"] == "scripted"
    (suite,) = summary["suites"]
    assert suite["protocol"] == "a1b2c3"
    assert suite["missing"][0]["cell"] == "demo-place-e02-camera-L2"
    assert [c["condition"] for c in suite["conditions"]] == ["null", "camera-L1", "camera-L2"]
    worst = suite["conditions"][2]
    assert (worst["pairs"], worst["errors"], worst["missing"]) == (6, 1, 1)
    assert worst["dsr"] == 0.25
    assert {t["task"]: t["dsr"] for t in worst["tasks"]} == {"pick": 0.5, "place": 0.0}
    assert [m["milestone"] for m in worst["depth"]["first_incomplete"]] == ["g1", None]


def test_two_reports_of_the_same_records_are_the_same_files(tmp_path: Path) -> None:
    one = [path.read_bytes() for path in write_summary(tmp_path / "a", odd_run())]
    two = [path.read_bytes() for path in write_summary(tmp_path / "b", odd_run())]
    assert one == two


def test_files_are_replaced_whole_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("old")
    inode = (tmp_path / "summary.md").stat().st_ino
    write_summary(tmp_path, odd_run())
    assert (tmp_path / "summary.md").stat().st_ino != inode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["summary.json", "summary.md"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_summary(tmp_path, odd_run())
    before = (tmp_path / "summary.md").read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_summary(tmp_path, odd_run())
    assert (tmp_path / "summary.md").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["summary.json", "summary.md"]


def test_markdown_tables_are_rectangular() -> None:
    blocks = [b for b in markdown(odd_run()).split("\n\n") if b.startswith("|")]
    assert len(blocks) == 5  # conditions, tasks, beyond the papers, first incomplete, versions
    for block in blocks:
        columns = {row.replace("\\|", "").count("|") for row in block.splitlines()}
        assert len(columns) == 1


def test_markdown_tells_gaps_and_errors() -> None:
    text = markdown(odd_run())
    assert "24 planned, 23 reported, 1 missing, 1 with an infrastructure error" in text
    assert "Not reported: demo-place-e02-camera-L2" in text
    assert "| camera L2 | pick | g1 (first) | 1 |" in text
    assert "| camera L2 | pick | all complete, no official success | 1 |" in text


@pytest.mark.parametrize(
    "seeded,seedable,words",
    [
        (True, True, "policy seeded"),
        (False, True, "policy seed inert"),
        (False, False, "policy seed not supported"),
    ],
)
def test_markdown_tells_what_a_seed_does_and_which_weights_were_tested(
    seeded: bool, seedable: bool, words: str
) -> None:
    facts = replace(FACTS, seeded=seeded, seedable=seedable, checkpoint="night-7@sha256:12345678")
    text = markdown(odd_run(facts))
    assert f"({words})" in text
    assert "checkpoint `night-7@sha256:12345678`" in text
    assert "checkpoint" not in markdown(odd_run())


def test_names_cannot_break_the_markdown() -> None:
    outcomes = {"camera-L1": {"pick | *up* <b>x</b>\n_now_ [a](b)": [SS, SF]}}
    hostile = replace(FACTS, policy="my`policy|*x*", policy_revision="a`b", seeded=False)
    report = build_report(hostile, *world(outcomes), resamples=50)
    text = markdown(report)
    assert r"| pick \| \*up\* \<b\>x\</b\> \_now\_ [a\](b) |" in text
    assert r"# Robustness of my\`policy\|\*x\*" in text
    assert "revision `a b`" in text
