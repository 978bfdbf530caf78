"""First frames on disk, for people: JPEG files, written and read through Pillow.

Without Pillow (it comes with every simulator extra) there are no pictures, and nothing else
changes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.rollouts.storage import write_new

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image

QUALITY = 92

Stamp = frozenset[tuple[str, int, int]]
"""Name, time of the last change in nanoseconds and size of every file of a folder."""

MOST_PIXELS = 2**24
"""A picture that claims to be larger is none of ours, and is not unpacked."""


@cache
def available() -> bool:
    """Whether pictures can be written: Pillow is there and can be imported."""
    try:
        import PIL.Image  # noqa: F401
    except Exception:  # a broken installation may raise anything
        return False
    return True


def write_frames(directory: Path, frames: Mapping[str, Image]) -> None:
    """Write camera -> (H, W, 3) uint8 RGB as ``<camera>.jpg``, for a row that is not written yet.

    Raises:
        OSError: they cannot be written.
    """
    if not available():
        return
    from PIL import Image as Pillow

    directory.mkdir(parents=True, exist_ok=True)
    for camera, frame in frames.items():
        buffer = io.BytesIO()
        Pillow.fromarray(frame).save(buffer, "JPEG", quality=QUALITY)
        write_new(directory / f"{camera}.jpg", buffer.getvalue())


def stamp(directory: Path) -> Stamp:
    """What tells whether the pictures in a folder are still those that were there."""
    try:
        with os.scandir(directory) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if entry.name[0] != "."]
    except OSError:
        return frozenset()
    return frozenset((name, status.st_mtime_ns, status.st_size) for name, status in found)


def read_frames(directory: Path) -> dict[str, Image]:
    """Camera -> (H, W, 3) uint8 RGB of every picture there; unreadable ones are left out."""
    if not available() or not directory.is_dir():
        return {}
    from PIL import Image as Pillow

    frames: dict[str, Image] = {}
    for path in sorted(directory.glob("[!.]*.jpg")):
        try:
            if not path.is_file():
                continue
            with Pillow.open(path, formats=["JPEG"]) as picture:
                if picture.width * picture.height <= MOST_PIXELS:
                    frames[path.stem] = np.asarray(picture.convert("RGB"))
        except Exception:  # whatever Pillow raises on bytes that are no picture
            continue
    return frames
