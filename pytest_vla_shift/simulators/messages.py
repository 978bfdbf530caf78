"""The protocol's values to and from a frame's body and arrays.

Readers check what they read: a worker may run in another interpreter, with another release of
this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_vla_shift.protocol.observation import (
    Episode,
    Goal,
    Observation,
    PrivilegedState,
)
from pytest_vla_shift.protocol.stages import Milestone, StageSpec
from pytest_vla_shift.shifts.protocol import Intervention, Receipt, Value
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)
from pytest_vla_shift.simulators.wire import Frame, WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Vector
    from pytest_vla_shift.simulators.frames import FrameMemory
    from pytest_vla_shift.simulators.wire import Array

T = TypeVar("T")
Json = dict[str, object]


def get(body: Mapping[str, object], name: str, kind: type[T]) -> T:
    """``body[name]``, which must be a ``kind`` (an int will do for a float).

    Raises:
        WireError: it is missing or another thing.
    """
    value = body.get(name)
    if kind is float and type(value) is int:
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError(f"{name} is {value!r}, not {kind.__name__}")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise WireError(f"{value!r} is no list of strings")
    return tuple(value)


def _list(value: object, read: Callable[[object], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise WireError(f"{value!r} is no list")
    return tuple(read(item) for item in value)


def _mapping(body: Mapping[str, object], name: str, kind: type[T]) -> dict[str, T]:
    inner: dict[str, object] = get(body, name, dict)
    return {key: get(inner, key, kind) for key in inner}


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise WireError(f"{value!r} is no object")
    return value


def settings_body(settings: SimulatorSettings) -> Json:
    """Body of an ``open`` request."""
    return asdict(settings)


def read_settings(body: Mapping[str, object]) -> SimulatorSettings:
    """The settings of an ``open`` request."""
    return SimulatorSettings(
        simulator=get(body, "simulator", str),
        env_seed=get(body, "env_seed", int),
        cameras=_strings(body.get("cameras")),
        height=get(body, "height", int),
        width=get(body, "width", int),
    )


def read_episode(body: Mapping[str, object]) -> Episode:
    """The episode of a ``prepare`` request."""
    return Episode(get(body, "task_suite", str), get(body, "task", str), get(body, "index", int))


def interventions_body(interventions: Sequence[Intervention]) -> Json:
    """Body of an ``apply`` request."""
    return {
        "interventions": [
            {
                "axis": item.axis,
                "shift": item.shift,
                "level": item.level,
                "parameters": dict(item.parameters),
                "draw": dict(item.draw),
                "seed": item.seed,
            }
            for item in interventions
        ]
    }


def read_interventions(body: Mapping[str, object]) -> list[Intervention]:
    """The interventions of an ``apply`` request."""
    return [
        Intervention(
            axis=get(item, "axis", str),
            shift=get(item, "shift", str),
            level=get(item, "level", str),
            parameters=_mapping(item, "parameters", float),
            draw=_mapping(item, "draw", float),
            seed=get(item, "seed", int),
        )
        for item in _list(body.get("interventions"), _object)
    ]


def info_body(info: SimulatorInfo) -> Json:
    """Body of the reply to ``open`` and to ``describe``."""
    return {**asdict(info), "versions": dict(info.versions)}


def read_info(body: Mapping[str, object]) -> SimulatorInfo:
    """The description in a reply to ``open`` or ``describe``."""
    action = _list(body.get("settle_action"), lambda item: get({"a": item}, "a", float))
    return SimulatorInfo(
        name=get(body, "name", str),
        versions=_mapping(body, "versions", str),
        recipe=get(body, "recipe", int),
        renderer=get(body, "renderer", str),
        action_dim=get(body, "action_dim", int),
        action_low=get(body, "action_low", float),
        action_high=get(body, "action_high", float),
        settle_action=action,
        control_hz=get(body, "control_hz", float),
        cameras=_list(body.get("cameras"), lambda item: get({"c": item}, "c", str)),
        position=_range(body.get("position")),
        rotation=_range(body.get("rotation")),
        proprio=_strings(body.get("proprio")),
    )


def _range(value: object) -> tuple[int, int]:
    match _list(value, lambda item: get({"i": item}, "i", int)):
        case (start, stop):
            return start, stop
    raise WireError(f"{value!r} is no range")


def prepared_body(prepared: Prepared) -> Json:
    """Body of the reply to ``prepare``."""
    return {
        "fingerprint": dict(prepared.fingerprint),
        "instruction": prepared.instruction,
        "goal": prepared.goal.predicates,
        "predicates": prepared.predicates,
        "stages": [
            [[[m.name, m.predicate] for m in track] for track in group]
            for group in prepared.stages.groups
        ],
    }


def read_prepared(body: Mapping[str, object]) -> Prepared:
    """The prepared episode of a reply."""

    def milestone(value: object) -> Milestone:
        name, predicate = _strings(value)
        return Milestone(name, predicate)

    return Prepared(
        fingerprint=_mapping(body, "fingerprint", str),
        instruction=get(body, "instruction", str),
        goal=Goal(_list(body.get("goal"), _strings)),
        predicates=_strings(body.get("predicates")),
        stages=StageSpec(
            _list(
                body.get("stages"),
                lambda group: _list(group, lambda track: _list(track, milestone)),
            )
        ),
    )


def receipts_body(receipts: Sequence[Receipt]) -> Json:
    """Body of the reply to ``apply``."""
    return {"receipts": [[item.field, item.before, item.after] for item in receipts]}


def read_receipts(body: Mapping[str, object]) -> list[Receipt]:
    """The receipts of a reply."""

    def receipt(value: object) -> Receipt:
        match value:
            case [str() as name, before, after]:
                return Receipt(name, _receipt_value(before), _receipt_value(after))
        raise WireError(f"no receipt: {value!r}")

    return list(_list(body.get("receipts"), receipt))


def _receipt_value(value: object) -> Value | str:
    if isinstance(value, float | int | str):
        return value
    if isinstance(value, list) and all(isinstance(item, float | int) for item in value):
        return value
    raise WireError(f"no value of a receipt: {value!r}")


def step_reply(seq: int, result: StepResult) -> Frame:
    """The reply to ``step``: the predicates are its one array."""
    body: Json = {
        "steps": result.steps,
        "success": bool(result.success),
        "object_speed": float(result.object_speed),
    }
    return Frame(seq, "ok", body, [result.predicates])


def read_step(frame: Frame) -> StepResult:
    """The result in a reply to ``step``."""
    steps = get(frame.body, "steps", int)
    if len(frame.arrays) != 1 or frame.arrays[0].dtype != np.bool_:
        raise WireError("a step's reply carries one bool array")
    predicates: NDArray[np.bool_] = frame.arrays[0].astype(np.bool_, copy=False)
    if predicates.ndim != 2 or predicates.shape[0] != steps:
        raise WireError(f"predicates of shape {predicates.shape} for {steps} steps")
    return StepResult(
        steps, get(frame.body, "success", bool), predicates, get(frame.body, "object_speed", float)
    )


def observation_reply(seq: int, observation: Observation) -> Frame:
    """Everything but the pictures themselves, which go through shared memory."""
    arrays: list[Array] = []

    def put(vectors: Mapping[str, Vector]) -> dict[str, int]:
        places = {}
        for name, vector in vectors.items():
            places[name] = len(arrays)
            arrays.append(np.asarray(vector, dtype=np.float64))
        return places

    body: Json = {
        "images": list(observation.images),
        "proprio": put(observation.proprio),
        "instruction": observation.instruction,
        "step": observation.step,
    }
    state = observation.privileged
    if state is not None:
        body["privileged"] = {
            "positions": put(state.positions),
            "quaternions": put(state.quaternions),
            "joints": {name: float(value) for name, value in state.joints.items()},
        }
    return Frame(seq, "ok", body, arrays)


def read_observation(frame: Frame, frames: FrameMemory | None) -> Observation:
    """An observation whose pictures are copied out of ``frames``."""

    def take(body: Mapping[str, object], name: str) -> dict[str, Vector]:
        vectors: dict[str, Vector] = {}
        for key, place in _mapping(body, name, int).items():
            if not 0 <= place < len(frame.arrays):
                raise WireError(f"{key}: there is no array {place}")
            vectors[key] = frame.arrays[place].astype(np.float64, copy=False)
        return vectors

    names = _strings(frame.body.get("images"))
    if frames is None and names:
        raise WireError("pictures, but no memory for pictures")
    images = {name: frames.read(name) for name in names} if frames is not None else {}
    state = None
    if frame.body.get("privileged") is not None:
        inner = get(frame.body, "privileged", dict)
        state = PrivilegedState(
            positions=take(inner, "positions"),
            quaternions=take(inner, "quaternions"),
            joints=_mapping(inner, "joints", float),
        )
    return Observation(
        images=images,
        proprio=take(frame.body, "proprio"),
        instruction=get(frame.body, "instruction", str),
        step=get(frame.body, "step", int),
        privileged=state,
    )


def read_predicates(body: Mapping[str, object]) -> dict[str, bool]:
    """The predicates of a reply."""
    return _mapping(body, "predicates", bool)
