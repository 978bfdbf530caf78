"""What ``tiny`` sees, as numbers: held against NumPy and SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("PIL")

from pytest_vla_shift.policies import tiny_inputs
from pytest_vla_shift.protocol.errors import PolicyError
from pytest_vla_shift.protocol.observation import Observation


def seen(height: int = 256, width: int = 256) -> Observation:
    rng = np.random.default_rng(5)
    return Observation(
        images={
            camera: rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            for camera in reversed(tiny_inputs.CAMERAS)
        },
        proprio={
            "eef_pos": np.array([-0.1, 0.05, 1.0]),
            "eef_quat": Rotation.from_euler("xyz", [3.0, 0.4, -1.1]).as_quat(),
            "gripper_qpos": np.array([0.03, -0.02]),
        },
        instruction="",
        step=0,
    )


def test_pictures_are_the_two_cameras_in_order_each_four_pixels_averaged() -> None:
    found = tiny_inputs.pictures(seen())
    assert found.shape == (2, 128, 128, 3)
    assert found.dtype == np.uint8
    for picture, camera in zip(found, tiny_inputs.CAMERAS, strict=True):
        image = seen().images[camera].astype(int)
        # Pillow averages along rows, then along columns, and each time rounds a half up.
        narrow = (image[:, 0::2] + image[:, 1::2] + 1) // 2
        np.testing.assert_array_equal(picture, (narrow[0::2] + narrow[1::2] + 1) // 2)


def test_pictures_of_its_own_size_are_taken_as_they_are() -> None:
    shown = seen(128, 128)
    for picture, camera in zip(tiny_inputs.pictures(shown), tiny_inputs.CAMERAS, strict=True):
        np.testing.assert_array_equal(picture, shown.images[camera])


def test_a_picture_that_is_not_square_is_refused_and_not_squeezed() -> None:
    with pytest.raises(PolicyError, match="square pictures; agentview gives 320 x 256"):
        tiny_inputs.pictures(seen(256, 320))


def test_proprioception_is_where_the_hand_is_how_it_is_turned_and_how_far_open() -> None:
    found = tiny_inputs.proprio(seen())
    turned = Rotation.from_quat(seen().proprio["eef_quat"]).as_matrix()
    expected = [-0.1, 0.05, 1.0, *turned[:, 0], *turned[:, 2], 0.03, -0.02, 0.05]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.dtype == np.float32
    assert found.shape == (tiny_inputs.PROPRIO,)


def test_a_quaternion_and_its_opposite_are_the_same_rotation() -> None:
    shown = seen()
    other = replace(shown, proprio={**shown.proprio, "eef_quat": -shown.proprio["eef_quat"]})
    np.testing.assert_array_equal(tiny_inputs.proprio(other), tiny_inputs.proprio(shown))


def test_a_picture_with_less_in_it_than_it_looks_for_is_refused() -> None:
    with pytest.raises(PolicyError, match="128 x 128 or more; agentview gives 127 x 127"):
        tiny_inputs.pictures(seen(127, 127))
