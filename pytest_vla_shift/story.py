"""What a node's Allure result says, from its pair."""

from __future__ import annotations

from collections.abc import Callable

from pytest_vla_shift.pair import Pair, describe
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.reporting.allure_node import NodeStory
from pytest_vla_shift.reporting.pictures import strip
from pytest_vla_shift.rollouts.engine import Engine


def pair_story(pair: Pair, engine: Engine) -> NodeStory:
    """Labels, parameters, first frames, video and words of a measured pair."""
    condition = pair.cell.condition
    spec = engine.policy.spec
    parameters = {
        "policy revision": spec.revision,
        "policy seed": f"{pair.shifted.policy_seed} ({pair.shifted.seed_note})",
        "clean key": pair.clean.key,
        "shifted key": pair.shifted.key,
    }
    for intervention in pair.shifted.interventions:
        parameters[f"shift {intervention['axis']}"] = describe(intervention)
    for axis, why in pair.shifted.identities.items():
        parameters[f"shift {axis}"] = why
    if pair.shifted.instruction != pair.clean.instruction:
        parameters["instruction"] = pair.shifted.instruction
    return NodeStory(
        policy=spec.name,
        suite=pair.suite.name,
        task=pair.cell.episode.task,
        condition=condition.name,
        axis=condition.axis,
        level=condition.level,
        transition=pair.outcome,
        parameters=parameters,
        explanation=pair.explain(),
        pictures=_pictures(pair, engine),
        video=pair.video,
    )


def error_story(cell: Cell, policy: str) -> NodeStory:
    """Labels of a pair with an infrastructure error."""
    condition = cell.condition
    return NodeStory(
        policy=policy,
        suite=cell.suite,
        task=cell.episode.task,
        condition=condition.name,
        axis=condition.axis,
        level=condition.level,
        transition="error",
    )


def _pictures(pair: Pair, engine: Engine) -> dict[str, Callable[[], bytes]]:
    clean, shifted = engine.store.frames(pair.clean.key), engine.store.frames(pair.shifted.key)
    if pair.nominal or not clean or set(clean) != set(shifted):
        return {}
    labels = ("clean", pair.cell.condition.name)
    return {"first frame, clean | shifted": lambda: strip(clean, shifted, labels)}
