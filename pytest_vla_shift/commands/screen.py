"""``vla-shift screen``: which of a suite's candidate tasks can this policy be asked about?

RoboCasa-Shift's clean-competence screening, by the rule that the suite froze.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_vla_shift.commands import arguments
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.screening import ScreeningState
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.rollouts.record import RolloutRecord

DESCRIPTION = (
    "Screen the candidate tasks that a suite has frozen: clean rollouts, the rule, and the tasks"
    " that it retains. Exit code 0 if every verdict stands and the minimum of tasks is retained;"
    " 1 if fewer are, or an infrastructure error leaves a candidate undecided (run it again)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift screen``."""
    arguments.add_suite(parser)
    arguments.add_policy(parser)
    arguments.add_simulator(parser)
    parser.add_argument(
        "--run",
        type=Path,
        default=None,
        metavar="DIR/NAME",
        help="the run's directory; records found there are reused"
        " (default: reports/<policy>-screen-<suite>)",
    )
    parser.add_argument(
        "--write",
        type=Path,
        default=None,
        metavar="FILE",
        help="write a suite of the retained tasks, a protocol of its own name",
    )


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Raises:
        UsageError: the suite has no candidates, the policy does not fit, a file is there already.
    """
    from pytest_vla_shift.protocol.conditions import NOMINAL
    from pytest_vla_shift.protocol.observation import Episode
    from pytest_vla_shift.protocol.plan import Cell
    from pytest_vla_shift.reporting.audit_tables import screening_table, wrap
    from pytest_vla_shift.rollouts.attempts import SimulatorOptions
    from pytest_vla_shift.rollouts.engine import Engine
    from pytest_vla_shift.rollouts.lock import held
    from pytest_vla_shift.rollouts.screening import (
        as_json,
        incompatible,
        pool_of,
        rule_of,
        run_screening,
    )
    from pytest_vla_shift.rollouts.store import Store
    from pytest_vla_shift.simulators.hardware import environment_of_one

    suite = arguments.suite_of(given)
    rule = rule_of(suite)
    if given.write is not None and given.write.exists():
        raise UsageError(f"{given.write} is there already; choose another file, or move it away")
    policy = arguments.policy_of(given)
    args = arguments.policy_args(given)
    absent = incompatible(policy, rule)
    cells = [
        Cell(suite.name, Episode(*candidate, 0), NOMINAL)
        for candidate in rule.candidates
        if candidate not in absent
    ]
    arguments.check_fit(policy, pool_of(suite), cells)
    directory = given.run or Path("reports") / _slug(f"{given.policy}-screen-{suite.name}")
    with held(directory):
        engine = Engine(
            Store(directory, "screen"),
            policy,
            args,
            options=SimulatorOptions(
                given.envs, given.rollout_timeout, environment=environment_of_one()
            ),
        )
        try:
            state = run_screening(engine, suite, lambda r, ran: _progress(out, r, ran))
        finally:
            engine.close()
            engine.store.close()
        found = as_json(suite, policy.spec, args, state)
        _replace(directory / "screening.json", json.dumps(found, indent=1) + "\n")
    out.write(
        "\n" + "\n".join(wrap(f"screening of {suite.name}, policy {policy.spec.name}")) + "\n"
    )
    out.write(screening_table(rule, state) + "\n")
    for reason in sorted({item.reason for item in state.candidates if item.reason})[:3]:
        out.writelines(f"{line}\n" for line in wrap(f"cannot be asked: {reason}"))
    out.write(f"{directory / 'screening.json'}\n")
    return _end(given.write, suite, policy.spec, state, out)


def _end(
    write: Path | None, suite: Suite, spec: PolicySpec, state: ScreeningState, out: TextIO
) -> int:
    if not state.complete:
        out.write(
            "UNDECIDED: infrastructure errors, which are neither successes nor failures. Run\n"
            "the same command again: only what is missing is run.\n"
        )
        return 1
    if not state.enough:
        out.write(
            f"NOT ENOUGH: {len(state.retained)} retained, {state.minimum_tasks} are needed:"
            " no suite for this policy\n"
        )
        return 1
    if write is not None:
        write.parent.mkdir(parents=True, exist_ok=True)
        with write.open("x", encoding="utf-8") as stream:
            stream.write(_suite_text(suite, spec, state))
        out.write(f"wrote {write}\n")
    return 0


def _suite_text(suite: Suite, spec: PolicySpec, state: ScreeningState) -> str:
    from pytest_vla_shift.protocol.suite_file import with_tasks

    assert suite.screening is not None
    of = suite.screening.extended_rollouts
    rates = [
        f"  {'/'.join(item.candidate)}: {item.extended} of {of}"
        for item in state.candidates
        if item.candidate in state.retained
    ]
    return with_tasks(
        suite,
        name=f"{suite.name}_{re.sub(r'[^a-z0-9]+', '_', spec.name.lower()).strip('_')}",
        title=f"Protocol of {suite.name} for the tasks retained for {spec.name}",
        tasks=state.retained,
        horizons={**suite.horizons, **suite.screening.horizons},
        comment=(
            f"The protocol of suite {suite.name} (digest {suite.protocol_digest}) for the tasks",
            f"that its screening retained for policy {spec.name}, revision {spec.revision}.",
            "Clean successes:",
            *rates,
        ),
    )


def _progress(out: TextIO, record: RolloutRecord, executed: bool) -> None:
    outcome = record.error[0] if record.error else "success" if record.success else "failure"
    found = "" if executed else ", found in the store"
    out.write(f"  {record.task} e{record.episode:02d}: {outcome}{found}\n")
    out.flush()


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, "utf-8")
    part.replace(path)
