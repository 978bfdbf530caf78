"""``vla-shift audit pairing``: fingerprints, and action sequences with and without the seed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from pytest_vla_shift.commands import arguments

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.pairing_audit import SeedRecord, StartRecord

DESCRIPTION = (
    "Restore episodes again after other work and compare fingerprints; run clean rollouts twice"
    " with the shared policy seed and once with another, and compare executed actions. Writes"
    " audit-pairing.json. Exit code 1 if a state or a seeded rollout does not repeat."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift audit pairing``."""
    arguments.add_suite(parser)
    arguments.add_policy(parser)
    arguments.add_cut(parser, axes=False)
    arguments.add_simulator(parser)
    parser.add_argument(
        "--steps",
        type=int,
        default=None,
        metavar="N",
        help="cut rollouts to N control steps (default: the whole horizon)",
    )
    arguments.add_out(parser)


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: suite, policy, cut, steps or folder are wrong, or the simulator is not here.
    """
    from pytest_vla_shift.commands.audits.output import write_json
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.protocol.plan import plan
    from pytest_vla_shift.reporting.audit_tables import pairing_table
    from pytest_vla_shift.rollouts.pairing_audit import audit_pairing
    from pytest_vla_shift.rollouts.request import settings_of
    from pytest_vla_shift.rollouts.severity_audit import EPISODES
    from pytest_vla_shift.simulators.hardware import environment_of_one
    from pytest_vla_shift.simulators.launch import open_simulator

    suite = arguments.suite_of(given)
    cut = arguments.cut_of(given, suite)
    if given.steps is not None and given.steps < 1:
        raise UsageError(f"--steps: {given.steps} is below 1")
    policy = arguments.policy_of(given)
    arguments.check_fit(policy, suite, plan(suite, cut))
    directory = arguments.out_of(given, suite)
    simulator = open_simulator(
        settings_of(suite),
        envs=given.envs,
        rollout_timeout_s=given.rollout_timeout,
        environment=environment_of_one(),
    )
    try:
        report = audit_pairing(
            simulator,
            policy,
            suite,
            arguments.policy_args(given),
            cut=cut,
            episodes=len(cut.episodes) or EPISODES,
            steps=given.steps,
            progress=lambda record: _progress(out, record),
        )
    finally:
        simulator.close()
        policy.close()
    write_json(directory / "audit-pairing.json", report.to_json())
    out.write("\n" + pairing_table(report) + "\n")
    out.write(f"{directory / 'audit-pairing.json'}\n")
    return 0 if report.passed else 1


def _progress(out: TextIO, record: StartRecord | SeedRecord) -> None:
    what = "start" if hasattr(record, "between") else "actions"
    told = "repeats" if record.passed else record.error or "does not repeat"
    out.write(f"  {record.task} e{record.episode:02d} {what}: {told}\n")
    out.flush()
