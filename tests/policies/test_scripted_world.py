"""The expert's geometry, against scipy and against what a gripper is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from pytest_vla_shift.policies.scripted_world import hand_rotation, matrix, rotation_vector

numbers = st.floats(-1, 1, allow_nan=False)
vectors = (
    st.tuples(numbers, numbers, numbers).map(np.array).filter(lambda v: np.linalg.norm(v) > 0.1)
)
turns = st.tuples(numbers, numbers, numbers).map(lambda v: Rotation.from_rotvec(3.1 * np.array(v)))


@given(turns)
def test_matrix_of_a_quaternion_is_scipys(turn: Rotation) -> None:
    assert np.allclose(matrix(turn.as_quat()), turn.as_matrix(), atol=1e-9)


def test_a_zero_quaternion_is_no_rotation() -> None:
    assert np.array_equal(matrix(np.zeros(4)), np.eye(3))


@given(turns, turns)
def test_the_rotation_vector_leads_from_one_hand_to_the_other(a: Rotation, b: Rotation) -> None:
    vector = rotation_vector(a.as_matrix(), b.as_matrix())
    reached = Rotation.from_rotvec(vector) * b
    assert np.allclose(reached.as_matrix(), a.as_matrix(), atol=1e-5)
    assert np.linalg.norm(vector) <= np.pi + 1e-6


@pytest.mark.parametrize(
    "axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 1), (-1, 0, 2)]
)
def test_half_a_turn_has_a_rotation_vector(axis: tuple[float, ...]) -> None:
    unit = np.array(axis, dtype=np.float64) / np.linalg.norm(axis)
    half = Rotation.from_rotvec(np.pi * unit).as_matrix()
    vector = rotation_vector(half, np.eye(3))
    assert np.linalg.norm(vector) == pytest.approx(np.pi)
    assert np.allclose(Rotation.from_rotvec(vector).as_matrix(), half, atol=1e-6)


@given(vectors, vectors, turns)
def test_the_hand_points_as_asked_and_turns_the_short_way(
    approach: np.ndarray, closing: np.ndarray, near: Rotation
) -> None:
    held = near.as_matrix()
    hand = hand_rotation(approach, closing, held)
    assert np.allclose(hand.T @ hand, np.eye(3), atol=1e-6)
    assert np.linalg.det(hand) == pytest.approx(1.0)
    assert np.allclose(hand[:, 2], approach / np.linalg.norm(approach), atol=1e-6)
    assert hand[:, 1] @ held[:, 1] >= -1e-6
    across = np.cross(approach, closing)
    if np.linalg.norm(across) > 1e-3:  # the closing line lies in the plane of the two
        assert abs(hand[:, 1] @ across) < 1e-4 * max(1.0, float(np.linalg.norm(across)))
