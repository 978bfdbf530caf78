"""``vla-shift merge``: shards as the one run that they are, and pieces of a run as well."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands.merge_runs import _listing
from pytest_vla_shift.rollouts.store import Store
from tests.cli.conftest import FAULT
from tests.plugin.toy_project import ToyProject


@pytest.fixture
def project(sharded: ToyProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyProject:
    """A copy of those runs, to be done with as one likes, and the working directory.

    Without most of their files: of Allure and of pictures.
    """
    few = shutil.ignore_patterns("allure-results", "frames")
    shutil.copytree(sharded.path, tmp_path / "toy", ignore=few)
    monkeypatch.chdir(tmp_path / "toy")
    return ToyProject(tmp_path / "toy")


@pytest.fixture
def complete(project: ToyProject, sharded: ToyProject) -> ToyProject:
    """The same with all files."""
    shutil.copytree(sharded.path, project.path, dirs_exist_ok=True)
    return project


def part(shard: int) -> str:
    return f"reports/part-shard{shard}of3"


PARTS = [part(shard) for shard in (1, 2, 3)]


def merge(capsys: pytest.CaptureFixture[str], *words: str, code: int = 1) -> str:
    """The output of ``vla-shift merge reports/merged``; what it says on stderr if it refuses."""
    found = main(["merge", "reports/merged", *words])
    told = capsys.readouterr()
    assert found == code, told
    return told.err if code == 2 else told.out


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below ``folder``, with when it was changed; folders as well."""
    return {
        f"{path.relative_to(folder)} {path.stat().st_mtime_ns}": path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def table(out: str) -> str:
    """From the table's title to the audit's line, without the notes' names of runs."""
    return out[out.index("toy_suite · policy") : out.index("\n", out.index("integrity:"))]


# As one run


def test_merged_shards_are_the_run_of_everything(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(project.path / "reports")
    out = merge(capsys, *PARTS)
    assert table(out) == table((project.path / "whole.txt").read_text())
    assert project.summary("merged") == project.summary("whole")
    assert project.only_suite("merged")["errors"] == 5
    assert project.outcomes("merged") == project.outcomes("whole")
    for name in ("plan.json", "audit-integrity.json"):
        merged, whole = (project.directory(run) / name for run in ("merged", "whole"))
        assert json.loads(merged.read_text()) == json.loads(whole.read_text())
    after = contents(project.path / "reports")
    assert {k: v for k, v in after.items() if not k.startswith("merged")} == before


def test_everything_that_a_row_refers_to_is_there(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL", reason="first frames need Pillow")
    key = str(complete.rows("part-shard2of3")[3]["key"])
    video = Path(part(2), "videos", f"{key}.mp4")
    video.parent.mkdir()
    video.write_bytes(b"a video")
    Path(part(1), "audit-toy_suite").mkdir()
    Path(part(1), "audit-toy_suite", "audit-pairing.json").write_text("{}")
    merge(capsys, *PARTS)
    merged, whole = complete.directory("merged"), complete.directory("whole")
    for folder in ("actions", "frames", "fingerprints"):
        copied, there = (
            {
                str(path.relative_to(run / "rollouts" / folder)): path.stat().st_size
                for path in (run / "rollouts" / folder).rglob("*.*")
            }
            for run in (merged, whole)
        )
        assert copied == there
        assert copied
    assert (merged / "videos" / f"{key}.mp4").read_bytes() == b"a video"
    assert (merged / "audit-toy_suite" / "audit-pairing.json").read_text() == "{}"


def allure(project: ToyProject, run: str) -> dict[tuple[str, ...], str]:
    """Name and history of every result -> what it says; what it refers to is checked."""
    folder = project.directory(run) / "allure-results"
    files = {path.name for path in folder.iterdir()}
    found: dict[tuple[str, ...], str] = {}
    uuids = set()
    for name in sorted(files):
        if name.endswith("-result.json"):
            result = json.loads((folder / name).read_text())
            attached = {item["source"] for item in result.get("attachments", ())}
            assert attached <= files
            key = result["fullName"], result["name"], result["historyId"]
            assert key not in found
            message = result.get("statusDetails", {}).get("message", "")
            found[key] = f"{result['status']} {len(attached)} {message}"
            uuids.add(result["uuid"])
    for name in files:
        if name.endswith("-container.json"):
            # allure-pytest writes some for nothing; they are not copied.
            children = json.loads((folder / name).read_text()).get("children")
            assert uuids.issuperset(children or ())
            assert children or run == "whole"
    return found


def test_allure_results_are_those_of_the_run_of_everything(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    merge(capsys, *PARTS)
    merged, whole = allure(complete, "merged"), allure(complete, "whole")
    assert merged == whole
    assert sum(name.startswith("test_shift[") for _, name, _ in merged) == 30
    for kind in ("*-result.json", "*-attachment.*", "categories.json", "environment.properties"):
        copied, there = (
            len(list(Path("reports", run, "allure-results").glob(kind)))
            for run in ("merged", "whole")
        )
        assert copied == there > 0


def test_the_order_of_the_shards_does_not_matter_nor_one_that_is_named_twice(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    merge(capsys, *PARTS)
    Path("reports/merged").rename("first")
    merge(capsys, *reversed(PARTS), PARTS[0])
    for name in ("plan.json", "summary.json", "run.json", "rollouts/results-merged.jsonl"):
        first, again = (Path(run, name).read_text() for run in ("first", "reports/merged"))
        assert first == again


def test_the_same_merge_again_changes_nothing(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    first = merge(capsys, *PARTS)
    before = contents(Path("reports/merged"))
    again = merge(capsys, *PARTS)
    assert contents(Path("reports/merged")) == before
    assert again == first + "It had been written before, and is left as it is.\n"


def test_the_same_runs_are_known_again_under_other_names(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    first = merge(capsys, *PARTS)
    for number, path in enumerate(PARTS):
        Path(path).rename(f"moved{3 - number}")
    again = merge(capsys, "moved1", "moved2", "moved3")
    assert again == first + "It had been written before, and is left as it is.\n"


def test_the_table_is_that_of_the_merged_folder(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "MISSING" not in merge(capsys, *PARTS)
    merged = Path("reports/merged")
    rows = merged / "rollouts" / "results-merged.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:-2]))
    record = json.loads((merged / "merge.json").read_text())
    (merged / "merge.json").write_text(json.dumps({**record, "files": _listing(merged)}))
    assert "of 30 planned nodes have no record" in merge(capsys, *PARTS)


def test_a_merged_run_is_a_run_for_every_command(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.environment["TOY_FAULTS"] = FAULT
    merge(capsys, *PARTS)
    for command in (["audit", "integrity"], ["stats"]):
        told = []
        for run in ("whole", "merged"):
            code = main([*command, f"reports/{run}"])
            told.append((code, capsys.readouterr().out.replace(run, "")))
        assert told[0] == told[1]
    # An audit and a table have been read from it, and written nothing that was not there before.
    merge(capsys, *PARTS)


# What is missing


def test_a_shard_that_is_missing_is_named_node_by_node_and_run_by_resuming(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    out = merge(capsys, PARTS[0], PARTS[2])
    planned = json.loads(Path(part(2), "run.json").read_text())["nodes"]
    assert Path("reports/merged/missing.txt").read_text().splitlines() == planned
    assert f"MISSING: {len(planned)} of 30 planned nodes have no record" in out
    assert all(f"  {node}\n" in out for node in planned)
    broken = [key for key, said in allure(complete, "merged").items() if "not reported" in said]
    assert sorted(name for _, name, _ in broken) == sorted(n.rpartition("::")[2] for n in planned)
    assert len(complete.only_suite("merged")["missing"]) == len(planned)

    known = {str(row["key"]) for row in complete.rows("merged")}
    errors = sum(row["status"] == "error" for row in complete.rows("merged"))
    complete.run("--vla-run=merged", code=1)
    rows = [str(row["key"]) for row in complete.rows("merged")]
    # What had a record was not run again, but for what had an error.
    assert len(rows) == 36 + errors
    assert sum(count > 1 for count in Counter(rows).values()) == errors
    assert known < set(rows)
    assert complete.only_suite("merged")["missing"] == []
    assert "has been changed since" in merge(capsys, PARTS[0], PARTS[2], code=2)


def test_twenty_missing_nodes_are_named_and_the_rest_counted(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    for shard, kept in ((1, 0), (2, 0), (3, 8)):
        (rows,) = Path(part(shard), "rollouts").glob("results-*")
        rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:kept]))
    out = merge(capsys, *PARTS)
    missing = Path("reports/merged/missing.txt").read_text().splitlines()
    assert len(missing) > 20
    assert out.count("  test_toy.py::") == 20
    assert (
        f"  ... and {len(missing) - 20} more\nall of them are in reports/merged/missing.txt" in out
    )


def test_bad_rows_are_named_and_their_cells_missing(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    (rows,) = Path(part(1), "rollouts").glob("results-*")
    text = rows.read_text()
    lines = text.splitlines()
    lines[3] = "garbage"
    rows.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:-9])
    out = " ".join(merge(capsys, *PARTS).split())
    assert f"{rows}, line 4 is not a record (" in out
    assert f"{rows}, line {len(lines)} is not a record (cut off in the middle" in out
    assert "MISSING: 2 of 30 planned nodes" in out


def test_a_shard_that_never_came_to_its_plan_is_noted(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(part(3))
    Path(part(3), "rollouts").mkdir(parents=True)
    out = " ".join(merge(capsys, *PARTS).split())
    assert f"note: {part(3)} has neither a plan nor records." in out
    Path(part(2), "plan.json").unlink()
    assert f"{part(2)}/plan.json is not there" in merge(capsys, *PARTS, code=2)


def test_an_empty_shard_is_merged_also_where_its_empty_folders_were_left_behind(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run("--vla-run=part", "--vla-shard=7/7", code=0)
    shutil.rmtree("reports/part-shard7of7/rollouts")
    merge(capsys, *PARTS, "reports/part-shard7of7")
    assert project.summary("merged") == project.summary("whole")


# Pieces


def test_pieces_of_one_run_are_merged_and_what_both_have_is_kept_once(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    # The third shard was copied elsewhere, and went on there without the fault.
    shutil.copytree(part(3), "reports/else-shard3of3")
    project.run("--vla-run=else", "--vla-shard=3/3", code=1)
    merge(capsys, *PARTS, "reports/else-shard3of3", code=0)
    rows = project.rows("merged")
    assert Counter(row["status"] for row in rows) == {"done": 36, "error": 1}
    assert len({row["key"] for row in rows}) == 36
    assert project.only_suite("merged")["errors"] == 0
    assert len(project.rows("merged", "started")) == 36
    records = Store(project.directory("merged"), "test").records()
    assert all(record.status == "done" for record in records.values())
    # The same run again finds all of it, and says by its exit code what one run says.
    project.run("--vla-run=merged", code=1)
    assert project.rows("merged") == rows


def damage(project: ToyProject, run: str, what: str) -> str:
    """Spoil one rollout's actions in a run; its key."""
    key = next(str(row["key"]) for row in project.rows(run) if row["status"] == "done")
    path = project.directory(run) / "rollouts" / "actions" / f"{key}.npz"
    if what == "gone":
        path.unlink()
    elif what == "garbage":
        path.write_bytes(b"PK\x03\x04 no more")
    else:
        other = next(p for p in path.parent.glob("*.npz") if p.read_bytes() != path.read_bytes())
        path.write_bytes(other.read_bytes())
    return key


@pytest.mark.parametrize("what", ["gone", "garbage", "another rollout's"])
def test_actions_come_from_a_run_that_has_them_whole_or_are_noted(
    project: ToyProject, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(part(1), "reports/copy")
    key = damage(project, "part-shard1of3", what)
    note = f"the actions of rollout {key} is missing or damaged in every run"
    assert note not in " ".join(merge(capsys, *PARTS, "reports/copy").split())
    whole = Path("reports/whole/rollouts/actions", f"{key}.npz").read_bytes()
    assert Path("reports/merged/rollouts/actions", f"{key}.npz").read_bytes() == whole
    shutil.rmtree("reports/merged")
    assert note in " ".join(merge(capsys, *PARTS).split())
    assert not Path("reports/merged/rollouts/actions", f"{key}.npz").exists()


def test_an_answer_without_an_allure_result_is_broken_there_and_not_missing(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(part(2), "allure-results")
    file = next(p for p in folder.glob("*-result.json") if '"test_shift[' in p.read_text())
    name = json.loads(file.read_text())["name"]
    file.write_text(file.read_text()[:50])  # as a killed process leaves it
    assert "MISSING" not in merge(capsys, *PARTS)
    (said,) = (said for key, said in allure(complete, "merged").items() if key[1] == name)
    assert said.startswith("broken 0 not reported: its rollouts are recorded")
    assert allure(complete, "merged").keys() == allure(complete, "whole").keys()
    shutil.rmtree(folder)
    shutil.rmtree("reports/merged")
    assert f"{part(2)} has no folder allure-results" in " ".join(merge(capsys, *PARTS).split())


def row_of(directory: str, change: Mapping[str, Any]) -> Path:
    """The file of rows of a run in which one measured row was changed."""
    (file,) = Path(directory, "rollouts").glob("results-*")
    lines = file.read_text().splitlines()
    at, row = next(
        (n, json.loads(line)) for n, line in enumerate(lines) if '"status":"done"' in line
    )
    lines[at] = json.dumps({**row, **change})
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_time_that_a_rollout_took_is_no_second_outcome(
    project: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(part(1), "reports/copy")
    row_of("reports/copy", {"timing": {"wall": 99.0}, "where": {"worker": "gw7"}, "attempts": 2})
    merge(capsys, "reports/copy", *PARTS)
    assert project.summary("merged") == project.summary("whole")


def test_a_hostile_name_leads_out_of_no_folder(
    complete: ToyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    row_of(part(1), {"fingerprint": "../../../../test_plain"})
    (complete.path / "test_plain.json").write_text("{}")
    result = next(Path(part(1), "allure-results").glob("*-result.json"))
    raw = json.loads(result.read_text())
    raw["attachments"] = [{"name": "x", "source": "../run.json", "type": "text/plain"}]
    result.write_text(json.dumps(raw))
    before = sorted(os.walk(complete.path))
    out = " ".join(merge(capsys, *PARTS).split())
    assert "the fingerprint of rollout" in out
    after = sorted(os.walk(complete.path))
    assert [
        w for w in after if "merged" not in w[0] and w[0] != str(complete.path / "reports")
    ] == [w for w in before if w[0] != str(complete.path / "reports")]
