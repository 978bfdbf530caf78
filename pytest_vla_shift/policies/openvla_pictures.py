"""What OpenVLA's own evaluation does to a picture before the model gets it.

A JPEG there and back, Lanczos down to the model's size, and the middle 90 % of the area made as
large again: the training data were made so. Follows ``resize_image`` of its
experiments/robot/libero/libero_utils.py and ``crop_and_resize`` of openvla_utils.py, which call
TensorFlow; here numpy does the same sums. Against TensorFlow 2.21: the JPEG has the same bytes, its
decoder is another (TensorFlow's takes the fast integer transform, Pillow's the accurate one); with
the same decoded picture, fewer than 2 numbers in 1,000 differ, by 1.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image

    Matrix = NDArray[np.float64]
    Weights = Callable[[int, int], "Sparse"]

CROP = 0.9
"""Of the area."""

QUALITY = 95
"""Of the JPEG: TensorFlow's default, with colours at half the resolution."""

RADIUS = 3.0


class Sparse(Protocol):
    """As much of scipy's sparse matrices as is used."""

    def __matmul__(self, other: Matrix) -> Matrix: ...

    def sum(self, axis: int) -> Matrix: ...


def as_evaluated(picture: Image, size: tuple[int, int]) -> Image:
    """(h, w, 3) uint8 for (H, W, 3), through all three steps.

    Raises:
        UsageError: Pillow is missing.
    """
    return cropped(lanczos(through_jpeg(picture), size))


def through_jpeg(picture: Image) -> Image:
    """The same picture, compressed and decompressed.

    Raises:
        UsageError: Pillow is missing.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise UsageError(
            "this profile compresses pictures, which takes pillow: pip install pillow"
        ) from error
    stream = io.BytesIO()
    whole = PIL.Image.fromarray(np.ascontiguousarray(picture))
    whole.save(stream, "JPEG", quality=QUALITY, subsampling="4:2:0")
    with PIL.Image.open(stream) as read:
        return np.array(read.convert("RGB"))


def lanczos(picture: Image, size: tuple[int, int]) -> Image:
    """(h, w, 3): as ``tf.image.resize(..., method="lanczos3", antialias=True)``, rounded."""
    resized = _through(picture.astype(np.float64), size, lanczos_weights)
    return np.clip(np.rint(resized), 0, 255).astype(np.uint8)


def cropped(picture: Image) -> Image:
    """The middle of it, in the same size: as ``tf.image.crop_and_resize`` with its bilinear rule.

    The fraction of a value is cut off after multiplying by 255.5, as ``convert_image_dtype`` does.
    """
    resized = _through(picture / 255.0, picture.shape[:2], crop_weights)
    return (np.clip(resized, 0.0, 1.0) * 255.5).astype(np.uint8)


@functools.cache
def lanczos_weights(before: int, after: int) -> Sparse:
    """(after, before): what each old pixel gives to a new one; rows sum to 1."""
    scale = before / after
    wide = max(1.0, scale)
    centres = (np.arange(after) + 0.5) * scale
    distance = np.abs(np.arange(before) + 0.5 - centres[:, None]) / wide
    weights = np.where(distance <= RADIUS, np.sinc(distance) * np.sinc(distance / RADIUS), 0.0)
    return _sparse(weights / weights.sum(axis=1, keepdims=True))


@functools.cache
def crop_weights(before: int, after: int) -> Sparse:
    """(after, before): two neighbours each; the first and last new pixel lie on the crop's edge."""
    side = math.sqrt(CROP)
    start = (1.0 - side) / 2.0 * (before - 1)
    step = side * (before - 1) / (after - 1) if after > 1 else 0.0
    places = start + step * np.arange(after)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, before - 1)
    weights = np.zeros((after, before))
    np.add.at(weights, (np.arange(after), low), 1.0 - (places - low))
    np.add.at(weights, (np.arange(after), high), places - low)
    return _sparse(weights)


def _through(picture: NDArray[np.float64], size: tuple[int, ...], weights: Weights) -> Matrix:
    """(h, w, 3): both directions, one after the other."""
    lower = _along(picture, weights(picture.shape[0], size[0]))
    narrower = _along(lower.transpose(1, 0, 2), weights(picture.shape[1], size[1]))
    return np.ascontiguousarray(narrower.transpose(1, 0, 2))


def _along(picture: NDArray[np.float64], weights: Sparse) -> Matrix:
    """The product, along the first direction."""
    found = weights @ picture.reshape(len(picture), -1)
    return found.reshape(-1, *picture.shape[1:])


def _sparse(weights: Matrix) -> Sparse:
    # Few numbers of a row are not 0, and this happens before every action.
    from scipy.sparse import csr_array

    found: Sparse = csr_array(weights)
    return found
