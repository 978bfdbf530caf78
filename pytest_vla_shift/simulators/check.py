"""``check_simulator``: does an adapter keep the Simulator protocol? In the manner of ``check_env``.

Written against faults that gave others wrong numbers: a reset that moves fixtures, state that
stays from the last episode, a picture that is the simulator's own buffer, rendering that changes
the physics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators.protocol import Prepared, SimulatorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Episode, Observation
    from pytest_vla_shift.simulators.protocol import (
        Simulator,
        SimulatorFactory,
        SimulatorSettings,
        StepResult,
    )

    Actions = NDArray[np.float64]

PROBES = (
    Intervention("light", "illumination", "probe", {"alpha": 0.5}, {}),
    Intervention(
        "base",
        "base",
        "probe",
        {"sigma_xy_m": 0.03, "sigma_yaw_deg": 3.0},
        {"x": 1.0, "y": -1.0, "yaw": 1.0},
    ),
)
"""What the check shifts, unless told otherwise."""

CHUNKS, CHUNK = 3, 4


class CheckFailed(AssertionError):
    """The simulator breaks its protocol; the message says where, and what to do about it."""


def check_simulator(
    factory: SimulatorFactory,
    settings: SimulatorSettings,
    episode: Episode,
    *,
    other: Episode | None = None,
    interventions: Sequence[Intervention] = PROBES,
    solution: Actions | None = None,
) -> None:
    """Try ``factory``'s simulator on an episode and return if it keeps the protocol.

    Args:
        factory: what the entry point names.
        settings: with at least one camera.
        episode: the episode to try.
        other: another episode, run in between to see that nothing of it stays; better given.
        interventions: shifts, applied in between for the same purpose.
        solution: actions (T, action_dim) that solve ``episode`` from its prepared state, followed
            by at least one action more; without it, stopping at success is not checked.

    Raises:
        CheckFailed: the first breach found.
        UsageError: the settings name no camera.
    """
    if not settings.cameras:
        raise UsageError("check_simulator needs settings with at least one camera")
    described = factory.describe()
    _check_info(described, factory.describe())
    hidden = sorted(set(settings.cameras) - set(described.cameras))
    _require(not hidden, f"describe() does not name the cameras {hidden}, which can be asked for")
    simulator = factory(settings)
    try:
        _require(
            simulator.info == described,
            "info of the opened simulator differs from describe(): keys are made of the latter",
        )
        first = simulator.prepare(episode)
        _check_prepared(first)
        _check_same(first, simulator.prepare(episode), "a second prepare")
        _check_observations(simulator, settings)
        _check_refusals(simulator, described)
        actions = _random_actions(described)
        blind = _run(simulator, episode, actions, ())
        _check_results(simulator, first, blind[-1])
        _check_same(first, simulator.prepare(episode), "prepare after steps")
        _check_trajectory(blind, _run(simulator, episode, actions, settings.cameras))
        _check_shifts(simulator, episode, interventions)
        _check_same(first, simulator.prepare(episode), "prepare after shifts and steps")
        steps = simulator.step(actions[0]).steps
        _require(
            simulator.observe().step == steps,
            f"Observation.step is {simulator.observe().step} after {steps} steps of a policy",
        )
        if other is not None:
            simulator.prepare(other)
            simulator.step(actions[0])
            _check_same(first, simulator.prepare(episode), "prepare after another episode")
        _check_trajectory(blind, _run(simulator, episode, actions, ()))
        if solution is not None:
            _check_solution(simulator, episode, solution)
    finally:
        _check_close(simulator)
    fresh = factory(settings)
    try:
        _check_same(first, fresh.prepare(episode), "prepare in a second instance")
    finally:
        _check_close(fresh)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailed(message)


def _check_info(info: SimulatorInfo, again: SimulatorInfo) -> None:
    _require(info == again, "describe() answered two different things: keys would change")
    _require(
        len(info.settle_action) == info.action_dim >= 1,
        f"settle_action has {len(info.settle_action)} numbers and action_dim is {info.action_dim}",
    )
    _require(
        all(info.action_low <= value <= info.action_high for value in info.settle_action),
        f"settle_action leaves the range [{info.action_low}, {info.action_high}]",
    )
    _require(info.control_hz > 0, f"control_hz is {info.control_hz}")
    _require(bool(info.versions), "versions is empty: nothing would tell two releases apart")


def _check_prepared(prepared: Prepared) -> None:
    _require(bool(prepared.fingerprint), "the fingerprint is empty: no pair could be proven")
    _require(bool(prepared.instruction), "the instruction is empty")
    names = prepared.predicates
    _require(len(set(names)) == len(names) > 0, f"predicates are none, or not unique: {names}")
    milestones = list(prepared.stages.milestones())
    _require(
        len({m.name for m in milestones}) == len(milestones), "milestones' names are not unique"
    )
    unknown = sorted({m.predicate for m in milestones} - set(names))
    _require(not unknown, f"stages use predicates that the simulator does not have: {unknown}")


def _check_same(first: Prepared, again: Prepared, after: str) -> None:
    moved = sorted(
        name
        for name in first.fingerprint.keys() | again.fingerprint.keys()
        if first.fingerprint.get(name) != again.fingerprint.get(name)
    )
    _require(
        not moved,
        f"{after} gave another state in {', '.join(moved)}. Restore every array that a reset or a"
        " shift can touch, seed before every reset, and restore the episode's state after the"
        " reset, not before",
    )
    for name in ("instruction", "goal", "predicates", "stages"):
        _require(getattr(first, name) == getattr(again, name), f"{after} gave another {name}")


def _check_observations(simulator: Simulator, settings: SimulatorSettings) -> None:
    _require(
        dict(simulator.observe().images) == {},
        "observe() without cameras rendered: it must draw exactly the cameras asked for",
    )
    for asked in [(name,) for name in settings.cameras] + [settings.cameras]:
        first = simulator.observe(asked)
        _require(
            set(first.images) == set(asked),
            f"observe({asked}) gave pictures of {sorted(first.images)}: exactly those asked for",
        )
        kept = {name: image.copy() for name, image in first.images.items()}
        for name, image in first.images.items():
            shape = (settings.height, settings.width, 3)
            _require(
                image.shape == shape and image.dtype == np.uint8,
                f"the picture of {name} is {image.dtype} {image.shape}, not uint8 {shape}",
            )
            _require(
                image.flags.c_contiguous,
                f"the picture of {name} is not C-contiguous: np.ascontiguousarray after flips",
            )
            if image.flags.writeable:
                image[...] = 255 - image
        again = simulator.observe(asked)
        for name, image in again.images.items():
            _require(
                np.array_equal(image, kept[name]),
                f"the picture of {name} changed between two looks at one state, or is the"
                " simulator's own buffer: give a copy, and draw deterministically",
            )
    _check_vectors(simulator.observe(), simulator.info.proprio)
    _require(
        simulator.observe().privileged is None, "ground truth was given without being asked for"
    )
    state = simulator.observe(privileged=True).privileged
    _require(state is not None, "observe(privileged=True) gave no ground truth")


def _check_vectors(observation: Observation, names: tuple[str, ...]) -> None:
    _require(observation.step == 0, f"step is {observation.step} right after prepare, not 0")
    _require(
        tuple(observation.proprio) == names,
        f"describe() says proprio {names}, and an observation has {tuple(observation.proprio)}: a"
        " policy that needs another is refused by the former",
    )
    for name, vector in observation.proprio.items():
        _require(
            vector.dtype == np.float64 and vector.ndim == 1 and bool(np.isfinite(vector).all()),
            f"proprio {name} is not a finite float64 vector: {vector!r}",
        )


def _check_refusals(simulator: Simulator, info: SimulatorInfo) -> None:
    for what, actions in (
        ("of a wrong width", np.zeros((1, info.action_dim + 1))),
        ("of no steps", np.zeros((0, info.action_dim))),
        ("that are not finite", np.full((1, info.action_dim), np.nan)),
    ):
        try:
            simulator.step(actions)
        except InfrastructureError:
            continue
        raise CheckFailed(f"step accepted actions {what}: raise SimulatorError")


def _random_actions(info: SimulatorInfo) -> Actions:
    rng = np.random.default_rng(0)
    return rng.uniform(info.action_low, info.action_high, (CHUNKS, CHUNK, info.action_dim))


Moment = tuple["StepResult", "Observation"]


def _run(
    simulator: Simulator, episode: Episode, chunks: Actions, cameras: Sequence[str]
) -> list[Moment]:
    """Every chunk's result and the observation after it; ``cameras`` are drawn after each."""
    simulator.prepare(episode)
    moments = []
    for chunk in chunks:
        given = chunk.copy()
        result = simulator.step(given, stop_on_success=False)
        _require(np.array_equal(given, chunk), "step changed the actions that it was given")
        simulator.observe(cameras)
        moments.append((result, simulator.observe()))
    return moments


