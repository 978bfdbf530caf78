"""Whether an answer's numbers can be what a profile says that they are.

A number of another convention raises nothing by itself: robosuite's -1, which opens, is below the
threshold of a gripper from 0 to 1, and would close. So numbers are held against the profile's
range, as narrowly as models allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.fitting import TRANSFORM
from pytest_vla_shift.policies.profile import MappingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import ActionMap

SLACK = 0.5
"""Of the range, beyond either end, for what is thresholded. Models overshoot: chunks that are sums
of cosines by 9 % of a jump on either side, flows without a bound of their own. Of the conventions
for grippers, [-1, 1] leaves [0, 1] by all of it: half way is as far as can be from taking one for
the other, and from losing rollouts of a model that overshoots."""

WIDEST = 10.0
"""Times the range, around its middle, for what is passed on as it is. Simulators clip what leaves
the range, and a policy that is lost may ask for too much: that is its failure, not the server's.
Beyond this, numbers are in other units: bytes, degrees, millimetres."""


def bounds(part: ActionMap) -> tuple[float, float]:
    """Least and greatest number that ``part`` takes."""
    span = part.high - part.low
    if part.transform == "identity":
        middle = part.low / 2.0 + part.high / 2.0
        return middle - WIDEST / 2.0 * span, middle + WIDEST / 2.0 * span
    return part.low - SLACK * span, part.high + SLACK * span


def check_range(
    profile: str, part: ActionMap, values: NDArray[np.float64], mapped: NDArray[np.float64]
) -> None:
    """Refuse numbers that are in another convention, or in other units.

    Args:
        profile: its name.
        part: of it.
        values: (T, W) on the wire, the columns of ``part``.
        mapped: (T, W), what they would become.

    Raises:
        MappingError: one lies beyond :func:`bounds`; says both, and what it would become.
    """
    least, most = bounds(part)
    beyond = np.argwhere((values < least) | (values > most))
    if not len(beyond):
        return
    step, at = (int(index) for index in beyond[0])
    meaning = "" if part.transform == "identity" else f" ({TRANSFORM[part.transform]})"
    told = f"from {part.low:g} to {part.high:g}{meaning}"
    if part.transform == "identity":
        told += f", and beyond {least:g} to {most:g} no number is taken for one"
    else:
        told += f", where it would become {mapped[step, at]:+g}"
    raise MappingError(
        f"{part.key!r} has {values[step, at]:g} (step {step}, column {part.columns[at]}), and"
        f" profile {profile!r} says {told}: it is of another convention, or in other units"
    )
