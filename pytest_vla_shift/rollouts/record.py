"""One rollout's record: the row of the long table, with a word on every field.

A record is plain JSON. It never holds a wall-clock time, a path or a host in a field that is
compared; those live under ``timing`` and ``where``, which comparisons leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_vla_shift.protocol.identity import digest

SCHEMA = 2
"""Raised whenever a reader of the old rows would misread the new ones."""

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


@dataclass(frozen=True, slots=True)
class StageResult:
    """How deep a rollout got.

    Attributes:
        milestones: names in specification order (those true after settling are dropped).
        completed: milestone name -> control step, from 1, at which it latched.
        first_incomplete: the first milestone that never latched, or None.
        progress: completed milestones over all milestones, 0 to 1.
        complete: every milestone latched.
    """

    milestones: tuple[str, ...]
    completed: Mapping[str, int]
    first_incomplete: str | None
    progress: float
    complete: bool


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """One rollout, as measured.

    Attributes:
        key: digest of ``identity``.
        identity: everything that could change a number (see protocol/identity.py).
        suite, task_suite, task, episode, condition: where it belongs in the plan.
        axis, level: what is shifted: an axis, ``simultaneous`` for all of the suite's, several
            joined with ``+``; None for clean and null.
        replicate: 0, or 1 for a rollout with the second policy seed of ``--vla-replicate``.
        status: ``done``, or ``error`` for an infrastructure error.
        success: the simulator's own check; None if status is ``error``.
        steps: control steps executed after settling.
        decisions: how often the policy was asked.
        stages: None if status is ``error``.
        stage_disagreement: all milestones but no success, or success without all milestones.
        initial_predicates: predicates that were already true after settling.
        fingerprint: digest of the pre-shift state; the same in both arms of a pair. Its fields are
            in the store, once for each digest. Empty if the state was never reached.
        receipts: what the shift changed, as lists of field, before, after.
        interventions: the shifts with their parameters and draws, one an axis.
        identities: axis -> why its shift changed nothing here; it is not among the interventions.
        instruction: the sentence that the policy was given. Empty if the episode was never reached.
        policy_seed: the seed that ``reset`` was given.
        seed_note: ``shared``, ``other`` (null arm), ``inert`` (the seed decides nothing), or ``not
            supported`` (its server cannot be given one).
        actions_digest: digest of the executed actions, (steps, D) float64.
        error: kind and message of an infrastructure error.
        attempts: 1, or 2 when a first worker was lost.
        timing: seconds, informative only: ``wall``, ``policy``, ``simulator``.
        where: worker id, device and file names, informative only.
    """

    key: str
    identity: Mapping[str, JSON]
    suite: str
    task_suite: str
    task: str
    episode: int
    condition: str
    axis: str | None
    level: str | None
    replicate: int
    status: Literal["done", "error"]
    success: bool | None
    steps: int
    decisions: int
    stages: StageResult | None
    stage_disagreement: bool
    initial_predicates: tuple[str, ...]
    fingerprint: str
    receipts: tuple[tuple[str, JSON, JSON], ...]
    interventions: tuple[Mapping[str, JSON], ...]
    identities: Mapping[str, str]
    instruction: str
    policy_seed: int
    seed_note: str
    actions_digest: str | None
    error: tuple[str, str] | None = None
    attempts: int = 1
    timing: Mapping[str, float] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """The row as it is written."""
        row: dict[str, JSON] = {"kind": "rollout", "schema": SCHEMA}
        # Not asdict, which copies every list and mapping of the identity, for ten times the cost.
        row.update((name, getattr(self, name)) for name in _READERS)
        if self.stages is not None:
            row["stages"] = {name: getattr(self.stages, name) for name in _STAGE_READERS}
        return row

    def outcome(self) -> dict[str, JSON]:
        """What must be the same whenever the same rollout runs: all but timing and place."""
        row = self.to_json()
        for name in ("timing", "where", "attempts"):
            del row[name]
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, JSON]) -> RolloutRecord:
        """The record of a row.

        Raises:
            ValueError: the row is not one of this schema; the message names the field.
        """
        if row.get("kind") != "rollout" or row.get("schema") != SCHEMA:
            raise ValueError(f"kind {row.get('kind')!r}, schema {row.get('schema')!r}")
        fields = {k: v for k, v in row.items() if k not in ("kind", "schema")}
        if set(fields) != set(_READERS):
            raise ValueError(f"fields differ: {sorted(set(fields) ^ set(_READERS))}")
        read = _read(_READERS, fields)
        record = cls(**read)  # type: ignore[arg-type]  # _READERS has each field's own type
        _check(record)
        return record


def _check(record: RolloutRecord) -> None:
    """What no field can say alone."""
    done = record.status == "done"
    if record.status not in ("done", "error"):
        raise ValueError(f"status: {record.status!r} is neither 'done' nor 'error'")
    if done != (record.success is not None):
        raise ValueError(f"success: {record.success!r} with status {record.status!r}")
    if done != (record.stages is not None):
        raise ValueError(f"stages: {record.stages!r} with status {record.status!r}")
    if done != (record.error is None):
        raise ValueError(f"error: {record.error!r} with status {record.status!r}")
    if record.key != digest(record.identity):
        raise ValueError("key: it is not the digest of identity")


Reader = Callable[[JSON], object]


def _read(readers: Mapping[str, Reader], values: Mapping[str, JSON]) -> dict[str, object]:
    """Every value through its reader; an error names the field."""
    read: dict[str, object] = {}
    for name, reader in readers.items():
        try:
            read[name] = reader(values[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return read


def _text(value: JSON) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _count(value: JSON) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return value


def _number(value: JSON) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _truth(value: JSON) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _object(value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def _optional(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _each(reader: Reader) -> Reader:
    """A list as a tuple, item by item."""

    def read(value: JSON) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{value!r} is not a list")
        return tuple(reader(item) for item in value)

    return read


def _values(reader: Reader) -> Reader:
    """An object, value by value."""
    return lambda value: {name: reader(item) for name, item in _object(value).items()}


def _receipt(value: JSON) -> tuple[str, JSON, JSON]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"{value!r} is not field, before, after")
    return _text(value[0]), value[1], value[2]


def _error(value: JSON) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{value!r} is not kind and message")
    return _text(value[0]), _text(value[1])


def _stages(value: JSON) -> StageResult:
    found = _object(value)
    if set(found) != set(_STAGE_READERS):
        raise ValueError(f"fields differ: {sorted(set(found) ^ set(_STAGE_READERS))}")
    read = _read(_STAGE_READERS, found)
    return StageResult(**read)  # type: ignore[arg-type]  # as for the record


_STAGE_READERS: dict[str, Reader] = {
    "milestones": _each(_text),
    "completed": _values(_count),
    "first_incomplete": _optional(_text),
    "progress": _number,
    "complete": _truth,
}

_READERS: dict[str, Reader] = {
    "key": _text,
    "identity": _object,
    "suite": _text,
    "task_suite": _text,
    "task": _text,
    "episode": _count,
    "condition": _text,
    "axis": _optional(_text),
    "level": _optional(_text),
    "replicate": _count,
    "status": _text,
    "success": _optional(_truth),
    "steps": _count,
    "decisions": _count,
    "stages": _optional(_stages),
    "stage_disagreement": _truth,
    "initial_predicates": _each(_text),
    "fingerprint": _text,
    "receipts": _each(_receipt),
    "interventions": _each(_object),
    "identities": _values(_text),
    "instruction": _text,
    "policy_seed": _count,
    "seed_note": _text,
    "actions_digest": _optional(_text),
    "error": _optional(_error),
    "attempts": _count,
    "timing": _values(_number),
    "where": _values(_text),
}
