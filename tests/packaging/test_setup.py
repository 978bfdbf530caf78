"""``scripts/setup.sh`` on machines that lack something, and what ``make demo`` calls a success.

The machines are made of a PATH with nothing in it but stand-ins that note how they were called.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup.sh"

# What a virtual environment's python is asked, answered as told by variables.
VENV_PYTHON = """#!/bin/sh
echo "python $*" >> "$LOG"
case "$*" in
*render_probe*)
    if [ -e "$GL_THERE" ]; then echo '{"probe": {"renderer": "llvmpipe"}}'; else echo broken; fi ;;
*install*"$PIP_FAILS"*) [ -z "$PIP_FAILS" ] || exit 1 ;;
esac
exit 0
"""

# A system python of a version that fits, or not, with or without venv.
SYSTEM_PYTHON = """#!/bin/sh
case "$*" in
*"version_info[:2] <="*) [ "$VERSION" = 3.11 ] || [ -e "$PYTHON_THERE" ] ;;
*"import ensurepip"*) [ -e "$VENV_THERE" ] ;;
*version_info*) echo 3.11 ;;
"-m venv "*) mkdir -p "$3/bin" && cp "$VENV_PYTHON" "$3/bin/python" ;;
esac
"""

APT = """#!/bin/sh
echo "apt-get $*" >> "$LOG"
case "$*" in
*libegl1*) touch "$GL_THERE" ;;
*venv*) touch "$VENV_THERE" "$PYTHON_THERE" ;;
esac
"""


@dataclass
class Machine:
    """A PATH of stand-ins."""

    folder: Path
    root: bool = True
    sudo: bool = False
    apt: bool = True
    version: str = "3.11"
    venv: bool = True
    gl: bool = True
    pip_fails: str = ""
    """In the arguments of the pip that fails."""

    def setup(self) -> subprocess.CompletedProcess[str]:
        """Run the script; the virtual environment goes into ``folder``."""
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("cp", "mkdir", "rm", "touch", "env", "sh", "true"):
            path = shutil.which(name)
            assert path is not None
            (programs / name).symlink_to(path)
        self._write("python3", SYSTEM_PYTHON)
        self._write("id", f"#!/bin/sh\necho {0 if self.root else 1000}\n")
        if self.sudo:
            self._write("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')
        if self.apt:
            self._write("apt-get", APT)
        python = self.folder / "venv-python"
        python.write_text(VENV_PYTHON)
        python.chmod(0o755)
        for name, there in (("gl", self.gl), ("venv", self.venv)):
            if there:
                (self.folder / f"{name}-there").touch()
        return subprocess.run(
            ["/bin/sh", str(SETUP), str(self.folder / "env")],
            cwd=ROOT,
            env={
                "PATH": str(programs),
                "LOG": str(self.folder / "log"),
                "VERSION": self.version,
                "VENV_PYTHON": str(python),
                "GL_THERE": str(self.folder / "gl-there"),
                "VENV_THERE": str(self.folder / "venv-there"),
                "PYTHON_THERE": str(self.folder / "python-there"),
                "PIP_FAILS": self.pip_fails,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def _write(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def log(self) -> list[str]:
        """How the stand-ins were called."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def ready(self) -> bool:
        """Whether the script called the environment ready."""
        return (self.folder / "env" / ".ready").exists()


def test_a_whole_machine_gets_an_environment_and_no_apt(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    ended = machine.setup()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert machine.ready
    assert any(
        "pip install" in line and ".[libero,tiny,video,dev]" in line for line in machine.log()
    )
    peers = "--no-deps -r tests/conformance/requirements.txt"
    assert any("pip install" in line and peers in line for line in machine.log())
    assert not any(line.startswith("apt-get") for line in machine.log())


@pytest.mark.parametrize(
    "lacking,package",
    [
        ({"version": "3.9"}, "python3 python3-venv"),
        ({"venv": False}, "python3.11-venv"),
        ({"gl": False}, "libegl1 libegl-mesa0 libgl1-mesa-dri libgl1 libosmesa6 libglib2.0-0"),
    ],
)
class TestWhatIsLacking:
    def test_root_gets_it_by_apt(
        self, tmp_path: Path, lacking: dict[str, bool], package: str
    ) -> None:
        machine = Machine(tmp_path, **lacking)  # type: ignore[arg-type]  # one field of it
        ended = machine.setup()
        assert ended.returncode == 0, ended.stdout + ended.stderr
        apt = [line for line in machine.log() if line.startswith("apt-get")]
        assert apt[0].startswith("apt-get update")
        assert apt[1].endswith(package)
        assert machine.ready

    def test_a_user_with_sudo_gets_it_by_apt(
        self, tmp_path: Path, lacking: dict[str, bool], package: str
    ) -> None:
        machine = Machine(tmp_path, root=False, sudo=True, **lacking)  # type: ignore[arg-type]
        ended = machine.setup()
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert any(line.endswith(package) for line in machine.log())

    def test_a_user_without_is_told_the_line(
        self, tmp_path: Path, lacking: dict[str, bool], package: str
    ) -> None:
        machine = Machine(tmp_path, root=False, **lacking)  # type: ignore[arg-type]
        ended = machine.setup()
        assert ended.returncode == 1
        assert f"sudo apt-get update && sudo apt-get install -y {package}" in ended.stdout
        assert not any(line.startswith("apt-get") for line in machine.log())
        assert not machine.ready

    def test_a_machine_without_apt_is_told_too(
        self, tmp_path: Path, lacking: dict[str, bool], package: str
    ) -> None:
        machine = Machine(tmp_path, apt=False, **lacking)  # type: ignore[arg-type]
        ended = machine.setup()
        assert ended.returncode == 1
        assert "There is no apt-get here" in ended.stdout
        assert package in ended.stdout


@pytest.mark.parametrize("which", ["-e .[libero", "--no-deps -r tests/conformance"])
def test_a_failing_pip_stops_the_setup(tmp_path: Path, which: str) -> None:
    machine = Machine(tmp_path, pip_fails=which)
    ended = machine.setup()
    assert ended.returncode == 1
    assert "pip could not install" in ended.stdout
    assert not machine.ready


def test_make_does_not_set_up_twice(tmp_path: Path) -> None:
    venv = tmp_path / "env"
    venv.mkdir()
    (venv / ".ready").touch()
    os.utime(venv / ".ready", (2**31, 2**31))
    ended = subprocess.run(
        ["make", "-n", "setup", f"VENV={venv}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "setup.sh" not in ended.stdout
    os.utime(venv / ".ready", (1, 1))  # older than pyproject.toml
    ended = subprocess.run(
        ["make", "-n", "setup", f"VENV={venv}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"sh scripts/setup.sh {venv}" in ended.stdout


@pytest.fixture
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_script", ROOT / "scripts" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "code,reported,errors,degraded,whole",
    [
        (0, 4, 0, 0, True),
        (1, 4, 0, 2, True),  # degraded pairs are a result
        (1, 3, 0, 2, False),  # a cell is missing
        (1, 4, 1, 2, False),  # a cell was not measured
        (1, 4, 0, 0, False),  # something failed, and it was no pair
    ],
)
def test_a_demo_is_whole_when_every_cell_has_an_answer(
    demo: ModuleType, code: int, reported: int, errors: int, degraded: int, whole: bool
) -> None:
    summary = {
        "cells": {"planned": 4, "reported": reported, "errors": errors},
        "suites": [{"conditions": [{"sf": degraded}, {"sf": 0}]}],
    }
    assert demo.conclude(summary, code) is whole
