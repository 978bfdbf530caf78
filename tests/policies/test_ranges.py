"""Numbers that cannot be what a profile says are refused, at the trial and at every answer."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import actions
from pytest_vla_shift.policies.profile import ActionMap, MappingError, Transform, read_profile

BASE = read_profile("gr00t-libero")
RANGES: dict[Transform, tuple[float, float]] = {
    "identity": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
    "open01": (0.0, 1.0),
    "half": (0.0, 1.0),
}


def read(transform: Transform, *values: float) -> list[float]:
    """Through one column, of an array that has another one beside it."""
    low, high = RANGES[transform]
    parts = (
        ActionMap("a", (0,), (0,), "identity", -1.0, 1.0),
        ActionMap("a", (1,), (1,), transform, low, high),
    )
    profile = replace(BASE, name="mine", action_dim=2, actions=parts)
    answer = {"a": np.array([[0.0, value] for value in values])}
    return [float(number) for number in actions(profile, answer)[:, 1]]


@pytest.mark.parametrize(
    "transform, value, words",
    [
        # robosuite's -1 and +1 where the profile says 0 and 1: close would become open
        ("open01", -1.0, "from 0 to 1 (1 opens, 0 closes), where it would become +1"),
        ("half", -1.0, "from 0 to 1 (below 0.5: -1, else +1), where it would become -1"),
        # of a byte, in percent, in millimetres
        ("open01", 255.0, "would become -1"),
        ("half", 100.0, "would become +1"),
        ("sign", 127.0, "from -1 to 1 (below 0: -1, else +1), where it would become +1"),
        ("sign", -1e308, "would become -1"),
        ("identity", 127.0, "from -1 to 1, and beyond -10 to 10 no"),
        ("identity", -1e308, "has -1e+308 "),
        # just beyond
        ("open01", 1.51, "has 1.51 "),
        ("open01", -0.51, "has -0.51 "),
        ("half", 1.51, "has 1.51 "),
        ("sign", 2.01, "has 2.01 "),
        ("sign", -2.01, "has -2.01 "),
        ("identity", 10.01, "has 10.01 "),
        ("identity", -10.01, "has -10.01 "),
    ],
)
def test_another_convention_is_refused_with_both_sides(
    transform: Transform, value: float, words: str
) -> None:
    with pytest.raises(MappingError, match=re.escape(words)) as refused:
        read(transform, 0.5, 0.5, value, 0.5)
    told = str(refused.value)
    assert told.startswith(f"'a' has {value:g} (step 2, column 1), and profile 'mine' says")


@pytest.mark.parametrize(
    "transform, values",
    [
        ("open01", (-0.5, -0.01, 1.02, 1.5)),
        ("half", (-0.5, 1.5)),
        ("sign", (-2.0, -1.09, 1.09, 2.0)),
        ("identity", (-10.0, -1.5, 1.02, 10.0)),
    ],
)
def test_what_a_model_overshoots_by_is_taken(
    transform: Transform, values: tuple[float, ...]
) -> None:
    low, high = RANGES[transform]
    assert read(transform, *values) == read(
        transform, *(values if transform == "identity" else np.clip(values, low, high).tolist())
    )


def test_bounds_follow_the_profiles_own_range() -> None:
    """A step of at most 0.05 m, in metres: 1 m is none."""
    part = ActionMap("a", (0,), (0,), "identity", 0.0, 0.05)
    profile = replace(BASE, action_dim=1, actions=(part,))
    assert actions(profile, {"a": np.array([[0.27]])}).tolist() == [[0.27]]
    with pytest.raises(MappingError, match=r"beyond -0\.225 to 0\.275 no"):
        actions(profile, {"a": np.array([[1.0]])})


@pytest.mark.parametrize("name", ["gr00t-libero", "openvla-libero", "openvla-oft-libero"])
def test_a_server_with_robosuites_gripper_is_refused_by_profiles_that_turn_it(name: str) -> None:
    profile = read_profile(name)
    answer = {key: np.zeros((8, width)) for key, width in profile.action_widths.items()}
    gripper = profile.actions[-1]
    answer[gripper.key][3:, gripper.columns] = -1.0
    with pytest.raises(MappingError, match=r"has -1 \(step 3, column \d\), .*1 opens, 0 closes"):
        actions(profile, answer)
