"""Running a screening: clean rollouts, found again where they are recorded, and the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.protocol.conditions import NOMINAL
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.screening import (
    Candidate,
    Outcomes,
    Screening,
    ScreeningState,
    as_data,
    decide,
)
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord

HOPELESS = 3
"""Rollouts with an infrastructure error in a row, from the start, after which it stops."""


def rule_of(suite: Suite) -> Screening:
    """The suite's screening.

    Raises:
        UsageError: it has none.
    """
    if suite.screening is None:
        raise UsageError(f"{suite.source} has no [screening] table: there are no candidates")
    return suite.screening


def pool_of(suite: Suite) -> Suite:
    """The suite with the candidates as its tasks, and the screening's rollouts as their episodes.

    Its name stays, so that the clean rollouts of a candidate are those of the suite's own pairs.
    """
    rule = rule_of(suite)
    numbers = dict.fromkeys(rule.candidates, tuple(range(rule.extended_rollouts)))
    return replace(
        suite,
        tasks=tuple(sorted(rule.candidates)),
        episodes=numbers,
        nominal=numbers,
        horizons={**suite.horizons, **rule.horizons},
    )


def incompatible(policy: Policy, rule: Screening) -> dict[Candidate, str]:
    """Candidates that the policy's interface does not offer, and why.

    Raises:
        UsageError: the policy raised when it was asked.
    """
    found: dict[Candidate, str] = {}
    for candidate in rule.candidates:
        try:
            reason = policy.unsupported(*candidate)
        except Exception as error:
            raise UsageError(
                f"policy {policy.spec.name!r} raised in unsupported: {type(error).__name__}:"
                f" {error}"
            ) from error
        if reason is not None:
            found[candidate] = reason
    return found


def run_screening(
    engine: Engine,
    suite: Suite,
    progress: Callable[[RolloutRecord, bool], None] = lambda _record, _executed: None,
) -> ScreeningState:
    """Run what the rule wants until it wants nothing.

    A rollout with an infrastructure error is neither a success nor a failure: its candidate stays
    undecided, and the state incomplete. If the first rollouts all have one, it stops.

    Args:
        engine: with the policy and the store.
        suite: whose candidates are screened.
        progress: called with every record, and whether it was run now.
    """
    rule, pool = rule_of(suite), pool_of(suite)
    outcomes = {
        candidate: Outcomes(incompatible=reason)
        for candidate, reason in incompatible(engine.policy, rule).items()
    }
    errors: int | None = 0
    while True:
        state = decide(rule, outcomes)
        if not state.wanted:
            return state
        for episode in state.wanted:
            pair = engine.pair(pool, Cell(pool.name, episode, NOMINAL))
            progress(pair.clean, bool(pair.executed))
            candidate = (episode.task_suite, episode.task)
            before = outcomes.get(candidate, Outcomes()).rollouts
            outcomes[candidate] = Outcomes((*before, pair.clean.success))
            if errors is not None:
                errors = errors + 1 if pair.clean.status == "error" else None
            if errors is not None and errors >= HOPELESS:
                return decide(rule, outcomes)


def as_json(
    suite: Suite, spec: PolicySpec, policy_args: dict[str, str], state: ScreeningState
) -> dict[str, JSON]:
    """What ``screening.json`` holds."""
    rule: dict[str, JSON] = {k: v for k, v in as_data(rule_of(suite)).items() if k != "candidates"}  # type: ignore[misc]
    return {
        "kind": "screening",
        "schema": 1,
        "suite": suite.name,
        "protocol": suite.protocol_digest,
        "policy": {"name": spec.name, "revision": spec.revision, "args": dict(policy_args)},
        "rule": rule,
        "activated_batches": state.activated,
        "complete": state.complete,
        "enough": state.enough,
        "retained": [list(candidate) for candidate in state.retained],
        "candidates": [
            {**asdict(item), "candidate": list(item.candidate), "verdict": str(item.verdict)}
            for item in state.candidates
        ],
    }
