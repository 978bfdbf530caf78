"""The pairing audit: do the two arms of a pair start alike, and does the seed repeat the policy?

RoboCasa-Shift III-C, Table II and VI-C2: the environment's side by fingerprints of the initial
state, the policy's side by action sequences with and without the shared seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import CLEAN, Condition
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.protocol.identity import stable_seed
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import Cut
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.rollouts.request import RolloutRequest, request
from pytest_vla_shift.rollouts.rollout import Measured, actions_digest, run_rollout, start
from pytest_vla_shift.rollouts.severity_audit import EPISODES, WHOLE, episodes_of

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.simulators.protocol import Simulator

DISTURBING_STEPS = 5
"""Random actions between two restorations of one episode."""


@dataclass(frozen=True, slots=True)
class StartRecord:
    """One episode, restored twice with other work in between.

    Attributes:
        task_suite, task, episode: which.
        between: what was done in between: the condition applied, whose episode was prepared.
        differing: fields of the fingerprint that differ; empty if it is the same.
        error: an infrastructure error, or None.
    """

    task_suite: str
    task: str
    episode: int
    between: str
    differing: tuple[str, ...]
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether both restorations are the same state."""
        return not self.differing and self.error is None


@dataclass(frozen=True, slots=True)
class SeedRecord:
    """One clean rollout run three times: twice with its seed, once with another.

    Attributes:
        task_suite, task, episode: which.
        steps: control steps of the first.
        same_seed: whether the two with one seed executed the same actions, bit for bit.
        other_seed: whether the one with another seed executed those actions as well.
        error: an infrastructure error, or None.
    """

    task_suite: str
    task: str
    episode: int
    steps: int
    same_seed: bool
    other_seed: bool
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the shared seed repeats the policy."""
        return self.same_seed and self.error is None


@dataclass(frozen=True, slots=True)
class PairingReport:
    """The audit of a suite and a policy.

    Attributes:
        suite, protocol, policy, revision: what was audited.
        seeded: whether the policy declares that its seed decides its randomness.
        starts: the environment's side.
        seeds: the policy's side.
    """

    suite: str
    protocol: str
    policy: str
    revision: str
    seeded: bool
    starts: tuple[StartRecord, ...]
    seeds: tuple[SeedRecord, ...]

    @property
    def passed(self) -> bool:
        """Whether something was audited and both sides repeat.

        A seed that decides nothing fails nothing: a deterministic policy has such a one.
        """
        good = all(s.passed for s in self.starts) and all(s.passed for s in self.seeds)
        return bool(self.starts and self.seeds) and good

    @property
    def inert(self) -> bool:
        """Whether no other seed gave other actions: the seed decides nothing here."""
        measured = [record for record in self.seeds if record.error is None]
        return bool(measured) and all(record.other_seed for record in measured)

    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know."""
        notes = []
        if self.inert and self.seeded:
            notes.append(
                "The policy declares a seed, and no other seed gave other actions: policy seed"
                " inert. Its flip floor is zero by construction."
            )
        elif self.inert:
            notes.append("Policy seed inert: the policy declares none, and repeats without one.")
        elif not self.seeded:
            notes.append(
                "The policy declares no seed, and its actions change with it all the same."
            )
        return tuple(notes)

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return {
            "kind": "audit-pairing",
            "schema": 1,
            "passed": self.passed,
            "inert": self.inert,
            "notes": list(self.notes()),
            **asdict(self),
        }


def audit_pairing(
    simulator: Simulator,
    policy: Policy,
    suite: Suite,
    policy_args: Mapping[str, str],
    *,
    cut: Cut = WHOLE,
    episodes: int = EPISODES,
    steps: int | None = None,
    progress: Callable[[StartRecord | SeedRecord], None] = lambda _: None,
) -> PairingReport:
    """Audit both sides of every pair's beginning.

    Args:
        simulator: of the suite.
        policy: who is under test.
        suite: the protocol.
        policy_args: the policy's arguments.
        cut: narrows tasks and episodes.
        episodes: audited episodes of each task.
        steps: cuts rollouts to as many control steps; the whole horizon if None.
        progress: called with every record.
    """
    chosen = episodes_of(suite, cut, episodes)
    starts, seeds = [], []
    for place, episode in enumerate(chosen):
        other = chosen[(place + 1) % len(chosen)]
        for record in _starts(simulator, policy.spec, suite, episode, other, place):
            starts.append(record)
            progress(record)
    for place, episode in enumerate(chosen):
        clean = request(suite, episode, CLEAN, simulator.info, policy.spec, policy_args)
        between = chosen[(place + 1) % len(chosen)]
        other_request = request(suite, between, CLEAN, simulator.info, policy.spec, policy_args)
        seed = _seed_record(simulator, policy, _cut(clean, steps), _cut(other_request, steps))
        seeds.append(seed)
        progress(seed)
    return PairingReport(
        suite=suite.name,
        protocol=suite.protocol_digest,
        policy=policy.spec.name,
        revision=policy.spec.revision,
        seeded=policy.spec.seeded,
        starts=tuple(starts),
        seeds=tuple(seeds),
    )


