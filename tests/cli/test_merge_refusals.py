"""What ``vla-shift merge`` refuses, naming both sides, and what it leaves when it is cut off."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.lock import held
from pytest_vla_shift.rollouts.sources import at_rest
from tests.cli.test_merge import PARTS, contents, merge, part, project, row_of
from tests.plugin.toy_project import ToyProject

__all__ = ["project"]

ERROR = pytest.CaptureFixture[str]


def refused(capsys: ERROR, *words: str) -> str:
    """What is said of a merge that is refused, which leaves nothing at all."""
    before = contents(Path())
    said = " ".join(merge(capsys, *words, code=2).split())
    assert contents(Path()) == before
    return said


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


OTHERS = {
    "another policy": (
        "plan.json",
        lambda plan: plan["policy"].update(revision="2"),
        'policy.revision is "1 sha256',
    ),
    "another argument": (
        "plan.json",
        lambda plan: plan["policy"]["args"].update(checkpoint="b"),
        'policy.args.checkpoint is not there in the first and "b" in the other',
    ),
    "another protocol": (
        "plan.json",
        lambda plan: plan["protocols"].update(toy_suite="abc"),
        'and "abc" in the other',
    ),
    "another simulator": (
        "plan.json",
        lambda plan: plan["versions"].update({"mujoco": "3.4.0"}),
        'versions.mujoco is not there in the first and "3.4.0" in the other',
    ),
    "another renderer": (
        "plan.json",
        lambda plan: plan["renderers"].update(toy="osmesa"),
        'and "osmesa" in the other',
    ),
    "another key": (
        "plan.json",
        lambda plan: plan["nodes"][0].__setitem__(12, "0" * 20),
        "has another shifted_key in each",
    ),
    "another node": (
        "plan.json",
        lambda plan: plan["nodes"][0].__setitem__(0, "test_toy.py::test_other[x]"),
        "was selected in the",
    ),
    "another version": (
        "run.json",
        lambda run: run.update(pytest_vla_shift="0.0.1"),
        "was made by pytest-vla-shift 0.0.1, and this is",
    ),
    "an older manifest": ("run.json", lambda run: run.update(schema=1), "has schema 1"),
    "a plan of garbage": ("plan.json", lambda plan: plan.clear(), "plan.json"),
    "places that are none": (
        "plan.json",
        lambda plan: plan["others"][0].__setitem__(0, 99),
        "plan.json",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_part_of_the_run_is_refused(
    project: ToyProject, what: str, capsys: ERROR
) -> None:
    file, change, words = OTHERS[what]
    edit(Path(part(2), file), change)
    said = refused(capsys, *PARTS)
    assert words in said
    assert part(2) in said
    if "is not" not in words and file == "plan.json" and "plan.json" not in words:
        assert f"{part(1)} and {part(2)} are not parts of one run" in said


def test_another_selection_is_refused_with_a_node_that_one_of_them_lacks(
    project: ToyProject, capsys: ERROR
) -> None:
    project.run("--vla-run=other", "--vla-shard=2/3", "--vla-axis=blur", code=0)
    said = refused(capsys, part(1), "reports/other-shard2of3")
    assert "reports/other-shard2of3 are not parts of one run: test_toy.py::test_shift[" in said
    assert " and 23 more was selected in the " in said


def test_two_outcomes_of_one_rollout_are_refused(project: ToyProject, capsys: ERROR) -> None:
    shutil.copytree(part(1), "reports/copy")
    changed = row_of("reports/copy", {"steps": 1, "instruction": "reach down"})
    said = refused(capsys, *PARTS, "reports/copy")
    (own,) = Path(part(1), "rollouts").glob("results-*")
    assert f"{own}, line " in said
    assert f"{changed}, line " in said
    assert "they differ in instruction, steps" in said


def test_a_row_of_another_schema_is_refused(project: ToyProject, capsys: ERROR) -> None:
    row_of(part(3), {"schema": 1})
    assert "a rollout of schema 1; this version" in refused(capsys, *PARTS)


def test_a_run_that_is_being_written_is_refused_and_can_be_merged_later(
    project: ToyProject, capsys: ERROR
) -> None:
    with held(Path(part(2))):
        assert f"{part(2)} is being written by a run" in merge(capsys, *PARTS, code=2)
        assert not Path("reports/merged").exists()
    merge(capsys, *PARTS)


def test_a_run_cannot_begin_in_what_is_being_merged(project: ToyProject) -> None:
    run = Path(part(1))
    with (
        at_rest(run),
        at_rest(run),
        pytest.raises(UsageError, match="another run is writing"),
        held(run),
    ):
        pytest.fail("a writer beside two readers")


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda out: (out / "notes.txt").write_text(""), "and no merge has written it"),
        (lambda out: (out / "merge.json").write_text("[]"), "and no merge has written it"),
        (
            lambda out: (out / "merge.json").write_text('{"files": 1}'),
            "and no merge has written it",
        ),
        (lambda out: (out.rmdir(), out.write_text("")), "and no merge has written it"),
    ],
)
def test_a_folder_in_use_is_not_written(
    project: ToyProject, spoil: Callable[[Path], object], words: str, capsys: ERROR
) -> None:
    out = Path("reports/merged")
    out.mkdir()
    spoil(out)
    assert words in refused(capsys, *PARTS)


def test_a_merge_of_other_runs_or_one_that_was_changed_is_not_taken_for_this_one(
    project: ToyProject, capsys: ERROR
) -> None:
    merge(capsys, *PARTS[:2])
    assert "is the merge of other runs" in refused(capsys, *PARTS)
    rows = Path("reports/merged/rollouts/results-merged.jsonl")
    before = rows.read_bytes()
    rows.write_bytes(before.replace(b'"attempts":1', b'"attempts":2', 1))  # as long as before
    assert "has been changed since" in refused(capsys, *PARTS[:2])
    rows.write_bytes(before)
    assert "is left as it is" in merge(capsys, *PARTS[:2])


def test_what_is_no_run_or_the_target_itself_is_refused(project: ToyProject, capsys: ERROR) -> None:
    assert "reports/none is no run's directory" in refused(capsys, *PARTS, "reports/none")
    assert "reports/merged is reports or within it" in refused(capsys, "reports")
    assert "suite.toml is no run's directory" in refused(capsys, "suite.toml")
    merge(capsys, *PARTS)
    assert "reports/merged is reports/merged or within it" in refused(capsys, "reports/merged")


def test_an_empty_folder_is_filled(project: ToyProject, capsys: ERROR) -> None:
    Path("reports/merged").mkdir()
    merge(capsys, *PARTS)
    assert Path("reports/merged/summary.json").is_file()
    merge(capsys, *PARTS[:2], code=2)


# Cut off


STRIKE = """
import os, pathlib, shutil, sys
from pytest_vla_shift.cli import main

