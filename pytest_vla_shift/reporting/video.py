"""A pair as one video: clean on the left, shifted on the right (H.264, PyAV of the extra video)."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.pictures import beside, caption

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image

HOLD_S = 1.0
"""How long the end is shown, so that the outcome can be read."""


@dataclass(frozen=True, slots=True)
class VideoArm:
    """One arm of the video.

    Attributes:
        frames: (T, H, W, 3) uint8 RGB, upright, T >= 1; both arms of one H and W.
        title: above the picture while the arm runs, for example ``camera L2``.
        outcome: beside the title once the arm has ended; see :func:`outcome`.
    """

    frames: NDArray[np.uint8]
    title: str
    outcome: str


def outcome(success: bool | None, steps: int) -> str:
    """``success at step 83``, ``failed after 280 steps``, ``error after 12 steps``."""
    if success is None:
        return f"error after {steps} steps"
    return f"success at step {steps}" if success else f"failed after {steps} steps"


@functools.cache
def available() -> bool:
    """Whether videos can be written: PyAV and Pillow can be imported.

    They are really imported, once a process: a package that is installed may still lack a shared
    library of the system.
    """
    try:
        for name in ("av", "PIL"):
            importlib.import_module(name)
    except Exception:  # whatever a broken package raises
        return False
    return True


def side_by_side(clean: VideoArm, shifted: VideoArm, out_path: Path, fps: float) -> Path:
    """Write the pair as an mp4 that browsers play.

    The shorter arm holds its last frame, with its outcome, until the longer one has ended; then
    both are held for a second.

    Args:
        clean: left.
        shifted: right.
        out_path: ``*.mp4``, replaced in one step; its folder must exist.
        fps: frames a second, above 0.

    Returns:
        ``out_path``.

    Raises:
        ValueError: frames are not (T, H, W, 3) uint8 of one size, or fps is not positive.
        UsageError: PyAV or Pillow cannot be imported.
        OSError: the file cannot be written.
    """
    _check(clean, shifted, fps)
    av = _pyav()
    hold = max(1, round(HOLD_S * fps))
    total = max(len(clean.frames), len(shifted.frames)) + hold
    drawn = (_Drawn(clean), _Drawn(shifted))
    first = _even(beside(drawn[0].at(0), drawn[1].at(0)))
    temporary = out_path.with_name(f".{out_path.stem}.{os.getpid()}.mp4")
    try:
        with av.open(
            str(temporary), "w", format="mp4", options={"movflags": "+faststart"}
        ) as container:
            # One thread: rollouts need the cores, and the file is then the same every time.
            stream = container.add_stream(
                "libx264",
                rate=Fraction(fps).limit_denominator(1000),
                options={"preset": "veryfast", "crf": "23", "threads": "1"},
            )
            stream.height, stream.width = first.shape[:2]
            stream.pix_fmt = "yuv420p"
            for index in range(total):
                picture = _even(beside(drawn[0].at(index), drawn[1].at(index)))
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        temporary.replace(out_path)
    finally:
        temporary.unlink(missing_ok=True)
    return out_path


class _Drawn:
    """An arm's pictures under their captions; each caption is drawn once."""

    def __init__(self, arm: VideoArm) -> None:
        self._frames = arm.frames
        width = arm.frames.shape[2]
        self._running = caption(arm.title, width)
        self._ended = caption(f"{arm.title}: {arm.outcome}", width)

    def at(self, index: int) -> Image:
        last = len(self._frames) - 1
        # The last frame is still the rollout; what is held after it is the end.
        band = self._running if index <= last else self._ended
        return np.vstack([band, self._frames[min(index, last)]])


def _even(image: Image) -> Image:
    """yuv420p halves both sides: an odd one gets a copy of its last row or column."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(padded)


def _pyav() -> ModuleType:
    try:
        return importlib.import_module("av")
    except Exception as error:  # whatever a broken package raises
        raise UsageError(
            "videos need PyAV: pip install 'pytest-vla-shift[video]'"
            f" ({type(error).__name__}: {error})"
        ) from error


def _check(clean: VideoArm, shifted: VideoArm, fps: float) -> None:
    if not fps > 0:
        raise ValueError(f"fps must be above 0, not {fps}")
    for name, arm in (("clean", clean), ("shifted", shifted)):
        shape = arm.frames.shape
        if len(shape) != 4 or shape[3] != 3 or 0 in shape or arm.frames.dtype != np.uint8:
            raise ValueError(
                f"{name} frames are {arm.frames.dtype} of shape {shape}, not (T, H, W, 3) uint8"
            )
    if clean.frames.shape[1:] != shifted.frames.shape[1:]:
        raise ValueError(
            f"sizes differ: {clean.frames.shape[1:3]} clean, {shifted.frames.shape[1:3]} shifted"
        )
