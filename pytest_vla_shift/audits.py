"""The audits of one suite within a run: what the fixture ``audit`` gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift import devices, policy_server
from pytest_vla_shift.contract import check_contract, policy_settings
from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.reporting.audit_tables import pairing_table, severity_table
from pytest_vla_shift.reporting.contact_sheet import write_sheets
from pytest_vla_shift.rollouts.frames import available
from pytest_vla_shift.rollouts.pairing_audit import PairingReport, audit_pairing
from pytest_vla_shift.rollouts.request import settings_of
from pytest_vla_shift.rollouts.severity_audit import EPISODES, SeverityReport, audit_severity
from pytest_vla_shift.simulators.launch import open_simulator

if TYPE_CHECKING:
    from pytest_vla_shift.options import RunConfig
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.rollouts.engine import Engine
    from pytest_vla_shift.rollouts.record import JSON
    from pytest_vla_shift.simulators.protocol import Simulator


class Audit:
    """Audits a suite under the run's options; ``--vla-task`` and its like narrow it.

    Findings are written to ``audit-<suite>`` in the run's directory, as by ``vla-shift audit``.

    Args:
        suite: the protocol.
        run: the run's options.
        engine: the run's, whose simulator and policy are used; None if it runs no pair.
        config: pytest's.
    """

    def __init__(
        self, suite: Suite, run: RunConfig, engine: Engine | None, config: pytest.Config
    ) -> None:
        self.suite = suite
        self._run = run
        self._engine = engine
        self._config = config
        self._simulator: Simulator | None = None
        self._policy: Policy | None = None

    @property
    def directory(self) -> Path:
        """Where findings are written."""
        return self._run.directory / f"audit-{self.suite.name}"

    def severity(self) -> SeverityReport:
        """Reset three episodes of every task under every condition, without a policy."""
        report = audit_severity(
            self._open(), self.suite, cut=self._run.cut, episodes=self._episodes
        )
        self._write("audit-severity.json", report.to_json())
        if available():
            write_sheets(self.directory, self.suite, report.frames)
        return report

    def pairing(self) -> PairingReport:
        """Compare states after other work, and actions with and without the shared seed.

        Raises:
            UsageError: the policy does not fit the suite.
        """
        policy = self._resolve()
        cells = plan(self.suite, self._run.cut)
        check_contract(policy, [(cell.id, self.suite, cell) for cell in cells])
        report = audit_pairing(
            self._open(),
            policy,
            self.suite,
            self._run.policy_args,
            cut=self._run.cut,
            episodes=self._episodes,
        )
        self._write("audit-pairing.json", report.to_json())
        return report

    def assert_severity(self) -> None:
        """Fail with the audit's table if anything is wrong with :meth:`severity`."""
        __tracebackhide__ = True
        report = self.severity()
        if not report.records:
            pytest.skip("the run's cut leaves nothing of the suite to audit")
        if not report.passed:
            pytest.fail(severity_table(report), pytrace=False)

    def assert_pairing(self) -> None:
        """Fail with the audit's table if anything is wrong with :meth:`pairing`."""
        __tracebackhide__ = True
        report = self.pairing()
        if not report.starts:
            pytest.skip("the run's cut leaves nothing of the suite to audit")
        if not report.passed:
            pytest.fail(pairing_table(report), pytrace=False)

    def close(self) -> None:
        """Close what was opened for the audit alone."""
        if self._simulator is not None:
            self._simulator.close()
        if self._policy is not None:
            self._policy.close()
        self._simulator = self._policy = None

    @property
    def _episodes(self) -> int:
        return len(self._run.cut.episodes) or EPISODES

    def _open(self) -> Simulator:
        if self._engine is not None:
            return self._engine.simulator(self.suite)
        if self._simulator is None:
            self._simulator = open_simulator(
                settings_of(self.suite),
                envs=self._run.envs,
                rollout_timeout_s=self._run.rollout_timeout_s,
                environment=devices.lanes_of(self._config)[0],
            )
        return self._simulator

    def _resolve(self) -> Policy:
        if self._engine is not None:
            return self._engine.policy
        if self._policy is None:
            from pytest_vla_shift.policies.registry import resolve

            assert self._run.policy is not None  # only a listing has none, and it runs nothing
            self._policy = resolve(
                self._run.policy,
                self._run.policy_args,
                paths=[self._config.rootpath],
                settings=policy_settings(self._run),
                ready=lambda: policy_server.start(self._config),
            )
        return self._policy

    def _write(self, name: str, found: Mapping[str, JSON]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        part = self.directory / f".{name}.part"
        part.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", "utf-8")
        part.replace(self.directory / name)
