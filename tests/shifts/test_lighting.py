from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla_shift.protocol.errors import InvalidScene
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.lighting import Lighting, turned
from tests.shifts.fake_scene import FakeScene
from tests.shifts.libero_ctrl import LEVELS, along, level


def applied(radius: float, draw: dict[str, float]) -> FakeScene:
    scene = FakeScene()
    Lighting().apply(scene, level("lighting", radius), draw)
    return scene


def ratios(scene: FakeScene) -> dict[tuple[str, str], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """What every colour that is not black was multiplied by."""
    before = FakeScene().colors
    return {key: scene.colors[key] / rgb for key, rgb in before.items() if rgb.any()}


def test_at_radius_8_every_parameter_alone_is_what_table_1_prints() -> None:
    for ratio in ratios(applied(8.0, along("lighting", "intensity"))).values():
        np.testing.assert_allclose(ratio, 4.0)  # 2.0 EV, x4
    for ratio in ratios(applied(8.0, along("lighting", "warmth"))).values():
        assert ratio[0] / ratio[2] == pytest.approx(2.8, abs=0.1)  # 1.5 log2
        assert ratio[0] * ratio[2] == pytest.approx(1.0)
        assert ratio[1] == 1.0
    for ratio in ratios(applied(8.0, along("lighting", "green"))).values():
        assert ratio[1] == pytest.approx(1.7, abs=0.05)  # 0.8 log2
        assert ratio[0] == ratio[2] == 1.0
    scene = applied(8.0, along("lighting", "ambient"))
    np.testing.assert_allclose(ratios(scene)["headlight", "ambient"], 4.0)  # 2.0 log2


def test_ambient_writes_ambient_components_only() -> None:
    scene = applied(4.0, along("lighting", "ambient", -1.0))
    assert scene.written == ["headlight.ambient"]


def test_light_elevation_writes_the_placed_lights_pose_only() -> None:
    assert applied(4.0, along("lighting", "elevation")).written == ["lamp pose"]


def test_every_colour_and_every_pose_is_written_at_most_once() -> None:
    draw = dict.fromkeys(Lighting.scales, 1.0 / math.sqrt(5.0))
    scene = applied(4.0, draw)
    assert sorted(scene.written) == sorted(set(scene.written))
    # The lamp's black ambient part cannot change.
    assert "lamp.ambient" not in scene.written
    stops, ambient = 4.0 * 0.25 / math.sqrt(5.0), 4.0 * 0.25 / math.sqrt(5.0)
    warmth, green = 4.0 * 0.19 / math.sqrt(5.0), 4.0 * 0.10 / math.sqrt(5.0)
    plain = np.exp2([stops + warmth / 2, stops + green, stops - warmth / 2])
    np.testing.assert_allclose(ratios(scene)["lamp", "diffuse"], plain)
    np.testing.assert_allclose(ratios(scene)["headlight", "specular"], plain)
    np.testing.assert_allclose(ratios(scene)["headlight", "ambient"], plain * 2**ambient)


@given(st.floats(-60, 60), st.floats(0.1, 3.0), st.floats(0, 2 * math.pi), st.floats(62, 89))
def test_a_turned_light_shines_on_the_same_point_from_an_elevation_higher_by_the_offset(
    degrees: float, height: float, azimuth: float, elevation: float
) -> None:
    toward = np.array(
        [
            math.cos(math.radians(elevation)) * math.cos(azimuth),
            math.cos(math.radians(elevation)) * math.sin(azimuth),
            math.sin(math.radians(elevation)),
        ]
    )
    target = np.array([0.3, -0.2, 0.9])
    start = target + toward * height / toward[2]
    position, direction = turned("lamp", start, -toward, 0.9, degrees)
    # The ray still meets the surface at the target, at the same distance.
    length = (position[2] - 0.9) / -direction[2]
    np.testing.assert_allclose(position + length * direction, target, atol=1e-9)
    assert length == pytest.approx(float(np.linalg.norm(start - target)))
    # In the vertical plane of the light, measured from the side on which it stood.
    side = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    new = math.degrees(math.atan2(-direction[2], float(-direction @ side)))
    assert new == pytest.approx(elevation + degrees, abs=1e-6)
    assert abs(float(np.cross(side, [0, 0, 1]) @ direction)) < 1e-9


def test_a_light_straight_above_is_lowered_towards_plus_x_and_raised_beyond_it() -> None:
    above, down = np.array([0.0, 0.0, 2.0]), np.array([0.0, 0.0, -1.0])
    lower, _ = turned("lamp", above, down, 0.0, -30.0)
    np.testing.assert_allclose(lower, [1.0, 0.0, math.sqrt(3.0)], atol=1e-12)
    beyond, _ = turned("lamp", above, down, 0.0, 30.0)
    np.testing.assert_allclose(beyond, [-1.0, 0.0, math.sqrt(3.0)], atol=1e-12)


@pytest.mark.parametrize("degrees", [-74.0, 107.0])
def test_no_light_comes_to_the_level_of_the_surface(degrees: float) -> None:
    position, direction = FakeScene().lamp  # at an elevation of 73.7 degrees
    with pytest.raises(InvalidScene, match="still shine down"):
        turned("lamp", position, direction, 0.9, degrees)


def test_a_light_that_shines_up_cannot_be_turned() -> None:
    with pytest.raises(InvalidScene, match="does not shine down"):
        turned("lamp", np.array([0.0, 0.0, 2.0]), np.array([0.0, 0.6, 0.8]), 0.9, 5.0)


def test_the_contract_holds_at_the_shipped_levels() -> None:
    check_axis(Lighting(), LEVELS["lighting"])