def _check_results(simulator: Simulator, prepared: Prepared, last: Moment) -> None:
    result, _ = last
    _require(
        result.steps == CHUNK,
        f"step(stop_on_success=False) executed {result.steps} of {CHUNK} actions",
    )
    seen = simulator.observe().step
    _require(
        seen == 0,
        f"Observation.step is {seen} after settling: steps with stop_on_success=False do not count",
    )
    shape = (result.steps, len(prepared.predicates))
    _require(
        result.predicates.shape == shape and result.predicates.dtype == np.bool_,
        f"StepResult.predicates is {result.predicates.dtype} {result.predicates.shape}, not bool"
        f" {shape}: a row a step, a column a predicate",
    )
    now = simulator.predicates()
    _require(
        tuple(now) == prepared.predicates,
        f"predicates() is in the order {tuple(now)}, prepare said {prepared.predicates}",
    )
    _require(
        result.predicates[-1].tolist() == list(now.values()),
        "the last row of StepResult.predicates is not what predicates() says right after it",
    )
    _require(result.success == simulator.success(), "StepResult.success and success() disagree")
    _require(
        bool(np.isfinite(result.object_speed)) and result.object_speed >= 0,
        f"object_speed is {result.object_speed}",
    )


def _check_trajectory(first: list[Moment], again: list[Moment]) -> None:
    for chunk, ((result, seen), (result_2, seen_2)) in enumerate(zip(first, again, strict=True)):
        same = np.array_equal(result.predicates, result_2.predicates) and all(
            getattr(result, field.name) == getattr(result_2, field.name)
            for field in fields(result)
            if field.name != "predicates"
        )
        moved = [
            name
            for name, vector in seen.proprio.items()
            if not np.array_equal(vector, seen_2.proprio[name])
        ]
        _require(
            same and not moved,
            f"the same actions gave another trajectory in chunk {chunk}"
            f" ({', '.join(moved) or 'its StepResult'}): state that prepare does not restore"
            " (controllers, warm starts), or rendering that changes the physics",
        )


