"""What a rollout is, before it runs: its episode, its shift, its seed, and its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import Condition
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest, stable_seed
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts import stages
from pytest_vla_shift.rollouts.record import JSON, SCHEMA
from pytest_vla_shift.shifts.apply import load_shift
from pytest_vla_shift.shifts.protocol import Intervention, Shift
from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One rollout, fully determined.

    Attributes:
        suite: its protocol.
        episode: the initial state.
        condition: clean, null or shifted.
        interventions: the shift bound to the episode; empty for clean and null, and for a draw
            under which nothing would change.
        policy_seed: what the policy's ``reset`` is given.
        seed_note: ``shared``, ``other`` (null arm of a seeded policy) or ``inert``.
        horizon: control steps after settling.
        identity: everything that could change a number.
        key: its digest.
    """

    suite: Suite
    episode: Episode
    condition: Condition
    interventions: tuple[Intervention, ...]
    policy_seed: int
    seed_note: str
    horizon: int
    identity: Mapping[str, JSON]
    key: str


def settings_of(suite: Suite) -> SimulatorSettings:
    """The simulator that a suite asks for."""
    return SimulatorSettings(
        suite.simulator, suite.env_seed, suite.cameras, suite.height, suite.width
    )


def check_axes(suite: Suite) -> None:
    """Refuse, before any rollout, an axis whose levels its shift cannot take.

    Raises:
        UsageError: unknown shift, missing or unknown parameters, or a magnitude out of range.
    """
    for axis in suite.axes:
        shift = _shift(axis.shift)
        for level in axis.levels:
            where = f"{suite.source}: axis {axis.name!r} {level.name}"
            try:
                shift.check(level.parameters)
            except ValueError as error:
                raise UsageError(f"{where}: {error}") from error


def request(
    suite: Suite,
    episode: Episode,
    condition: Condition,
    simulator: SimulatorInfo,
    policy: PolicySpec,
    policy_args: Mapping[str, str],
) -> RolloutRequest:
    """The rollout of ``condition`` on ``episode``: the same arguments, the same request."""
    interventions, revisions = _interventions(suite, episode, condition)
    seed, note = _policy_seed(suite, episode, condition, seeded=policy.seeded)
    horizon = suite.horizons[episode.task_suite]
    bound: list[JSON] = [
        {**_plain(intervention), "revision": revision}
        for intervention, revision in zip(interventions, revisions, strict=True)
    ]
    identity: dict[str, JSON] = {
        "schema": SCHEMA,
        "simulator": {
            "name": simulator.name,
            "versions": dict(simulator.versions),
            "recipe": simulator.recipe,
            "renderer": simulator.renderer,
            "env_seed": suite.env_seed,
        },
        "suite": suite.name,
        "episode": [episode.task_suite, episode.task, episode.index],
        "condition": {"name": condition.name, "interventions": bound},
        "horizon": horizon,
        "settle": {"steps": suite.settle_steps, "speed_m_s": suite.settle_speed},
        "success_rule": "simulator's own check, first true step ends the rollout",
        "stages": stages.REVISION,
        "observation": {
            "cameras": list(policy.cameras),
            "size": [suite.height, suite.width],
            "origin": "upper left, upright",
            "order": "RGB",
            "dtype": "uint8",
            "privileged": policy.privileged,
        },
        "policy": {
            "name": policy.name,
            "revision": policy.revision,
            "args": dict(policy_args),
            "chunk": policy.chunk,
            "replan": policy.replan,
            "action_dim": policy.action_dim,
            "seeded": policy.seeded,
        },
        "policy_seed": seed,
    }
    return RolloutRequest(
        suite, episode, condition, interventions, seed, note, horizon, identity, digest(identity)
    )


@cache
def _shift(name: str) -> Shift:
    """The shift of that name, looked up once: each look reads every installed package's metadata.

    A shift is stateless, so that one object serves every request.
    """
    return load_shift(name)


def _interventions(
    suite: Suite, episode: Episode, condition: Condition
) -> tuple[tuple[Intervention, ...], tuple[int, ...]]:
    axis, level = condition.axis, condition.level
    if axis is None or level is None:
        return (), ()
    shift = _shift(axis.shift)
    # The level is not part of the seed: one draw an episode and axis, shared by all its levels.
    drawn = _draw(axis.shift, axis.name, suite.draw_seed, episode)
    if shift.is_identity(level.parameters, drawn):
        return (), ()
    bound = Intervention(axis.name, axis.shift, level.name, dict(level.parameters), dict(drawn))
    return (bound,), (shift.revision,)


@lru_cache(maxsize=64)  # the levels of an axis follow each other in a plan
def _draw(shift: str, axis: str, draw_seed: int, episode: Episode) -> Mapping[str, float]:
    seed = stable_seed("draw", draw_seed, axis, episode.task_suite, episode.task, episode.index)
    drawn = _shift(shift).draw(np.random.default_rng(seed))
    return {name: float(value) for name, value in drawn.items()}


def _policy_seed(
    suite: Suite, episode: Episode, condition: Condition, *, seeded: bool
) -> tuple[int, str]:
    """One seed for both arms of a pair; another one for the null arm of a seeded policy.

    With the shared seed a null arm of a seeded, deterministic policy could not flip, and the flip
    floor would be zero by construction (see docs/protocols.md).
    """
    parts: list[str | int] = [
        "policy",
        suite.policy_seed,
        episode.task_suite,
        episode.task,
        episode.index,
    ]
    if not seeded:
        return stable_seed(*parts), "inert"
    if condition.name == "null":
        return stable_seed(*parts, "null"), "other"
    return stable_seed(*parts), "shared"


def _plain(intervention: Intervention) -> dict[str, JSON]:
    return {
        "axis": intervention.axis,
        "shift": intervention.shift,
        "level": intervention.level,
        "parameters": dict(intervention.parameters),
        "draw": dict(intervention.draw),
    }
