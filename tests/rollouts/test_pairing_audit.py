"""The pairing audit: states that repeat, seeds that repeat a policy, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.protocol.observation import Observation
from pytest_vla_shift.protocol.plan import Cut
from pytest_vla_shift.reporting.audit_tables import pairing_table
from pytest_vla_shift.rollouts.pairing_audit import PairingReport, audit_pairing
from pytest_vla_shift.rollouts.request import settings_of
from tests.fakes.toy_policies import Expert, Flaky, GlobalRandom, Raises
from tests.fakes.toy_simulator import Toy
from tests.rollouts.toy import toy_suite


def audit(policy: Policy, fault: str = "", **options: object) -> PairingReport:
    tasks = ('"reach_left", "reach_right"', f'"reach_left{fault}", "reach_right"')
    suite = toy_suite(tasks)
    return audit_pairing(Toy(settings_of(suite)), policy, suite, {}, **{"episodes": 2, **options})  # type: ignore[arg-type]


def test_a_seeded_policy_repeats_with_its_seed_and_not_with_another() -> None:
    report = audit(GlobalRandom())
    assert report.passed
    assert not report.inert
    # 2 tasks x 2 episodes; each start is compared after a shift of itself, and another episode.
    assert (len(report.starts), len(report.seeds)) == (8, 4)
    assert all(s.same_seed and not s.other_seed and s.steps > 20 for s in report.seeds)
    assert {s.between.split(" of ")[0] for s in report.starts} == {"base-L3", "clean"}
    assert report.notes() == ()
    assert json.loads(json.dumps(report.to_json()))["passed"] is True


def test_a_deterministic_policy_without_a_seed_is_inert_and_passes() -> None:
    report = audit(Expert())
    assert report.passed
    assert report.inert
    assert report.notes() == (
        "Policy seed inert: the policy declares none, and repeats without one.",
    )


class Deaf(Expert):
    """Declares a seed that decides nothing."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, seeded=True)


def test_a_declared_seed_that_decides_nothing_is_noted_and_counted() -> None:
    report = audit(Deaf())
    assert report.passed
    assert report.inert
    assert "policy seed inert" in report.notes()[0]
    assert sum(record.other_seed for record in report.seeds) == 4


class Uncontrolled(Expert):
    """Draws from a generator that no seed reaches (Table II's first row)."""

    def __init__(self) -> None:
        super().__init__()
        self._own = np.random.default_rng(3)

    def act(self, observation: Observation) -> np.ndarray:
        actions = super().act(observation)
        actions[:, 3:6] = self._own.uniform(-1, 1, (len(actions), 3))
        return actions


def test_uncontrolled_randomness_fails_the_audit() -> None:
    report = audit(Uncontrolled())
    assert not report.passed
    assert not any(record.same_seed for record in report.seeds)
    assert all(record.passed for record in report.starts)
    table = pairing_table(report)
    assert "FAILED: 4 problems" in table
    assert "the shared seed does not repeat the actions" in table


def test_a_seed_that_matters_in_some_episodes_only_is_counted() -> None:
    report = audit(Flaky("0.5"))
    assert report.passed
    assert 0 < sum(record.other_seed for record in report.seeds) < 4


@pytest.mark.parametrize("fault,field", [("_jitter", "model.target_pos"), ("_drift", "fixture")])
def test_a_start_that_does_not_repeat_fails_and_names_the_field(fault: str, field: str) -> None:
    report = audit(Expert(), fault)
    assert not report.passed
    bad = [record for record in report.starts if not record.passed]
    assert {record.task for record in bad} == {f"reach_left{fault}"}
    assert any(field in name for record in bad for name in record.differing)


def test_an_infrastructure_error_fails_the_audit_and_is_no_difference() -> None:
    report = audit(Raises())
    assert not report.passed
    assert not report.inert
    assert all(str(record.error).startswith("policy: ") for record in report.seeds)
    missing = audit(Expert(), "_missing")
    assert {r.error for r in missing.starts if r.task == "reach_left_missing"} == {
        "missing asset: meshes/target_1.obj is not there"
    }
    assert not missing.passed


def test_rollouts_can_be_cut_short() -> None:
    report = audit(GlobalRandom(), cut=Cut(tasks=("left",)), steps=9)
    assert {record.steps for record in report.seeds} == {9}
    assert {record.task for record in report.seeds} == {"reach_left"}
    assert report.passed
