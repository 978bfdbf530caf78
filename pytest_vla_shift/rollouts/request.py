"""What a rollout is, before it runs: its episode, its shift, its seed, and its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import Axis, Condition, Part
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest, stable_seed
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts import stages
from pytest_vla_shift.rollouts.record import JSON, SCHEMA
from pytest_vla_shift.shifts.apply import cached_shift, language_shift, shift_versions
from pytest_vla_shift.shifts.protocol import Intervention, LanguageShift
from pytest_vla_shift.simulators.protocol import SimulatorInfo, SimulatorSettings


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One rollout, fully determined.

    Attributes:
        suite: its protocol.
        episode: the initial state.
        condition: clean, null or shifted.
        interventions: the shifts bound to the episode, by axis; empty for clean and null. A shift
            under which nothing would change is not among them.
        identities: axis -> why its shift changes nothing here.
        replicate: 0, or 1 with the second policy seed of ``--vla-replicate``.
        policy_seed: what the policy's ``reset`` is given.
        seed_note: ``shared``, ``other`` (null arm of a seeded policy), ``inert`` or ``not
            supported``.
        horizon: control steps after settling.
        identity: everything that could change a number.
        key: its digest.
    """

    suite: Suite
    episode: Episode
    condition: Condition
    interventions: tuple[Intervention, ...]
    identities: Mapping[str, str]
    replicate: int
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
    """Refuse, before any rollout, an axis whose levels or presets its shift cannot take.

    Raises:
        UsageError: unknown shift, missing or unknown parameters, a magnitude out of range, a preset
            that does not fit, or a task for which a language shift has no sentence.
    """
    for axis in suite.axes:
        shift = cached_shift(axis.shift)
        for level in axis.levels:
            where = f"{suite.source}: axis {axis.name!r} {level.name}"
            try:
                shift.check(level.parameters)
                for preset in axis.presets:
                    shift.is_identity(level.parameters, preset)
                if isinstance(shift, LanguageShift):
                    for episode in suite.all_episodes():
                        drawn = _drawn(axis, suite, episode)
                        shift.instruction("", level.parameters, drawn, episode)
            except ValueError as error:
                raise UsageError(f"{where}: {error}") from error


def request(
    suite: Suite,
    episode: Episode,
    condition: Condition,
    simulator: SimulatorInfo,
    policy: PolicySpec,
    policy_args: Mapping[str, str],
    replicate: int = 0,
) -> RolloutRequest:
    """The rollout of ``condition`` on ``episode``: the same arguments, the same request."""
    interventions: list[Intervention] = []
    identities: dict[str, str] = {}
    for part in condition.parts:
        found = _bind(suite, episode, part, policy)
        if isinstance(found, str):
            identities[part.axis.name] = found
        else:
            interventions.append(found)
    seed, note = _policy_seed(suite, episode, condition, replicate, policy)
    horizon = suite.horizons[episode.task_suite]
    bound: list[JSON] = [
        {
            **plain(intervention),
            "revision": cached_shift(intervention.shift).revision,
            "versions": dict(shift_versions(intervention.shift)),
        }
        for intervention in interventions
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
            "args": {k: v for k, v in policy_args.items() if k not in policy.located},
            "chunk": policy.chunk,
            "replan": policy.replan,
            "action_dim": policy.action_dim,
            "seeded": policy.seeded,
            "language": policy.language,
            # Shapes decide rounding. Absent for one at a time, so that older keys stay.
            **({"batch": policy.batch} if policy.batch > 1 else {}),
            **({} if policy.seedable else {"seedable": False}),
            **({"checkpoint": policy.checkpoint} if policy.checkpoint else {}),
        },
        "policy_seed": seed,
        "replicate": replicate,
    }
    return RolloutRequest(
        suite=suite,
        episode=episode,
        condition=condition,
        interventions=tuple(interventions),
        identities=identities,
        replicate=replicate,
        policy_seed=seed,
        seed_note=note,
        horizon=horizon,
        identity=identity,
        key=digest(identity),
    )


def _bind(suite: Suite, episode: Episode, part: Part, policy: PolicySpec) -> Intervention | str:
    """The intervention of one axis, or why it would change nothing."""
    axis, level = part.axis, part.level
    shift = cached_shift(axis.shift)
    if not policy.language and language_shift(axis.shift) is not None:
        return "identity: the policy is given no instruction"
    drawn = _drawn(axis, suite, episode)
    if shift.is_identity(level.parameters, drawn):
        return "identity: nothing would change under this draw"
    seed = stable_seed("noise", suite.draw_seed, axis.name, *_place(episode))
    return Intervention(
        axis.name, axis.shift, level.name, dict(level.parameters), dict(drawn), seed
    )


def _drawn(axis: Axis, suite: Suite, episode: Episode) -> Mapping[str, float]:
    """The episode's draw on an axis. The level is not part of it: all levels share it."""
    if not axis.presets:
        return _draw(axis.shift, axis.name, suite.draw_seed, episode)
    configuration = suite.configuration(episode)
    if configuration is None:
        raise UsageError(
            f"{suite.source}: initial state {episode.index} of {episode.task} is no configuration"
            f" of the suite, so axis {axis.name!r} has no preset for it"
        )
    return axis.presets[configuration]


@lru_cache(maxsize=64)  # the levels of an axis follow each other in a plan
def _draw(shift: str, axis: str, draw_seed: int, episode: Episode) -> Mapping[str, float]:
    seed = stable_seed("draw", draw_seed, axis, *_place(episode))
    drawn = cached_shift(shift).draw(np.random.default_rng(seed))
    return {name: float(value) for name, value in drawn.items()}


def _place(episode: Episode) -> tuple[str, str, int]:
    return episode.task_suite, episode.task, episode.index


def _policy_seed(
    suite: Suite, episode: Episode, condition: Condition, replicate: int, policy: PolicySpec
) -> tuple[int, str]:
    """One seed for both arms of a pair; another one for the null arm of a seeded policy.

    With the shared seed a null arm of a seeded, deterministic policy could not flip, and the flip
    floor would be zero by construction (see docs/protocols.md).
    """
    parts: list[str | int] = ["policy", suite.policy_seed, *_place(episode)]
    if replicate:
        parts += ["replicate", replicate]
    if not policy.seeded:
        return stable_seed(*parts), "inert" if policy.seedable else "not supported"
    if condition.name == "null":
        return stable_seed(*parts, "null"), "other"
    return stable_seed(*parts), "shared"


def plain(intervention: Intervention) -> dict[str, JSON]:
    """An intervention as JSON, its fields in their own order."""
    return {
        "axis": intervention.axis,
        "shift": intervention.shift,
        "level": intervention.level,
        "parameters": dict(intervention.parameters),
        "draw": dict(intervention.draw),
        "seed": intervention.seed,
    }