def _check_shifts(
    simulator: Simulator, episode: Episode, interventions: Sequence[Intervention]
) -> None:
    simulator.prepare(episode)
    _require(simulator.apply([]) == [], "apply([]) gave receipts: a clean arm changes nothing")
    for intervention in interventions:
        simulator.prepare(episode)
        receipts = simulator.apply([intervention])
        _require(bool(receipts), f"shift {intervention.shift} gave no receipt")
        for receipt in receipts:
            _require(
                isinstance(receipt.before, float | int | str | list | tuple),
                f"receipt {receipt.field} holds a {type(receipt.before).__name__}: use plain lists",
            )
        simulator.step(np.array([simulator.info.settle_action]), stop_on_success=False)


def _check_solution(simulator: Simulator, episode: Episode, solution: Actions) -> None:
    simulator.prepare(episode)
    result = simulator.step(solution, stop_on_success=True)
    _require(result.success, "the solution does not solve the episode")
    _require(
        result.steps < len(solution),
        f"step executed all {len(solution)} actions: it must stop at the first success",
    )
    simulator.prepare(episode)
    whole = simulator.step(solution, stop_on_success=False)
    _require(
        whole.steps == len(solution),
        f"step(stop_on_success=False) stopped after {whole.steps} of {len(solution)} actions",
    )


def _check_close(simulator: Simulator) -> None:
    for time in ("first", "second"):
        try:
            simulator.close()
        except Exception as error:
            raise CheckFailed(f"the {time} close() raised {error!r}: it never raises") from error
