"""OpenVLA's pictures: the sums that TensorFlow does, against other ways to do them."""

from __future__ import annotations

import math

import numpy as np
import PIL.Image
import pytest

from pytest_vla_shift.policies import openvla_pictures
from pytest_vla_shift.policies.openvla_pictures import as_evaluated, cropped, lanczos, through_jpeg
from pytest_vla_shift.policies.pictures import to_profile
from pytest_vla_shift.policies.profile import find_profile

SIZES = [(224, 224), (256, 256), (100, 300)]


def noise(height: int = 256, width: int = 256) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_lanczos_is_pillows_on_floats(size: tuple[int, int]) -> None:
    """Pillow rounds between the two directions where a picture is of bytes; floats it does not."""
    picture = noise()
    expected = np.stack(
        [
            np.array(
                PIL.Image.fromarray(picture[..., channel].astype(np.float32)).resize(
                    (size[1], size[0]), PIL.Image.Resampling.LANCZOS
                )
            )
            for channel in range(3)
        ],
        axis=-1,
    )
    difference = np.abs(lanczos(picture, size).astype(float) - np.clip(np.rint(expected), 0, 255))
    assert difference.max() <= 1  # where Pillow's float32 falls on the other side of a half
    assert (difference > 0).mean() < 1e-4


def test_the_crop_is_bilinear_between_the_corners_of_the_middle() -> None:
    picture = noise(40, 40)
    side = math.sqrt(0.9)
    first = (1 - side) / 2 * 39
    found = cropped(picture)
    for row, column in ((0, 0), (39, 39), (0, 39), (17, 23)):
        y, x = first + side * row, first + side * column
        top, left = int(y), int(x)
        corners = picture[top : top + 2, left : left + 2] / 255.0
        dy, dx = y - top, x - left
        value = (
            corners[0, 0] * (1 - dy) * (1 - dx)
            + corners[0, 1] * (1 - dy) * dx
            + corners[1, 0] * dy * (1 - dx)
            + corners[1, 1] * dy * dx
        )
        np.testing.assert_array_equal(found[row, column], (value * 255.5).astype(np.uint8))


@pytest.mark.parametrize("size", SIZES)
def test_weights_of_every_new_pixel_sum_to_one(size: tuple[int, int]) -> None:
    for weights in (openvla_pictures.lanczos_weights, openvla_pictures.crop_weights):
        np.testing.assert_allclose(weights(256, size[0]).sum(axis=1), 1.0)


def test_one_colour_stays_what_it_is() -> None:
    grey = np.full((256, 256, 3), 119, np.uint8)
    np.testing.assert_array_equal(as_evaluated(grey, (224, 224)), 119)


def test_white_and_black_do_not_wrap_around() -> None:
    stripes = np.zeros((256, 256, 3), np.uint8)
    stripes[:, ::8] = 255
    found = as_evaluated(stripes, (224, 224))
    assert found.min() == 0
    assert found.max() > 100


def test_a_jpeg_changes_a_picture_a_little() -> None:
    smooth = np.add.outer(np.arange(256), np.zeros(256)).astype(np.uint8)
    picture = np.repeat(smooth[..., None], 3, axis=2)
    difference = np.abs(through_jpeg(picture).astype(int) - picture)
    assert difference.max() <= 3
    assert (through_jpeg(noise()) != noise()).any()


@pytest.mark.parametrize("side", [224, 256, 512])
def test_the_profile_does_it_whatever_the_suite_renders(side: int) -> None:
    (image,) = find_profile("libero", "openvla").images
    upright = noise(side, side)
    found = to_profile(image, upright)
    assert found.shape == (224, 224, 3)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, as_evaluated(upright[:, ::-1], (224, 224)))


def test_the_picture_is_not_turned_by_it() -> None:
    """A bright corner stays in its corner."""
    picture = np.zeros((256, 256, 3), np.uint8)
    picture[:64, :96] = 250
    found = as_evaluated(picture, (224, 224))
    assert found[20, 20].min() > 200
    assert found[20, 200].max() < 20
    assert found[200, 20].max() < 20
