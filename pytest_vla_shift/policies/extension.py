"""What our own servers and clients tell each other beyond a wire's own format.

A server of ours says so where its wire has room for it (``vla_shift`` in what it sends first); a
client of ours then adds a map of the same name to what it sends. Stock servers say nothing, and
are sent nothing. So a privileged policy, which reads what no wire carries, can be served, seeds
reach the policy, and episodes begin and end on wires that know none.

Maps of numbers, texts, lists and arrays alone: whatever a wire's codec takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Goal,
    Observation,
    PrivilegedState,
)

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import PolicySpec
    from pytest_vla_shift.protocol.observation import Vector

KEY = "vla_shift"
VERSION = 1


class ExtensionError(ValueError):
    """What came is not what this version of the extension sends."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server of ours says of the policy behind it.

    Attributes:
        policy: name and revision, for the key.
        cameras: of all that the profile has, those that it looks through: no other is sent.
        chunk, replan, privileged, seeded, language, seedable, checkpoint, unidentified: as in its
            spec.
        sessions: whether several clients may ask at once.
    """

    policy: str
    cameras: tuple[str, ...]
    chunk: int
    replan: int
    privileged: bool
    seeded: bool
    language: bool
    sessions: bool = True
    seedable: bool = True
    checkpoint: str = ""
    unidentified: bool = False


def announce(spec: PolicySpec, *, sessions: bool) -> dict[str, object]:
    """What a server sends.

    Args:
        spec: of the policy.
        sessions: whether several clients may ask at once.
    """
    return {
        "version": VERSION,
        "policy": f"{spec.name} {spec.revision}",
        "cameras": list(spec.cameras),
        "chunk": spec.chunk,
        "replan": spec.replan,
        "privileged": spec.privileged,
        "seeded": spec.seeded,
        "language": spec.language,
        "sessions": sessions,
        "seedable": spec.seedable,
        "checkpoint": spec.checkpoint,
        "unidentified": spec.unidentified,
    }


def announced(value: object) -> Served | None:
    """What a server of ours said; None if it is none of ours.

    Raises:
        ExtensionError: it speaks another version, or nonsense.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping) or value.get("version") != VERSION:
        said = repr(value)[:100]
        raise ExtensionError(f"the server speaks another version of {KEY} than {VERSION}: {said}")
    cameras = _of(value, "cameras", list)
    if not all(isinstance(camera, str) for camera in cameras):
        raise ExtensionError("'cameras' must be list of text")
    found = Served(
        _of(value, "policy", str),
        tuple(cameras),
        _of(value, "chunk", int),
        _of(value, "replan", int),
        _of(value, "privileged", bool),
        _of(value, "seeded", bool),
        _of(value, "language", bool),
        _of(value, "sessions", bool),
        _of(value, "seedable", bool),
        _of(value, "checkpoint", str),
        _of(value, "unidentified", bool),
    )
    if not 1 <= found.replan <= found.chunk:
        raise ExtensionError(f"the server's replan {found.replan} does not fit {found.chunk}")
    return found


def begun(info: EpisodeInfo, seed: int) -> dict[str, object]:
    """What a client sends when a rollout begins."""
    episode = info.episode
    return {
        "episode": [episode.task_suite, episode.task, episode.index],
        "instruction": info.instruction,
        "horizon": info.horizon,
        "goal": [list(predicate) for predicate in info.goal.predicates],
        "seed": seed,
    }


def begin_of(value: object) -> tuple[EpisodeInfo, int]:
    """The episode and the seed in what a client of ours sent.

    Raises:
        ExtensionError: it is not that.
    """
    sent = _mapping(value)
    episode = _of(sent, "episode", list)
    goal = _of(sent, "goal", list)
    if (
        len(episode) != 3
        or not all(isinstance(text, str) for text in episode[:2])
        or type(episode[2]) is not int
        or not all(isinstance(p, list) and all(isinstance(w, str) for w in p) for p in goal)
    ):
        raise ExtensionError(f"not an episode: {episode!r}, {goal!r}")
    info = EpisodeInfo(
        Episode(*episode),
        _of(sent, "instruction", str),
        _of(sent, "horizon", int),
        Goal(tuple(tuple(predicate) for predicate in goal)),
    )
    return info, _of(sent, "seed", int)


def shown(observation: Observation) -> dict[str, object]:
    """What a client sends with an observation: what a profile cannot carry, or rounds."""
    sent: dict[str, object] = {"step": observation.step, "proprio": dict(observation.proprio)}
    if observation.privileged is not None:
        truth = observation.privileged
        sent["privileged"] = {
            "positions": dict(truth.positions),
            "quaternions": dict(truth.quaternions),
            "joints": dict(truth.joints),
        }
    return sent


def completed(observation: Observation, value: object) -> Observation:
    """``observation``, as a profile gave it, with what a client of ours sent beside it.

    Raises:
        ExtensionError: that is not what one sends.
    """
    sent = _mapping(value)
    truth = sent.get("privileged")
    privileged = None
    if truth is not None:
        parts = _mapping(truth)
        joints = _mapping(parts.get("joints"))
        privileged = PrivilegedState(
            _vectors(parts.get("positions")),
            _vectors(parts.get("quaternions")),
            {str(name): _number(name, joint) for name, joint in joints.items()},
        )
    return Observation(
        observation.images,
        {**observation.proprio, **_vectors(sent.get("proprio"))},
        observation.instruction,
        _of(sent, "step", int),
        privileged,
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ExtensionError(f"expected a map, not {type(value).__name__}")
    return value


T = TypeVar("T")


def _of(sent: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = sent.get(key)
    if type(value) is not kind:
        raise ExtensionError(f"{key!r} must be {kind.__name__}, not {type(value).__name__}")
    return value


def _number(name: object, value: object) -> float:
    if type(value) not in (int, float):
        raise ExtensionError(f"{name!r} must be a number, not {type(value).__name__}")
    return float(cast("float", value))


def _vectors(value: object) -> dict[str, Vector]:
    found: dict[str, Vector] = {}
    for name, vector in _mapping(value).items():
        if not isinstance(vector, np.ndarray) or vector.dtype.kind != "f" or vector.ndim != 1:
            raise ExtensionError(f"{name!r} must be a vector")
        found[str(name)] = vector.astype(np.float64)
    return found
