"""Rotation vectors as robosuite and vla-eval compute them, and proprioception from its parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vla_shift.policies.profile import QUANTITIES, MappingError
from pytest_vla_shift.policies.quantities import (
    axis_angle,
    proprio_of,
    quantity,
    quaternion,
    rounded_axis_angle,
    short_axis_angle,
    source_of,
)

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Vector

EDGES = [
    (0.0, 0.0, 0.0, 1.0),
    (0.0, 0.0, 0.0, -1.0),
    (1.0, 0.0, 0.0, 0.0),
    (1.0, 0.0, 0.0, -0.0),
    (1e-9, 0.0, 0.0, 1.0),
    (0.0, 1e-8, 0.0, -1.0),
    (1e-5, 0.0, 0.0, math.nextafter(1.0, 0.0)),
    (0.0, 0.0, 1e-5, math.nextafter(-1.0, 0.0)),
    (0.0, 0.0, 0.0, math.nextafter(1.0, 2.0)),  # longer than 1, by rounding
    (0.6, 0.0, 0.0, -0.8),
    (0.9987, -0.0501, 0.0011, -1e-12),  # the hand as it points down, on either side of pi
    (0.9987, -0.0501, 0.0011, 1e-12),
]


def quaternions() -> list[Vector]:
    drawn = np.random.default_rng(5).normal(size=(2000, 4))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return [np.array(edge) for edge in EDGES] + list(drawn)


def same_bits(one: Vector, other: Vector) -> bool:
    return one.astype(np.float64).tobytes() == other.astype(np.float64).tobytes()


def test_the_axis_angle_is_robosuites_bit_for_bit() -> None:
    pytest.importorskip("robosuite")
    from robosuite.utils.transform_utils import quat2axisangle

    for quat in quaternions():
        assert same_bits(axis_angle(quat), quat2axisangle(quat.copy())), quat


def test_the_short_axis_angle_is_that_of_vla_eval_bit_for_bit() -> None:
    from vla_eval.rotation import quat_to_axisangle

    for quat in quaternions():
        assert same_bits(short_axis_angle(quat), quat_to_axisangle(quat.copy())), quat


def test_the_rounded_axis_angle_is_that_of_vla_eval_without_the_antipode_bit_for_bit() -> None:
    module = pytest.importorskip("vla_eval.benchmarks.libero.benchmark")
    for quat in quaternions():
        wanted = module._quat_to_axisangle_robosuite(quat)
        assert same_bits(rounded_axis_angle(quat), wanted), quat


def test_antipodes_are_one_rotation_and_two_vectors_unless_the_shorter_way_is_asked_for() -> None:
    quat = np.array([0.6, 0.0, 0.0, -0.8])
    assert np.linalg.norm(axis_angle(quat)) == pytest.approx(2.0 * math.acos(-0.8))
    assert np.linalg.norm(axis_angle(-quat)) == pytest.approx(2.0 * math.acos(0.8))
    assert np.linalg.norm(axis_angle(quat)) > math.pi > np.linalg.norm(axis_angle(-quat))
    assert same_bits(short_axis_angle(quat), short_axis_angle(-quat))
    assert short_axis_angle(quat) == pytest.approx(axis_angle(-quat), abs=1e-6)


ANGLES = st.floats(0.0, 2.0 * math.pi)
UNIT = st.floats(-1.0, 1.0)


@given(x=UNIT, y=UNIT, z=UNIT, angle=ANGLES)
@example(x=1.0, y=0.0, z=0.0, angle=math.pi)
@example(x=1.0, y=0.0, z=0.0, angle=0.0)
def test_a_quaternion_comes_back_from_its_rotation_vector(
    x: float, y: float, z: float, angle: float
) -> None:
    axis = np.array([x, y, z])
    if np.linalg.norm(axis) < 1e-3:
        axis = np.array([0.0, 0.0, 1.0])
    vector = axis / np.linalg.norm(axis) * angle
    quat = quaternion(vector)
    assert np.linalg.norm(quat) == pytest.approx(1.0)
    assert quaternion(axis_angle(quat)) == pytest.approx(quat, abs=1e-7)
    turned = quaternion(short_axis_angle(quat))
    # The same rotation, of whichever sign.
    assert abs(float(turned @ quat)) == pytest.approx(1.0, abs=1e-6)
    assert turned[3] >= -1e-6


def test_every_quantity_is_as_wide_as_profiles_are_told() -> None:
    generator = np.random.default_rng(0)
    for name, width in QUANTITIES.items():
        source = source_of(name)
        whole = generator.normal(size=QUANTITIES.get(source, 4))
        whole /= np.linalg.norm(whole)
        found = quantity(name, {source: whole})
        assert (found.shape, found.dtype.name) == ((width,), "float64"), name


def test_what_the_simulator_does_not_tell_is_named() -> None:
    with pytest.raises(MappingError, match="needs 'eef_quat', and the simulator tells eef_pos"):
        quantity("eef_axis_angle", {"eef_pos": np.zeros(3)})


def test_parts_are_put_together_and_what_is_sent_in_part_is_left_out() -> None:
    parts = [
        ("eef_pos", 2, 3, np.array([3.0])),
        ("gripper_qpos", 0, 1, np.array([9.0])),
        ("eef_pos", 0, 2, np.array([1.0, 2.0])),
        ("eef_axis_angle", 0, 3, np.array([0.0, 0.0, math.pi / 2])),
    ]
    found = proprio_of(parts)
    assert set(found) == {"eef_pos", "eef_quat"}
    assert found["eef_pos"].tolist() == [1.0, 2.0, 3.0]
    assert found["eef_quat"] == pytest.approx([0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)])
