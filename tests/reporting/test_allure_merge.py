"""Of several runs' Allure results, one run's for each node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_vla_shift.reporting.allure_merge import FOLDER, merge_allure
from pytest_vla_shift.reporting.allure_writer import AGGREGATES, NOT_REPORTED


def put(run: Path, uuid: str, history: str, status: str, stop: int, **extra: Any) -> None:
    folder = run / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    result = {"uuid": uuid, "historyId": history, "status": status, "stop": stop, **extra}
    (folder / f"{uuid}-result.json").write_text(json.dumps(result))


def kept(target: Path) -> set[str]:
    return {path.name.removesuffix("-result.json") for path in target.glob("*-result.json")}


def test_an_answer_counts_before_a_break_and_a_later_answer_before_an_earlier(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    put(one, "a1", "a", "passed", 5)
    put(two, "a2", "a", "broken", 9)
    put(one, "b1", "b", "failed", 5)
    put(two, "b2", "b", "passed", 9)
    put(one, "c1", "c", "broken", 1)
    put(two, "d2", "d", "skipped", 1)
    target = tmp_path / "out"
    for runs in ([one, two], [two, one]):
        assert merge_allure(runs, target) == {"a", "b", "c", "d"}
        assert kept(target) == {"a1", "b2", "c1", "d2"}


def test_all_tries_of_the_run_that_counts_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "one", "a1", "a", "broken", 1)
    put(tmp_path / "one", "a2", "a", "passed", 2)
    put(tmp_path / "two", "a3", "a", "broken", 3)
    merge_allure([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    assert kept(tmp_path / "out") == {"a1", "a2"}


def test_a_runs_own_aggregates_and_gaps_are_not_taken(tmp_path: Path) -> None:
    put(tmp_path / "one", "x", "x", "passed", 1, fullName=f"{AGGREGATES}.suite#null")
    put(tmp_path / "one", "y", "y", "broken", 1, statusDetails={"message": f"{NOT_REPORTED}died"})
    assert merge_allure([tmp_path / "one", tmp_path / "none"], tmp_path / "out") == set()
    assert not (tmp_path / "out").exists()


def test_attachments_of_steps_and_fixtures_come_along(tmp_path: Path) -> None:
    folder = tmp_path / "one" / FOLDER
    deep = {"steps": [{"steps": [{"attachments": [{"source": "deep.txt"}]}]}]}
    put(tmp_path / "one", "a", "a", "passed", 1, attachments=[{"source": "top.txt"}], **deep)
    before = {"name": "pair", "attachments": [{"source": "fixture.txt"}]}
    container = {"uuid": "c", "children": ["a"], "befores": [before]}
    (folder / "c-container.json").write_text(json.dumps(container))
    (folder / "d-container.json").write_text(json.dumps({"uuid": "d", "children": ["gone"]}))
    for name in ("deep.txt", "top.txt", "fixture.txt", "nobodys.txt"):
        (folder / name).write_text(name)
    merge_allure([tmp_path / "one"], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("a-result.json", "c-container.json"),
        *("deep.txt", "top.txt", "fixture.txt"),
    }
