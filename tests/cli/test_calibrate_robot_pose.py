"""``vla-shift calibrate robot-pose``: spacing by hand, and on released states."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands.calibration import robot_pose


def test_spacings_of_three_poses_on_a_line_are_what_they_are_by_hand() -> None:
    positions = np.array([[0.0, 0.0, 0.0], [0.01, 0.0, 0.0], [0.05, 0.0, 0.0]])
    degrees = np.radians([0.0, 2.0, 10.0]) / 2.0
    quats = np.stack([np.sin(degrees), 0 * degrees, 0 * degrees, np.cos(degrees)], axis=1)
    # A quaternion and its negative are one orientation.
    quats[1] *= -1.0
    found = robot_pose.spacings(positions, quats)
    assert set(found) == set(robot_pose.DEFINITIONS)
    assert found["mean nearest"] == pytest.approx((0.06 / 3, 12.0 / 3))
    assert found["median nearest"] == pytest.approx((0.01, 2.0))
    assert found["mean pairwise"] == pytest.approx((0.10 / 3, 20.0 / 3))
    spread = math.sqrt(sum((x - 0.02) ** 2 for x in (0.0, 0.01, 0.05)) / 3)
    turned = math.sqrt(sum((x - 4.0) ** 2 for x in (0.0, 2.0, 10.0)) / 3)
    assert found["rms to mean"] == pytest.approx((spread, turned), rel=1e-3)


def test_the_nearest_definition_is_the_one_whose_worse_figure_is_nearest() -> None:
    task = dict.fromkeys(robot_pose.DEFINITIONS, (0.0257, 10.0))
    task["median nearest"] = (0.024, 3.6)
    assert robot_pose.nearest([task]) == "median nearest"


def test_it_prints_every_definition_beside_the_published_scales(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libero.libero")
    monkeypatch.setattr(robot_pose, "SUITES", ("libero_spatial",))
    assert main(["calibrate", "robot-pose", "--tasks", "1"]) == 0
    out = capsys.readouterr().out
    for definition in robot_pose.DEFINITIONS:
        assert out.count(f"  {definition} ") == 2, "of the suite, and of all tasks"
    assert "2.57 cm     3.94 degrees" in out
    pairwise = next(line for line in out.splitlines() if "mean pairwise" in line)
    metres, degrees = (float(word) for word in pairwise.split()[2:5:2])
    assert metres == pytest.approx(2.57, abs=0.15)
    assert degrees == pytest.approx(3.94, abs=0.5)
    assert "The nearest over all tasks is 'mean pairwise'" in out


def test_no_task_at_all_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "robot-pose", "--tasks", "0"]) == 2
    assert "at least one task a suite" in capsys.readouterr().err


def test_a_calibration_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calibrate"])
    assert ended.value.code == 2
    assert "CALIBRATION" in capsys.readouterr().err
