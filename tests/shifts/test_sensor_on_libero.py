"""The sensor axis on pictures of the real simulator."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("libero.libero", reason="needs the extra 'libero'")

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.shifts.protocol import Frame, Intervention
from pytest_vla_shift.shifts.sensor import Sensor
from tests.simulators.libero_support import CAMERAS, MILK, simulator

AXIS = frozen_axes("libero_ctrl")["sensor"]
LEVEL = AXIS.levels[-1]
NOISY = {"noise": 0.5, "blur": 0.5, "jpeg": 0.5, "motion": 0.5, "motion_angle_deg": 20.0}
SHIFT = Intervention("sensor", "sensor", LEVEL.name, LEVEL.parameters, NOISY, seed=41)
STILL = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]])


def test_every_camera_is_degraded_afresh_in_every_step_and_alike_within_one() -> None:
    sim = simulator()
    clean = sim.prepare(MILK).fingerprint
    pictures = sim.observe(CAMERAS).images
    shifted = sim.prepare(MILK).fingerprint
    receipts = {receipt.field: receipt.after for receipt in sim.apply([SHIFT])}
    assert shifted == clean
    assert receipts["observation.rgb sensor.radius"] == 8.0
    first, again = sim.observe(CAMERAS).images, sim.observe(CAMERAS).images
    for camera in CAMERAS:
        expected = Sensor().image(
            pictures[camera], LEVEL.parameters, NOISY, Frame(camera, step=0, seed=41)
        )
        np.testing.assert_array_equal(first[camera], expected)
        np.testing.assert_array_equal(again[camera], first[camera])
        assert np.abs(first[camera].astype(int) - pictures[camera]).mean() > 3
    sim.step(STILL)
    later = sim.observe(CAMERAS).images
    for camera in CAMERAS:
        # The arm stands still: what differs this much is noise.
        assert np.abs(later[camera].astype(int) - first[camera]).mean() > 3
