from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.shifts.illumination import Illumination
from tests.shifts.fake_scene import FakeScene


@given(st.floats(0, 1))
def test_diffuse_and_ambient_are_scaled_and_specular_stays(alpha: float) -> None:
    scene, before = FakeScene(), FakeScene()
    Illumination().apply(scene, {"alpha": alpha}, {})
    for (light, component), rgb in before.colors.items():
        factor = 1.0 if component == "specular" else alpha
        np.testing.assert_array_equal(scene.colors[light, component], rgb * factor)


def test_the_headlight_is_dimmed_too_and_black_is_left_alone() -> None:
    scene = FakeScene()
    Illumination().apply(scene, {"alpha": 0.4}, {})
    assert scene.written == ["lamp.diffuse", "headlight.diffuse", "headlight.ambient"]


def test_cameras_and_robot_are_not_touched() -> None:
    scene, before = FakeScene(), FakeScene()
    Illumination().apply(scene, {"alpha": 0.4}, {})
    np.testing.assert_equal(scene.quats, before.quats)
    np.testing.assert_equal(scene.robot_base_pose(), before.robot_base_pose())


def test_it_is_deterministic_and_full_light_is_identity() -> None:
    rng = np.random.default_rng(0)
    assert Illumination().draw(rng) == {}
    assert rng.random() == np.random.default_rng(0).random()
    assert Illumination().is_identity({"alpha": 1.0}, {})
    assert not Illumination().is_identity({"alpha": 0.99}, {})


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_brighter_or_negative_light_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"alpha = .* is outside 0.0 \.\.\. 1.0"):
        Illumination().check({"alpha": alpha})
