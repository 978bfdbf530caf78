"""What must stay true of the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.registry import BUILTIN

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE = 400

# Written in pieces: this file is searched as well.
FORBIDDEN = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.])/(?:" + "work|root|home/[a-z]+" + r")/",
        "file" + r"s\.pythonhosted|arti" + r"factory|nexus\.|dev" + r"pi\.",
    )
)


def tracked() -> list[Path]:
    """Files that git knows of; in an archive without git, all that are shipped."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("group", sorted(BUILTIN))
def test_entry_points_are_those_of_the_registry(group: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert project["entry-points"][f"pytest_vla_shift.{group}"] == BUILTIN[group]  # type: ignore[index]


def test_the_arrows_point_one_way() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 broken" in ended.stdout


def test_every_module_is_in_a_layer() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    named = {word for layer in contract["layers"] for word in re.findall(r"\w+", layer)}
    package = ROOT / "pytest_vla_shift"
    there = {path.stem for path in package.glob("*.py") if path.name != "__init__.py"}
    there |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert there == named


def test_no_module_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in (ROOT / "pytest_vla_shift").rglob("*.py")
    }
    assert lengths
    assert {path: n for path, n in lengths.items() if n > LONGEST_MODULE} == {}


def test_no_tracked_file_names_a_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(pattern.search(line) for pattern in FORBIDDEN):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
