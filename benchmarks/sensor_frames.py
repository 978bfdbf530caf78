"""What the sensor axis costs a picture: CPU of each of its steps, and of all of them.

    python -m benchmarks.sensor_frames

The median over 50 pictures of 256 x 256, at LIBERO-CTRL's largest radius.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.shifts.protocol import Frame
from pytest_vla_shift.shifts.sensor import Sensor

PICTURES = 50


def main() -> None:
    shift = Sensor()
    level = frozen_axes("libero_ctrl")["sensor"].levels[-1].parameters
    picture = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    names = tuple(shift.scales)
    nothing = {**dict.fromkeys(names, 0.0), "motion_angle_deg": 30.0}
    draws = {name: {**nothing, name: 1.0} for name in names}
    draws["all four"] = {**nothing, **dict.fromkeys(names, len(names) ** -0.5)}
    for what, draw in draws.items():
        costs = []
        for step in range(PICTURES):
            began = time.process_time()
            shift.image(picture, level, draw, Frame("agentview", step, seed=0))
            costs.append(time.process_time() - began)
        print(f"{what:<10} {1000 * statistics.median(costs):6.2f} ms")


if __name__ == "__main__":
    main()
