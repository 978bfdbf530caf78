"""Names to implementations: entry points of ours and of third parties, and ``module:attr``."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import Literal

from pytest_vla_shift.protocol.errors import UsageError

Group = Literal["policies", "simulators", "axes"]

# Used when the package is imported from a checkout without being installed; a test keeps this
# table equal to the entry points of pyproject.toml.
BUILTIN: dict[Group, dict[str, str]] = {
    "simulators": {"libero": "pytest_vla_shift.simulators.libero:factory"},
    "policies": {
        "zero": "pytest_vla_shift.policies.baselines:Zero",
        "random": "pytest_vla_shift.policies.baselines:Random",
        "replay": "pytest_vla_shift.policies.replay:Replay",
        "scripted": "pytest_vla_shift.policies.scripted:Scripted",
        "tiny": "pytest_vla_shift.policies.tiny:Tiny",
        "gr00t": "pytest_vla_shift.policies.gr00t:gr00t",
        "openpi": "pytest_vla_shift.policies.openpi:openpi",
        "pi0": "pytest_vla_shift.policies.openpi:pi0",
        "pi0-fast": "pytest_vla_shift.policies.openpi:pi0_fast",
        "pi05": "pytest_vla_shift.policies.openpi:pi05",
        "vla-eval": "pytest_vla_shift.policies.vla_eval:vla_eval",
        "openvla": "pytest_vla_shift.policies.openvla:openvla",
        "openvla-oft": "pytest_vla_shift.policies.openvla:openvla_oft",
        "lerobot": "pytest_vla_shift.policies.lerobot:lerobot",
        "smolvla": "pytest_vla_shift.policies.lerobot:smolvla",
        "vla-jepa": "pytest_vla_shift.policies.lerobot:vla_jepa",
        "univla": "pytest_vla_shift.policies.known:univla",
        "predvla": "pytest_vla_shift.policies.known:predvla",
        "minerva": "pytest_vla_shift.policies.known:minerva",
    },
    "axes": {
        "illumination": "pytest_vla_shift.shifts.illumination:Illumination",
        "camera_orientation": "pytest_vla_shift.shifts.camera_orientation:CameraOrientation",
        "base": "pytest_vla_shift.shifts.base:Base",
        "gaussian_blur": "pytest_vla_shift.shifts.gaussian_blur:GaussianBlur",
        "camera_pose": "pytest_vla_shift.shifts.camera_pose:CameraPose",
        "lighting": "pytest_vla_shift.shifts.lighting:Lighting",
        "robot_pose": "pytest_vla_shift.shifts.robot_pose:RobotPose",
        "paraphrase": "pytest_vla_shift.shifts.paraphrase:Paraphrase",
        "sensor": "pytest_vla_shift.shifts.sensor:Sensor",
        "actuation": "pytest_vla_shift.shifts.actuation:Actuation",
    },
}

_SINGULAR: dict[Group, str] = {"policies": "policy", "simulators": "simulator", "axes": "shift"}


def targets(group: Group) -> dict[str, str]:
    """Name -> ``module:attr`` of everything that a group offers, in sorted order."""
    found = dict(BUILTIN[group])
    for point in entry_points(group=f"pytest_vla_shift.{group}"):
        found[point.name] = point.value
    return dict(sorted(found.items()))


def load(group: Group, name: str) -> object:
    """The object behind ``name``: an entry point's name, or ``module:attr``.

    Raises:
        UsageError: the name is unknown (with near misses), or its module cannot be imported.
    """
    known = targets(group)
    target = name if ":" in name else known.get(name)
    if target is None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"unknown {_SINGULAR[group]} {name!r}.{hint}"
            f" Known: {', '.join(known)}; or module:attr for your own."
        )
    module_name, _, attribute = target.partition(":")
    try:
        value: object = importlib.import_module(module_name)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{_SINGULAR[group]} {name!r} cannot be loaded: {error}") from error
    return value
