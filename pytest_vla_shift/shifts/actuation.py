"""Between command and motion: LIBERO-CTRL's actuation axis (section 3.2 and Table 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_vla_shift.shifts import rotation
from pytest_vla_shift.shifts.kinds import Metric, PassingShift, variate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.shifts.protocol import Command, Draw, Parameters

BIAS = ("bias_x", "bias_y", "bias_z")
AXIS = ("axis_x", "axis_y", "axis_z")


class Actuation(Metric, PassingShift):
    """What the arm is made to do instead of what the policy commands.

    Acts on the six components of an action that move and turn the end effector; the gripper's and
    any other pass unchanged and undelayed. Settling is not touched. Commands are first clipped to
    the interface's range, as the simulator would: otherwise a command beyond the range would hide
    the shift. The result is not clipped here; the simulator does it, as it does for every action.

    The paper names five parameters with their scales and says "commanded-to-realised actions";
    where they act and in which order is our reading, and its open-loop calibration
    (``vla-shift calibrate actuation``) is what the reading is held against. In this order:

    1. ``lag`` (ms, at least 0): a pure delay. With the control period T, n whole periods and a
       fraction f, the arm follows ``(1 - f) * a[k - n] + f * a[k - n - 1]``: what a held command
       that arrives f T late amounts to over one period. Before the first command there was rest.
    2. ``gain`` (log2, either sign): the arm's components times ``2^gain``.
    3. ``misalignment`` (degrees, at least 0): translation and rotation vector are both turned by
       this angle about the draw's unit vector ``axis_x, axis_y, axis_z``, as by a base frame that
       is not where it is thought to be.
    4. ``bias`` (percent of half the interface's range, which is the largest command; at least 0):
       a constant translation along the draw's unit vector ``bias_x, bias_y, bias_z``.
    5. ``noise`` (percent of the same; at least 0): standard deviation of Gaussian noise on each of
       the six components, independent, fresh in every control step, from the step's own
       generator; the same unit noise at all levels, scaled.

    The unit vectors are no part of the severity.
    """

    name: ClassVar[str] = "actuation"
    revision: ClassVar[int] = 1
    distributions: ClassVar[tuple[str, ...]] = ("numpy",)
    scales: ClassVar[dict[str, str]] = {
        "gain": "gain_log2",
        "bias": "bias_percent",
        "misalignment": "misalignment_deg",
        "lag": "lag_ms",
        "noise": "noise_percent",
    }
    one_sided: ClassVar[frozenset[str]] = frozenset(scales) - {"gain"}

    def draw(self, rng: np.random.Generator) -> Draw:
        """A direction, and the unit vectors of bias and misalignment, uniform on the sphere."""
        drawn = dict(super().draw(rng))
        for names in (BIAS, AXIS):
            vector = rng.standard_normal(3)
            vector /= math.sqrt(float(vector @ vector))
            drawn.update(zip(names, vector.tolist(), strict=True))
        return drawn

    def offsets(self, level: Parameters, draw: Draw) -> dict[str, float]:
        """As for every metric shift; the draw must have both unit vectors."""
        for names in (BIAS, AXIS):
            unit_vector(draw, names)
        return super().offsets(level, draw)

    def action(
        self, commanded: NDArray[np.float64], level: Parameters, draw: Draw, command: Command
    ) -> NDArray[np.float64]:
        """(D,) the action to execute in place of ``commanded[-1]``, a new array."""
        offset = self.offsets(level, draw)
        layout = command.layout
        half_range = 0.5 * (layout.high - layout.low)
        parts = tuple(slice(*part) for part in (layout.position, layout.rotation))
        arm = np.r_[parts]
        done: NDArray[np.float64] = commanded[-1].copy()
        periods = offset["lag"] * layout.control_hz / 1000.0
        delayed = _delayed(commanded, command.rest, periods, (layout.low, layout.high))
        done[arm] = delayed[arm] * 2.0 ** offset["gain"]
        if offset["misalignment"]:
            radians = math.radians(offset["misalignment"])
            turn = rotation.about(unit_vector(draw, AXIS).tolist(), radians)
            for part in parts:
                done[part] = rotation.rotate(turn, done[part].tolist())
        if offset["bias"]:
            bias = offset["bias"] / 100.0 * half_range
            done[parts[0]] += bias * unit_vector(draw, BIAS)
        if offset["noise"]:
            sigma = offset["noise"] / 100.0 * half_range
            done[arm] += sigma * command.generator().standard_normal(len(arm))
        return done


def _delayed(
    commanded: NDArray[np.float64],
    rest: NDArray[np.float64],
    periods: float,
    limits: tuple[float, float],
) -> NDArray[np.float64]:
    """(D,) the last command as it arrives ``periods`` control periods late, within ``limits``."""

    def back(steps: int) -> NDArray[np.float64]:
        row = commanded[-1 - steps] if steps < len(commanded) else rest
        return np.clip(row, *limits)

    whole = math.floor(periods)
    fraction = periods - whole
    late: NDArray[np.float64] = (1.0 - fraction) * back(whole)
    return late + fraction * back(whole + 1) if fraction else late


def unit_vector(draw: Draw, names: tuple[str, str, str]) -> Vector:
    """(3,) the unit vector of a draw's three numbers.

    Raises:
        ValueError: one is missing, or they have no length of 1 (to 1e-6).
    """
    vector = np.array([variate(draw, name) for name in names])
    norm = float(np.linalg.norm(vector))
    if not abs(norm - 1.0) <= 1e-6:
        raise ValueError(f"{', '.join(names)} have norm {norm:.6f}, not 1")
    return vector
