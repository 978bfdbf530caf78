"""Audits as tests of a suite: they run with a policy, narrowed as the rollouts are."""

from __future__ import annotations

import json

import pytest

from tests.plugin.inprocess import Inside
from tests.plugin.toy_project import SUITE, ToyProject

MODULE = """
def test_shift(pair):
    pair.assert_not_degraded()

def test_severity_audit(audit):
    audit.assert_severity()

def test_pairing_audit(audit):
    audit.assert_pairing()
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> ToyProject:
    return Inside(pytester.path, module=MODULE, pytester=pytester)


def found(project: ToyProject, name: str) -> dict[str, object]:
    path = project.directory("r") / "audit-toy_suite" / f"audit-{name}.json"
    read: dict[str, object] = json.loads(path.read_text())
    return read


def test_audits_run_beside_the_pairs_and_are_cut_like_them(project: ToyProject) -> None:
    out = project.run("--vla-run=r", "--vla-task=left", "--vla-episodes=0,2", "--vla-level=L1")
    assert "2 passed, 6 robust" in out.out.splitlines()[-1], out.out
    records = found(project, "severity")["records"]
    assert isinstance(records, list)
    assert {(r["task"], r["episode"], r["condition"]) for r in records} == {
        ("reach_left", episode, condition)
        for episode in (0, 2)
        for condition in ("clean", "base-L1", "blur-L1")
    }
    assert found(project, "pairing")["passed"] is True


def test_an_audit_alone_opens_and_closes_what_it_needs(project: ToyProject) -> None:
    out = project.run("--vla-run=r", "-k", "audit", "--vla-episodes=0", code=0)
    assert "2 passed" in out.out
    assert found(project, "severity")["passed"] is True


def test_a_failing_audit_fails_the_run_with_its_table(pytester: pytest.Pytester) -> None:
    suite = SUITE.replace('"reach_left"', '"reach_left_jitter"')
    project = Inside(pytester.path, suite=suite, module=MODULE, pytester=pytester)
    out = project.run("--vla-run=r", "-k", "audit", code=1)
    assert "2 failed" in out.out
    assert "severity audit of toy_suite: " in out.out
    assert "before the shift, model.target_pos" in out.out
    assert "Traceback" not in out.out


def test_without_a_policy_audits_are_skipped(project: ToyProject) -> None:
    out = project.run("-rs", policy=None, code=0)
    assert "a suite's audits run with a policy" in out.out
    assert "3 skipped" in out.out.splitlines()[-1]


def test_a_cut_that_leaves_nothing_is_no_pass(project: ToyProject) -> None:
    module = MODULE + "\ndef test_nothing(audit):\n    assert not audit.severity().passed\n"
    (project.path / "test_toy.py").write_text(module)
    out = project.run("--vla-run=r", "--vla-episodes=0", "--vla-configuration=1", "-k", "nothing")
    assert out.code == 4, out.out  # the cut's own check refuses it first
