"""Python, the core dependencies and the extras, by what the package's metadata asks for."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata

from packaging.requirements import Requirement

from pytest_vla_shift.commands.checks.imports import import_complaint
from pytest_vla_shift.commands.findings import Finding, missing, note, ok

DISTRIBUTION = "pytest-vla-shift"
OLDEST_PYTHON = (3, 11)

IMPORTED = {"tiny": "import onnxruntime, PIL", "video": "import av, PIL"}
"""What is really imported of an extra: packages with libraries that the system may refuse."""

FOR_DEVELOPERS = "dev"
"""The extra that only people who work on this package need."""


def core() -> list[Finding]:
    """Python, and every dependency without which the plugin does not work."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < OLDEST_PYTHON:
        found = [missing(f"Python {version}", "use Python 3.11 or newer")]
    else:
        found = [ok(f"Python {version}, {sys.executable}")]
    requirements = _requirements()
    if requirements is None:
        return [
            *found,
            note(
                f"{DISTRIBUTION} is imported from a folder and not installed: pytest does not"
                " load the plugin by itself",
                "pip install -e . in the repository, or pip install pytest-vla-shift",
            ),
        ]
    core = [r for r in requirements if _extra_of(r) is None and _is_for_this_python(r)]
    return found + [_core_finding(r) for r in sorted(core, key=str)]


def extras() -> list[Finding]:
    """Every extra whose code is here: installed, or the line that installs it."""
    requirements = _requirements() or []
    names = sorted({extra for r in requirements if (extra := _extra_of(r)) is not None})
    found = [
        _extra_finding(name, [r for r in requirements if _extra_of(r) == name])
        for name in names
        if name != FOR_DEVELOPERS
    ]
    return [*found, _allure_command()]


def _requirements() -> list[Requirement] | None:
    """The package's requirements; None if it is not installed."""
    try:
        return [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        return None


def _extra_of(requirement: Requirement) -> str | None:
    """The extra that asks for a requirement; None for a core dependency."""
    if requirement.marker is None:
        return None
    # By its text: under another Python's marker none of them would hold.
    named = re.search(r"""extra == ["']([^"']+)["']""", str(requirement.marker))
    return None if named is None else named[1]


def _is_for_this_python(requirement: Requirement) -> bool:
    marker = requirement.marker
    return marker is None or marker.evaluate({"extra": _extra_of(requirement) or ""})


def _version(requirement: Requirement) -> str | None:
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def _problem(requirement: Requirement) -> str | None:
    """What is wrong with what is installed, or None."""
    version = _version(requirement)
    if version is None:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{requirement.name} {version} is installed, {requirement.specifier} is needed"
    return None


def _core_finding(requirement: Requirement) -> Finding:
    problem = _problem(requirement)
    if problem is None:
        return ok(f"{requirement.name} {_version(requirement)}")
    return missing(problem, f"pip install '{requirement.name}{requirement.specifier}'")


def _extra_finding(name: str, requirements: list[Requirement]) -> Finding:
    others = [
        str(r.marker).partition(" and extra")[0] for r in requirements if not _is_for_this_python(r)
    ]
    if others:
        return note(f"{name}: is for another Python: {'; '.join(others)}")
    problems = [problem for r in requirements if (problem := _problem(r)) is not None]
    if problems:
        return note(f"{name}: {'; '.join(problems)}", f"pip install '{DISTRIBUTION}[{name}]'")
    complaint = import_complaint(IMPORTED[name]) if name in IMPORTED else None
    if complaint is not None:
        return note(
            f"{name}: installed, and cannot be imported: {complaint}",
            f"pip install --force-reinstall '{DISTRIBUTION}[{name}]'",
        )
    versions = ", ".join(f"{r.name} {_version(r)}" for r in requirements)
    return ok(f"{name}: {versions}")


def _allure_command() -> Finding:
    """What turns Allure results into pages: a program of its own, which runs on Node or Java."""
    for program, how in (("allure", "allure"), ("npx", "npx allure@3")):
        if shutil.which(program):
            return ok(f"Allure pages: {how} generate reports/RUN/allure-results")
    return note(
        "no allure and no npx: results are written, but pages cannot be made of them here",
        "apt-get install -y npm, then npx allure@3 generate reports/RUN/allure-results",
    )