where, times, signum = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
owner = shutil if where == "copyfile" else pathlib.Path
real = getattr(owner, where)

def strike(*arguments):
    global times
    times -= 1
    if times == 0:
        os.kill(os.getpid(), signum)
    return real(*arguments)

setattr(owner, where, strike)
sys.exit(main(sys.argv[4:]))
"""
"""A merge that gets a signal when it is about to copy its n-th file, or to give itself its name."""


@pytest.mark.parametrize(
    "where, times, signum",
    [
        ("copyfile", 1, signal.SIGKILL),
        ("copyfile", 30, signal.SIGKILL),
        ("rename", 1, signal.SIGKILL),
        ("copyfile", 30, signal.SIGINT),
    ],
)
def test_a_merge_that_is_cut_off_leaves_no_run_and_the_next_one_is_whole(
    project: ToyProject, where: str, times: int, signum: signal.Signals, capsys: ERROR
) -> None:
    arguments = [where, str(times), str(int(signum)), "merge", "reports/merged", *PARTS]
    command = [sys.executable, "-c", STRIKE, *arguments]
    ended = subprocess.run(command, env=project.env(), capture_output=True, check=False)
    assert ended.returncode == (-signal.SIGKILL if signum == signal.SIGKILL else 130), ended
    assert not Path("reports/merged").exists()
    work = Path("reports/.merged.merging")
    assert work.exists() == (signum == signal.SIGKILL)
    merge(capsys, *PARTS)
    assert not work.exists()
    assert project.summary("merged") == project.summary("whole")
    assert project.outcomes("merged") == project.outcomes("whole")


def test_a_full_disk_leaves_no_run_and_is_told_in_a_sentence(project: ToyProject) -> None:
    def no_file_above(size: int) -> Callable[[], None]:
        # As a disk that is full for whatever is larger: plan.json is, after all actions are not.
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    largest = max(path.stat().st_size for path in Path(part(1)).rglob("*.npz"))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest_vla_shift.cli", "merge", "reports/merged", *PARTS],
        env=project.env(),
        preexec_fn=no_file_above(largest + 1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "reports/merged cannot be written, and is not there" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(Path("reports").glob("*merg*")) == []
