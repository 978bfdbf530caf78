"""The toy simulator's profile, as text and read; tests change it word by word."""

from __future__ import annotations

import tomllib

from pytest_vla_shift.policies.profile import Profile, parse_profile
from tests.fakes.toy_simulator import NAME

TEXT = f"""
schema = 1
title = "The toy"
wire = "openpi"
simulators = ["{NAME}"]
source = "tests/fakes/toy_simulator.py"
action_dim = 7
chunk = 4
replan = 4
instruction = "prompt"

[[images]]
key = "front"
camera = "front"
orientation = "mirrored"
size = [16, 16]

[[states]]
key = "state"
parts = ["eef_pos", "eef_axis_angle", "gripper_qpos"]
dtype = "float64"

[[actions]]
key = "actions"
columns = [0, 1, 2, 3, 4, 5, 6]
to = [0, 1, 2, 3, 4, 5, 6]
low = -1.0
high = 1.0
"""


def toy_text(*changes: tuple[str, str]) -> str:
    """The profile with texts replaced, each of which it must have once."""
    text = TEXT
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def toy_profile(*changes: tuple[str, str]) -> Profile:
    """The same, read."""
    return parse_profile(tomllib.loads(toy_text(*changes)), "toy", "toy.toml")