def _cut(wanted: RolloutRequest, steps: int | None) -> RolloutRequest:
    return wanted if steps is None else replace(wanted, horizon=min(wanted.horizon, steps))


def _starts(
    simulator: Simulator,
    spec: PolicySpec,
    suite: Suite,
    episode: Episode,
    other: Episode,
    place: int,
) -> list[StartRecord]:
    """``episode`` again after a strong shift of it with some motion, and after another episode."""
    shifted = [c for c in suite.conditions() if c.axis is not None and not c.is_compound]
    strongest = [c for c in shifted if c.level == max(str(s.level) for s in shifted)]
    clean = request(suite, episode, CLEAN, simulator.info, spec, {})
    found: list[StartRecord] = []
    for disturbed, condition in (
        # Another axis for every episode: over a suite, each has its turn.
        (episode, strongest[place % len(strongest)] if strongest else CLEAN),
        (other, CLEAN),
    ):
        between = f"{condition.name} of {disturbed.task} e{disturbed.index:02d}"
        try:
            first = _fingerprint(simulator, clean)
            _disturb(simulator, suite, disturbed, condition, spec, place)
            second = _fingerprint(simulator, clean)
            names = {*first, *second}
            differing = tuple(sorted(n for n in names if first.get(n) != second.get(n)))
            error = None
        except (InfrastructureError, UsageError) as raised:
            differing, error = (), f"{getattr(raised, 'kind', 'usage')}: {raised}"
        found.append(
            StartRecord(episode.task_suite, episode.task, episode.index, between, differing, error)
        )
    return found


def _fingerprint(simulator: Simulator, wanted: RolloutRequest) -> dict[str, str]:
    measured = Measured()
    start(simulator, wanted, measured)
    return measured.fingerprint


def _disturb(
    simulator: Simulator,
    suite: Suite,
    episode: Episode,
    condition: Condition,
    spec: PolicySpec,
    seed: int,
) -> None:
    """Do what a rollout does: prepare, shift, draw, move."""
    wanted = request(suite, episode, condition, simulator.info, spec, {})
    start(simulator, wanted, Measured())
    simulator.observe(suite.cameras)
    info = simulator.info
    rng = np.random.default_rng(stable_seed("disturb", seed))
    shape = (DISTURBING_STEPS, info.action_dim)
    simulator.step(rng.uniform(info.action_low, info.action_high, shape), stop_on_success=False)


def _seed_record(
    simulator: Simulator, policy: Policy, wanted: RolloutRequest, between: RolloutRequest
) -> SeedRecord:
    """The rollout, one of another episode, the rollout again, and with another seed."""
    other = replace(wanted, policy_seed=stable_seed("pairing audit", wanted.policy_seed))
    episode = wanted.episode
    place = (episode.task_suite, episode.task, episode.index)
    try:
        first, steps = _actions(simulator, policy, wanted)
        _actions(simulator, policy, between)
        again, _ = _actions(simulator, policy, wanted)
        another, _ = _actions(simulator, policy, other)
    except (InfrastructureError, UsageError) as error:
        kind = getattr(error, "kind", "usage")
        return SeedRecord(*place, 0, same_seed=False, other_seed=False, error=f"{kind}: {error}")
    return SeedRecord(*place, steps, same_seed=first == again, other_seed=first == another)


def _actions(simulator: Simulator, policy: Policy, wanted: RolloutRequest) -> tuple[str, int]:
    measured = run_rollout(simulator, policy, wanted, None)
    assert measured.actions is not None  # as after every rollout that ended
    return actions_digest(measured.actions), measured.steps


def task_counts(
    records: Sequence[StartRecord] | Sequence[SeedRecord],
) -> dict[tuple[str, str], tuple[int, int]]:
    """Task -> (records that passed, records)."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for record in records:
        passed, total = counts.get((record.task_suite, record.task), (0, 0))
        counts[record.task_suite, record.task] = (passed + record.passed, total + 1)
    return counts
