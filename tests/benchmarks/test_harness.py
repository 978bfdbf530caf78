"""``python -m benchmarks``: one line a row, and an exit status that says whether all is well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rows import Row

FOLDER = Path(__file__).parents[2] / "benchmarks"

GOOD = """
from benchmarks.rows import Row

print("imports may print")

def rows():
    print("benchmarks may print")
    yield Row("a fast thing", 1.0, "ms", 2.0)
    yield Row("a big ratio", 7.0, "x", 5.0, at_least=True)

def long_rows():
    yield Row("a slow thing", 100.0, "s", 200.0)
"""
SHORT = 'from benchmarks.rows import Row\ndef rows():\n    yield Row("late", 3.0, "ms", 2.0)\n'
BROKEN = (
    "from benchmarks.rows import Row\n"
    'def rows():\n    yield Row("came", 1.0, "ms", 2.0)\n    raise OSError("no such engine")\n'
)
EMPTY = "def rows():\n    yield from ()\n"
BY_HAND = "def main():\n    raise SystemExit('only by hand')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the harness, with no benchmarks in it."""
    copy = tmp_path / "benchmarks"
    copy.mkdir()
    for name in ("__init__.py", "__main__.py", "rows.py"):
        shutil.copy(FOLDER / name, copy)
    return copy


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *options],
        cwd=folder.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_row_is_a_line_and_all_met_is_success(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / "by_hand.py").write_text(BY_HAND)
    ended = run(folder)
    first, second = ended.stdout.splitlines()
    assert first.split() == ["a", "fast", "thing", "1.00", "ms", "at", "most", "2.00", "ok"]
    assert second.split() == ["a", "big", "ratio", "7.00", "x", "at", "least", "5.00", "ok"]
    assert ended.returncode == 0


def test_long_rows_wait_to_be_asked_for(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    assert "a slow thing" in run(folder, "--long").stdout


def test_a_short_row_fails_the_run(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / "late.py").write_text(SHORT)
    ended = run(folder)
    assert [line.split()[-1] for line in ended.stdout.splitlines()] == ["ok", "ok", "short"]
    assert ended.returncode == 1


def test_a_benchmark_that_breaks_is_named_and_the_others_run(folder: Path) -> None:
    (folder / "broken.py").write_text(BROKEN)
    (folder / "good.py").write_text(GOOD)
    (folder / "empty.py").write_text(EMPTY)
    ended = run(folder)
    assert "benchmarks.broken broke: exit status 1, 1 rows" in ended.stdout
    assert "OSError: no such engine" in ended.stdout
    assert "benchmarks.empty broke: exit status 0, 0 rows" in ended.stdout
    assert ended.stdout.count("ok\n") == 3
    assert ended.returncode == 1


def test_only_runs_what_has_the_word(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / "late.py").write_text(SHORT)
    assert run(folder, "--only", "goo").returncode == 0
    nothing = run(folder, "--only", "nothing")
    assert nothing.returncode == 2
    assert "'nothing'" in nothing.stderr


def test_list_imports_and_runs_nothing(folder: Path) -> None:
    (folder / "good.py").write_text(f"raise SystemExit('imported')\n{GOOD}")
    ended = run(folder, "--list")
    assert ended.stdout.splitlines() == ["benchmarks.good", "benchmarks.good (--long)"]
    assert ended.returncode == 0


@pytest.mark.parametrize("value, ok", [(2.0, True), (2.001, False), (float("nan"), False)])
def test_a_target_is_met_up_to_itself(value: float, ok: bool) -> None:
    assert Row("", value, "s", 2.0).ok is ok
    assert Row("", value, "s", 2.0).line().endswith("ok" if ok else "short")


def test_figures_have_three_digits() -> None:
    shown = [Row("", value, "s", 0.0).line().split()[0] for value in (0.0123456, 2.5, 1234.5)]
    assert shown == ["0.0123", "2.50", "1234"]


def test_the_benchmarks_of_this_repository_are_found() -> None:
    ended = run(FOLDER, "--list")
    assert "benchmarks.plugin_load" in ended.stdout.splitlines()
