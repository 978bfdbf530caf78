"""What ``tiny`` sees, as numbers. Training and inference read observations through this alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image, Observation

CAMERAS = ("agentview", "robot0_eye_in_hand")
SIZE = 128
"""Pixels of a side."""

PROPRIO = 12
"""Position of the hand (3), two columns of its rotation matrix (6), finger joints (2), opening."""


def pictures(observation: Observation) -> NDArray[np.uint8]:
    """(2, SIZE, SIZE, 3) RGB, upright: the two cameras, averaged down over equal boxes.

    Raises:
        PolicyError: a camera is missing, or its picture is not square, or smaller than SIZE.
    """
    found = []
    for camera in CAMERAS:
        image = observation.images.get(camera)
        if image is None:
            raise PolicyError(
                f"tiny looks through {camera}, and the observation has no such picture"
            )
        found.append(_small(image, camera))
    return np.stack(found)


def _small(image: Image, camera: str) -> NDArray[np.uint8]:
    height, width = image.shape[:2]
    if height != width:
        raise PolicyError(f"tiny looks at square pictures; {camera} gives {width} x {height}")
    if height < SIZE:
        raise PolicyError(
            f"tiny looks at pictures of {SIZE} x {SIZE} or more; {camera} gives {width} x {height}"
        )
    if height == SIZE:
        return image
    from PIL import Image as Pillow

    small = Pillow.fromarray(image).resize((SIZE, SIZE), Pillow.Resampling.BOX)
    return np.asarray(small)


def proprio(observation: Observation) -> NDArray[np.float32]:
    """(PROPRIO,): hand position in metres (world), its x and z axes, fingers in metres.

    Raises:
        PolicyError: a vector is missing.
    """
    try:
        position = observation.proprio["eef_pos"]
        quaternion = observation.proprio["eef_quat"]
        fingers = observation.proprio["gripper_qpos"]
    except KeyError as error:
        raise PolicyError(f"tiny needs the proprio vector {error}") from error
    x, y, z, w = quaternion
    axes = [
        1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),
        2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    opening = abs(fingers[0]) + abs(fingers[1])
    return np.array([*position, *axes, *fingers, opening], dtype=np.float32)
