"""Degraded pictures: LIBERO-CTRL's sensor axis (section 3.2 and Table 1)."""

from __future__ import annotations

import importlib
import io
import math
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.shifts.gaussian_blur import blurred
from pytest_vla_shift.shifts.kinds import ImageShift, Metric, variate
from pytest_vla_shift.shifts.motion_blur import motion_blurred

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Draw, Frame, Parameters

ANGLE = "motion_angle_deg"


class Sensor(Metric, ImageShift):
    """Motion blur, Gaussian blur, pixel noise and JPEG on every picture that the policy is given.

    Every camera's, the wrist's too, and in the order in which light and electronics would do it:
    the movement and the lens before the sensor's noise, the encoder last. Coordinates, all with
    offsets of at least 0 from the undegraded picture:

    - ``motion``: length in pixels of a straight smear; its angle is the draw's
      ``motion_angle_deg`` and no part of the severity (see :mod:`.motion_blur`);
    - ``blur``: sigma in pixels of the Gaussian filter of :mod:`.gaussian_blur`;
    - ``noise``: standard deviation in 255ths of full scale of Gaussian noise, independent in
      every pixel and channel and fresh in every frame and camera; the same unit noise at all
      levels of a rollout's step, scaled;
    - ``jpeg``: x gives quality ``100 * 2^-x``, rounded and at least 1, of a real baseline JPEG
      with halved chroma (Pillow's and OpenCV's default).

    A coordinate of exactly 0 is skipped, so that a draw without JPEG is not encoded at quality
    100 either. Steps hand on what is not rounded; the picture is clipped to 0 ... 255 and rounded
    once, before the encoder. Pixels are those of the picture *as the policy's contract asks for
    it*: the paper does not name the size that its blurs are measured at.
    """

    name: ClassVar[str] = "sensor"
    revision: ClassVar[int] = 1
    distributions: ClassVar[tuple[str, ...]] = ("numpy", "pillow", "scipy")
    scales: ClassVar[dict[str, str]] = {
        "noise": "noise_255",
        "blur": "blur_px",
        "jpeg": "jpeg_log2",
        "motion": "motion_px",
    }
    one_sided: ClassVar[frozenset[str]] = frozenset(scales)

    def check(self, level: Parameters) -> None:
        """As for every shift; and that there is an encoder if one is needed.

        Raises:
            ValueError: a magnitude is missing, unknown or out of range.
            UsageError: Pillow cannot be imported; says what to install.
        """
        super().check(level)
        if level["radius"] * level["sigma_jpeg_log2"] and not encoder_available():
            raise UsageError(
                "the shift 'sensor' encodes JPEG with Pillow, which cannot be imported here:"
                " pip install 'pytest-vla-shift[libero]', or pip install 'pillow>=10'"
            )

    def draw(self, rng: np.random.Generator) -> Draw:
        """A direction with no negative component, and the smear's angle, 0 to 180 degrees."""
        direction = super().draw(rng)
        return {**direction, ANGLE: float(rng.uniform(0.0, 180.0))}

    def offsets(self, level: Parameters, draw: Draw) -> dict[str, float]:
        """As for every metric shift; the draw must have the smear's angle."""
        variate(draw, ANGLE)
        return super().offsets(level, draw)

    def image(self, image: Image, level: Parameters, draw: Draw, frame: Frame) -> Image:
        """The degraded picture, a new array."""
        offset = self.offsets(level, draw)
        picture: NDArray[np.uint8 | np.floating] = image
        if offset["motion"]:
            picture = motion_blurred(image, offset["motion"], draw[ANGLE])
        if offset["blur"]:
            picture = blurred(picture, offset["blur"])
        if offset["noise"]:
            picture = picture + offset["noise"] * frame.generator().standard_normal(image.shape)
        rounded: Image = np.rint(np.clip(picture, 0.0, 255.0)).astype(np.uint8)
        return jpeg(rounded, quality(offset["jpeg"])) if offset["jpeg"] else rounded


def quality(log2: float) -> int:
    """The encoder's quality, 1 to 100, at an offset of ``log2`` halvings."""
    return max(1, round(100.0 * math.pow(2.0, -log2)))


def jpeg(image: Image, quality: int) -> Image:
    """(H, W, 3) uint8 RGB after a baseline JPEG of that quality, in memory; 4:2:0 chroma."""
    # Not at the top: who runs no sensor axis needs no Pillow.
    from PIL import Image as pillow  # noqa: N813

    stream = io.BytesIO()
    pillow.fromarray(image).save(stream, format="JPEG", quality=quality, subsampling="4:2:0")
    with pillow.open(stream) as decoded:
        return np.array(decoded, dtype=np.uint8)


@cache
def encoder_available() -> bool:
    """Whether Pillow can really be imported: installed, it may still lack a shared library."""
    try:
        importlib.import_module("PIL.Image")
    except Exception:  # whatever a broken package raises
        return False
    return True
