"""Every simulator that an entry point names, and LIBERO's files."""

from __future__ import annotations

import os

from pytest_vla_shift.commands.checks import libero_files
from pytest_vla_shift.commands.checks.imports import import_complaint
from pytest_vla_shift.commands.findings import Finding, missing, note, ok
from pytest_vla_shift.protocol import registry
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.simulators.factories import load_factory
from pytest_vla_shift.simulators.mending import mending_line

MAIN = "libero"
"""The simulator of the main job: without it nothing runs; without another, that one is noted."""


ENVIRONMENTS = (
    "from pytest_vla_shift.simulators.libero_world import import_environments as load; load()"
)
"""Imports LIBERO's environments, and with them robosuite and MuJoCo, as a worker does."""

REINSTALL = "pip install --force-reinstall 'pytest-vla-shift[libero]'"


def check() -> list[Finding]:
    """What each simulator says of itself."""
    found: list[Finding] = []
    for name in registry.targets("simulators"):
        tell = missing if name == MAIN else note
        try:
            info = load_factory(name).describe()
        except UsageError as error:
            found.append(tell(f"{name}: {error}", mending_line(str(error))))
            continue
        except Exception as error:  # anybody's entry point
            found.append(tell(f"{name}: {type(error).__name__}: {error}", None))
            continue
        versions = ", ".join(f"{k} {v}" for k, v in sorted(info.versions.items()))
        found.append(ok(f"{name}: {versions}"))
        if name == MAIN:
            found += [*libero_files.check(), _environments()]
    return found


def _environments() -> Finding:
    """Whether what is installed can be imported."""
    platform = os.environ.get("MUJOCO_GL") or "egl"
    complaint = import_complaint(ENVIRONMENTS, {"MUJOCO_GL": platform})
    if complaint is None:
        return ok("libero's environments can be imported")
    return missing(
        f"libero's environments cannot be imported: {complaint}",
        mending_line(complaint) or REINSTALL,
    )
