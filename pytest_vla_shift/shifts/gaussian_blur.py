"""Out-of-focus pictures: RoboCasa-Shift's blur factor (sections III-B and VI-B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import ndimage

from pytest_vla_shift.shifts.kinds import ImageShift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Draw, Frame, Parameters

TRUNCATE = 4.0
"""The kernel reaches this many sigmas to either side (SciPy's default)."""


class GaussianBlur(ImageShift):
    """Blurs every RGB picture that the policy is given, from every camera, the wrist's too.

    ``sigma_px`` is the standard deviation in pixels of the picture *as the policy's contract asks
    for it*: the same sigma is a weaker shift of a larger picture, which is why picture sizes are
    part of a key. Channels are blurred apart, each separably, in float64; beyond the border the
    picture is mirrored (SciPy's ``reflect``), which keeps flat colour flat and the mean as it
    is; the result is rounded to the nearest integer. 0 is identity. Deterministic.
    """

    name: ClassVar[str] = "gaussian_blur"
    revision: ClassVar[int] = 1
    distributions: ClassVar[tuple[str, ...]] = ("scipy",)
    limits: ClassVar[dict[str, tuple[float, float]]] = {"sigma_px": (0.0, 64.0)}
    neutral: ClassVar[dict[str, float]] = {"sigma_px": 0.0}

    def is_identity(self, level: Parameters, draw: Draw) -> bool:  # noqa: ARG002
        """True for a sigma of zero."""
        return level["sigma_px"] == 0.0

    def image(
        self,
        image: Image,
        level: Parameters,
        draw: Draw,  # noqa: ARG002
        frame: Frame,  # noqa: ARG002
    ) -> Image:
        """The blurred picture, a new array."""
        rounded: Image = np.rint(blurred(image, level["sigma_px"])).astype(np.uint8)
        return rounded


def blurred(picture: NDArray[np.uint8 | np.floating], sigma_px: float) -> NDArray[np.float64]:
    """(H, W, 3) through the filter, a new array, not rounded."""
    filtered: NDArray[np.float64] = ndimage.gaussian_filter(
        picture,
        sigma=(sigma_px, sigma_px, 0.0),
        output=np.float64,
        mode="reflect",
        truncate=TRUNCATE,
    )
    return filtered
