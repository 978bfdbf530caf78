"""Pictures as a policy was trained on them: orientation and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import ImageMap
    from pytest_vla_shift.protocol.observation import Image


def to_profile(image: ImageMap, upright: Image) -> Image:
    """(h, w, 3) uint8: ``upright``, (H, W, 3), as ``image`` says; C-contiguous, its own memory.

    Raises:
        MappingError: another size is wanted, and the profile does not resize.
    """
    turned = _turned(image, upright)
    size = image.size
    if size is not None and image.resize == "openvla":
        from pytest_vla_shift.policies.openvla_pictures import as_evaluated

        return as_evaluated(turned, size)
    if size is None or turned.shape[:2] == size:
        return np.array(turned, order="C")
    if image.resize == "none":
        raise MappingError(
            f"{image.key!r} takes pictures of {size[0]} x {size[1]} pixels, and {image.camera!r}"
            f" gives {turned.shape[0]} x {turned.shape[1]}"
        )
    return _padded(turned, size) if image.resize == "pad" else _resized(turned, size)


def from_profile(image: ImageMap, picture: Image) -> Image:
    """The inverse of :func:`to_profile`, but for the size and a crop."""
    return np.array(_turned(image, picture), order="C")  # each turn is its own inverse


def _turned(image: ImageMap, picture: Image) -> Image:
    match image.orientation:
        case "mirrored":
            return picture[:, ::-1]
        case "rotate_180":
            return picture[::-1, ::-1]
        case "upright":
            return picture


def _padded(picture: Image, size: tuple[int, int]) -> Image:
    """As large as fits, in the middle of black. Follows openpi's image_tools.resize_with_pad."""
    height, width = size
    ratio = max(picture.shape[1] / width, picture.shape[0] / height)
    inner = (int(picture.shape[0] / ratio), int(picture.shape[1] / ratio))
    framed = np.zeros((height, width, 3), np.uint8)
    top = max(0, int((height - inner[0]) / 2))
    left = max(0, int((width - inner[1]) / 2))
    framed[top : top + inner[0], left : left + inner[1]] = _resized(picture, inner)
    return framed


def _resized(picture: Image, size: tuple[int, int]) -> Image:
    """(h, w, 3) by Pillow's bilinear filter, which averages when it makes smaller."""
    try:
        import PIL.Image
    except ImportError as error:
        raise UsageError(
            "this profile resizes pictures, which takes pillow: pip install pillow"
        ) from error
    height, width = size
    resized = PIL.Image.fromarray(np.ascontiguousarray(picture)).resize(
        (width, height), resample=PIL.Image.Resampling.BILINEAR
    )
    return np.array(resized)
