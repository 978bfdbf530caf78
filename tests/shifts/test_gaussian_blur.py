from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.protocol import Frame
from tests.shifts.fake_scene import FakeScene

FRAME = Frame("agentview", step=0, seed=0)


def noise(
    height: int = 48, width: int = 64
) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def by_hand(
    image: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]], sigma: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The definition, slowly: a normalised sampled Gaussian, mirrored border, two passes."""
    radius = int(4 * sigma + 0.5)
    kernel = np.array([math.exp(-0.5 * (i / sigma) ** 2) for i in range(-radius, radius + 1)])
    kernel /= kernel.sum()
    out = np.asarray(image, dtype=np.float64)
    for axis in (0, 1):
        pad = [(radius, radius) if a == axis else (0, 0) for a in range(3)]
        padded = np.pad(out, pad, mode="symmetric")
        out = np.apply_along_axis(lambda row: np.convolve(row, kernel, "valid"), axis, padded)
    return np.rint(out).astype(np.uint8)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_it_is_the_textbook_filter(sigma: float) -> None:
    got = GaussianBlur().image(noise(), {"sigma_px": sigma}, {}, FRAME)
    difference = np.abs(got.astype(int) - by_hand(noise(), sigma).astype(int))
    # Sums in another order may round another way, on few pixels and by one.
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


def test_channels_do_not_bleed_into_each_other() -> None:
    image = np.zeros((32, 32, 3), dtype=np.uint8)
    image[16, 16, 0] = 255
    blurred = GaussianBlur().image(image, {"sigma_px": 1.0}, {}, FRAME)
    assert blurred[..., 0].sum() > 0
    assert blurred[..., 1:].sum() == 0
    assert blurred[16, 16, 0] == round(255 / (2 * math.pi))


@pytest.mark.parametrize("value", [0, 1, 127, 255])
def test_flat_colour_stays_flat_to_the_border(value: int) -> None:
    image = np.full((20, 30, 3), value, dtype=np.uint8)
    np.testing.assert_array_equal(GaussianBlur().image(image, {"sigma_px": 4.0}, {}, FRAME), image)


def test_detail_falls_with_sigma_and_the_mean_stays() -> None:
    image = noise(128, 128)
    blurred = [
        GaussianBlur().image(image, {"sigma_px": sigma}, {}, FRAME) for sigma in (1.0, 2.0, 4.0)
    ]
    detail = [float(picture.std()) for picture in (image, *blurred)]
    assert detail == sorted(detail, reverse=True)
    assert all(abs(picture.mean() - image.mean()) < 0.1 for picture in blurred)


def test_the_result_is_a_new_contiguous_picture_and_the_input_stays() -> None:
    image = noise()
    image.flags.writeable = False
    blurred = GaussianBlur().image(image, {"sigma_px": 2.0}, {}, FRAME)
    assert blurred.shape == image.shape
    assert blurred.dtype == np.uint8
    assert blurred.flags.c_contiguous
    assert not np.shares_memory(blurred, image)
    np.testing.assert_array_equal(image, noise())


def test_the_scene_is_not_touched() -> None:
    scene = FakeScene()
    GaussianBlur().apply(scene, {"sigma_px": 4.0}, {})
    assert scene.written == []


def test_zero_is_identity_and_a_negative_sigma_is_refused() -> None:
    assert GaussianBlur().is_identity({"sigma_px": 0.0}, {})
    assert not GaussianBlur().is_identity({"sigma_px": 0.1}, {})
    with pytest.raises(ValueError, match=r"sigma_px = -1\.0"):
        GaussianBlur().check({"sigma_px": -1.0})
