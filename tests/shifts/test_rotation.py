from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from pytest_vla_shift.shifts import rotation

angles = st.floats(-math.pi, math.pi)
components = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(
    lambda q: float(np.linalg.norm(q)) > 0.1
)
AXES = (rotation.X, rotation.Y, rotation.Z)


def unit(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    quat = np.array(values)
    out: np.ndarray[tuple[int], np.dtype[np.float64]] = quat / np.linalg.norm(quat)
    return out


def scipys(quat: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Rotation:
    return Rotation.from_quat(np.roll(quat, -1))  # SciPy's order is xyzw


@given(components, components)
def test_compose_is_scipys_product_and_stays_of_unit_length(a: list[float], b: list[float]) -> None:
    product = rotation.compose(unit(a), unit(b))
    assert np.linalg.norm(product) == pytest.approx(1.0, abs=1e-12)
    expected = (scipys(unit(a)) * scipys(unit(b))).as_matrix()
    np.testing.assert_allclose(scipys(product).as_matrix(), expected, atol=1e-12)


@given(st.sampled_from(AXES), angles)
def test_about_is_the_right_handed_rotation(axis: tuple[float, ...], angle: float) -> None:
    expected = Rotation.from_rotvec(np.array(axis) * angle).as_matrix()
    got = scipys(rotation.about(axis, angle)).as_matrix()
    np.testing.assert_allclose(got, expected, atol=1e-12)


@given(components, st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_rotate_is_scipys(quat: list[float], vector: list[float]) -> None:
    np.testing.assert_allclose(
        rotation.rotate(unit(quat), vector), scipys(unit(quat)).apply(vector), atol=1e-9
    )


def test_a_zero_angle_changes_not_one_bit() -> None:
    quat = np.array([0.8, 0.0, 0.6, 0.0])
    assert rotation.compose(quat, rotation.about(rotation.Y, 0.0)).tobytes() == quat.tobytes()


@pytest.mark.parametrize("wrong", [[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [np.nan, 0, 0, 0]])
def test_what_is_no_rotation_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="unit quaternion"):
        rotation.compose(np.array(wrong), rotation.about(rotation.X, 0.1))


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3))
def test_a_rotation_vector_is_scipys(x: float, y: float, z: float) -> None:
    quat = rotation.from_vector((x, y, z))
    expected = Rotation.from_rotvec([x, y, z]).as_matrix()
    ours = Rotation.from_quat(np.roll(quat, -1)).as_matrix()
    np.testing.assert_allclose(ours, expected, atol=1e-9)


def test_no_rotation_vector_is_exactly_no_rotation() -> None:
    assert rotation.from_vector((0.0, 0.0, 0.0)).tolist() == [1.0, 0.0, 0.0, 0.0]


@given(st.floats(0, 6.28), st.floats(-1.4, 1.4), st.floats(-3, 3), st.floats(0.1, 5))
def test_lift_raises_a_direction_in_its_own_vertical_plane(
    azimuth: float, elevation: float, radians: float, length: float
) -> None:
    def at(angle: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        flat = math.cos(angle)
        return length * np.array(
            [flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(angle)]
        )

    start = at(elevation)
    assert rotation.elevation(start) == pytest.approx(elevation, abs=1e-9)
    lifted = rotation.rotate(rotation.lift(start, radians), start.tolist())
    np.testing.assert_allclose(lifted, at(elevation + radians), atol=1e-9)


def test_a_vertical_direction_is_taken_to_lean_towards_plus_x() -> None:
    up = np.array([0.0, 0.0, 1.0])
    lowered = rotation.rotate(rotation.lift(up, -0.1), up.tolist())
    np.testing.assert_allclose(lowered, [math.sin(0.1), 0.0, math.cos(0.1)], atol=1e-12)
