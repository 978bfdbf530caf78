"""Environments without this checkout in them: the wheel, and packages of the running environment.

Installing LIBERO again would take 2 GB. Its files are linked instead, one link a package, and none
to this package: what is imported there came out of the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
NAME = "pytest-vla-shift"
PACKAGE = "pytest_vla_shift"


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside the repository.

    Attributes:
        bin: its programs.
        site_packages: where the wheel was installed.
    """

    bin: Path
    site_packages: Path

    def run(self, *command: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in ``cwd``, with no path into this checkout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHON"))}
        kept["PATH"] = os.pathsep.join([str(self.bin), kept.get("PATH", os.defpath)])
        kept.update(extra)
        program, *arguments = command
        return subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=cwd,
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
        text=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def make(folder: Path, wheel: Path, without: Collection[str] = ()) -> Environment:
    """A new environment with the wheel in it and everything that is installed here beside it.

    Args:
        folder: where it is made.
        wheel: what is installed.
        without: distributions to leave out, for example ``("mujoco",)``.
    """
    host = Path(sysconfig.get_path("purelib"))
    links = folder / "links"
    links.mkdir(parents=True)
    absent = _top_names(host, {NAME, *without})
    for entry in host.iterdir():
        if entry.name not in absent and entry.suffix != ".pth" and PACKAGE not in entry.name:
            (links / entry.name).symlink_to(entry)
    venv.create(folder / "env", with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site_packages = folder / "env" / "lib" / version / "site-packages"
    (site_packages / "links.pth").write_text(f"{links}\n")
    python = folder / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run(
        [*install, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)],
        check=True,
        capture_output=True,
        text=True,
    )
    return Environment(folder / "env" / "bin", site_packages)


def core_only() -> set[str]:
    """Distributions that are here and are not needed by the core dependencies."""
    wanted: set[str] = set()
    queue = [r for text in metadata.requires(NAME) or () if not (r := Requirement(text)).marker]
    while queue:
        name = queue.pop().name
        if _canonical(name) in wanted:
            continue
        wanted.add(_canonical(name))
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                queue.append(requirement)
    return {d.name for d in metadata.distributions() if _canonical(d.name) not in wanted}


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _top_names(host: Path, distributions: Collection[str]) -> set[str]:
    """Names in ``site-packages`` that belong to these distributions and to no other."""
    unwanted: set[str] = set()
    kept: set[str] = set()
    named = {_canonical(name) for name in distributions}
    for distribution in metadata.distributions(path=[str(host)]):
        tops = {file.parts[0] for file in distribution.files or ()}
        (unwanted if _canonical(distribution.name) in named else kept).update(tops)
    return unwanted - kept
