"""What a report says of a run apart from its rollouts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_vla_shift.reporting.run_report import run_facts
from pytest_vla_shift.rollouts.record import JSON
from tests.rollouts.test_manifest import PLAN


@pytest.mark.parametrize(
    "policy,told",
    [
        ({"unidentified": True, "checkpoint": ""}, True),
        ({"unidentified": True, "checkpoint": "night-7"}, False),
        ({"unidentified": False}, False),
        ({}, False),  # a plan that was written before
    ],
)
def test_weights_that_nobody_can_name_are_noted(policy: dict[str, JSON], told: bool) -> None:
    spec: dict[str, JSON] = {"name": "p", "revision": "1", "privileged": False, "seeded": False}
    facts = run_facts("night", replace(PLAN, policy={**spec, **policy}), ["mine"])
    assert any("--vla-checkpoint" in note for note in facts.notes) == told
    assert facts.notes[-1] == "mine"
