"""Pictures of a pair: lossless PNG frames, caption bands, and clean beside shifted.

Pillow comes with the extras ``libero`` and ``video`` and is imported when the first picture is
made. All arrays are (H, W, 3) uint8 RGB, upright.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image

BAND = 20
"""Height of a caption band in pixels."""

GAP = 4
"""Pixels between pictures."""

_PAPER = (255, 255, 255)
_INK = (20, 20, 20)
_SIZE = 12


def _pillow(name: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(f"PIL.{name}")
    except ImportError as error:
        raise UsageError(
            "pictures and videos need Pillow: pip install 'pytest-vla-shift[video]'"
        ) from error


def encode_png(image: Image) -> bytes:
    """``image`` as PNG, lossless.

    Every row is stored as what it differs from the row above. Pillow looks for the best of five
    ways row by row, and takes twice as long for a file of the same size.

    Raises:
        ValueError: it is not (H, W, 3) uint8.
    """
    _check(image, "image")
    height, width, _ = image.shape
    rows = np.ascontiguousarray(image).reshape(height, 3 * width)
    filtered = np.empty((height, 1 + 3 * width), np.uint8)
    filtered[:, 0] = _UP
    filtered[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    # Level 6, the default, takes four times as long for a file that is 2 % smaller.
    packed = zlib.compress(filtered.tobytes(), 1)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_UP = 2
"""PNG's number for a row as its difference from the one above."""


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def decode_png(data: bytes) -> Image:
    """The (H, W, 3) uint8 picture of :func:`encode_png`.

    Raises:
        ValueError: ``data`` is not a PNG of 8-bit RGB.
        UsageError: Pillow is not installed.
    """
    pil = _pillow("Image")
    try:
        with pil.open(io.BytesIO(data), formats=("PNG",)) as picture:
            if picture.mode != "RGB":
                raise ValueError(f"PNG of mode {picture.mode}, not RGB")
            return np.array(picture, dtype=np.uint8)
    except (OSError, SyntaxError) as error:
        raise ValueError(f"not a PNG: {error}") from error


@lru_cache(maxsize=256)  # the same few words stand over the pictures of all nodes
def caption(text: str, width: int, height: int = BAND) -> Image:
    """A band of (height, width, 3) with ``text``, cut with ``...`` where it does not fit.

    Not to be written to: it is the same array for the same arguments.
    """
    font = _pillow("ImageFont").load_default(_SIZE)
    room = width - 8
    if font.getlength(text) > room:
        while text and font.getlength(text + "...") > room:
            text = text[:-1]
        text += "..."
    picture = _pillow("Image").new("RGB", (width, height), _PAPER)
    draw = _pillow("ImageDraw").Draw(picture)
    draw.text((4, height // 2), text, fill=_INK, font=font, anchor="lm")
    band = np.array(picture, dtype=np.uint8)
    band.flags.writeable = False
    return band


def strip(clean: Mapping[str, Image], shifted: Mapping[str, Image], labels: Sequence[str]) -> bytes:
    """Clean beside shifted, one row a camera, each under a caption.

    Args:
        clean, shifted: camera -> the arm's first frame; the same cameras in both.
        labels: two words, for example ``("clean", "camera L2")``.

    Returns:
        PNG.

    Raises:
        ValueError: the cameras or the sizes of the two arms differ, there is no camera, or a
            frame is not (H, W, 3) uint8.
        UsageError: Pillow is not installed.
    """
    if set(clean) != set(shifted):
        raise ValueError(f"cameras differ: {sorted(clean)} and {sorted(shifted)}")
    if not clean:
        raise ValueError("no camera: the policy never looks, so there is nothing to show")
    left_label, right_label = labels
    rows: list[Image] = []
    for camera in clean:
        left, right = clean[camera], shifted[camera]
        _check(left, f"clean {camera}")
        _check(right, f"shifted {camera}")
        if left.shape != right.shape:
            raise ValueError(f"{camera}: sizes differ: {left.shape} and {right.shape}")
        width = left.shape[1]
        rows.append(
            beside(
                np.vstack([caption(f"{left_label}: {camera}", width), left]),
                np.vstack([caption(f"{right_label}: {camera}", width), right]),
            )
        )
    total = max(row.shape[1] for row in rows)
    return encode_png(np.vstack([_widen(row, total) for row in rows]))


def beside(left: Image, right: Image) -> Image:
    """Two pictures of one height with a gap between them."""
    gap = np.full((left.shape[0], GAP, 3), _PAPER, np.uint8)
    return np.hstack([left, gap, right])


def _widen(image: Image, width: int) -> Image:
    rest = np.full((image.shape[0], width - image.shape[1], 3), _PAPER, np.uint8)
    return np.hstack([image, rest])


def _check(image: Image, what: str) -> None:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise ValueError(f"{what} is {image.dtype} of shape {image.shape}, not (H, W, 3) uint8")
