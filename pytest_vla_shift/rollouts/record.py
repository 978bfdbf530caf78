"""One rollout's record: the row of the long table, with a word on every field.

A record is plain JSON. It never holds a wall-clock time, a path or a host in a field that is
compared; those live under ``timing`` and ``where``, which comparisons leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

SCHEMA = 1
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
        axis, level: of a single-axis condition; None for clean and null.
        status: ``done``, or ``error`` for an infrastructure error.
        success: the simulator's own check; None if status is ``error``.
        steps: control steps executed after settling.
        decisions: how often the policy was asked.
        stages: None if status is ``error``.
        stage_disagreement: all milestones but no success, or success without all milestones.
        initial_predicates: predicates that were already true after settling.
        fingerprint: field -> digest of the pre-shift state.
        receipts: what the shift changed, as lists of field, before, after.
        interventions: the shift with its parameters and draw.
        policy_seed: the seed that ``reset`` was given.
        seed_note: ``shared``, ``inert`` (the policy declares no seed), ``other`` (null arm).
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
    status: Literal["done", "error"]
    success: bool | None
    steps: int
    decisions: int
    stages: StageResult | None
    stage_disagreement: bool
    initial_predicates: tuple[str, ...]
    fingerprint: Mapping[str, str]
    receipts: tuple[tuple[str, JSON, JSON], ...]
    interventions: tuple[Mapping[str, JSON], ...]
    policy_seed: int
    seed_note: str
    actions_digest: str | None
    error: tuple[str, str] | None = None
    attempts: int = 1
    timing: Mapping[str, float] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """The row as it is written."""
        return {"kind": "rollout", "schema": SCHEMA, **asdict(self)}

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
        known = set(cls.__dataclass_fields__)
        if set(fields) != known:
            raise ValueError(f"fields differ: {sorted(set(fields) ^ known)}")
        return cls(**_typed(fields))  # type: ignore[arg-type]  # _typed checked them


def _typed(fields: dict[str, JSON]) -> dict[str, object]:
    """JSON's lists back into tuples, and the stages into their class, with types checked."""
    out: dict[str, object] = dict(fields)
    stages = fields["stages"]
    if isinstance(stages, dict):
        milestones, completed = stages.get("milestones"), stages.get("completed")
        first, progress = stages.get("first_incomplete"), stages.get("progress")
        if not isinstance(milestones, list) or not isinstance(completed, dict):
            raise ValueError("stages")
        if not isinstance(progress, int | float) or not (first is None or isinstance(first, str)):
            raise ValueError("stages")
        out["stages"] = StageResult(
            milestones=tuple(str(name) for name in milestones),
            completed={str(k): int(v) for k, v in completed.items() if isinstance(v, int)},
            first_incomplete=first,
            progress=float(progress),
            complete=bool(stages.get("complete")),
        )
    elif stages is not None:
        raise ValueError("stages")
    for name in ("initial_predicates", "interventions"):
        value = fields[name]
        if not isinstance(value, list):
            raise ValueError(name)
        out[name] = tuple(value)
    receipts = fields["receipts"]
    if not isinstance(receipts, list):
        raise ValueError("receipts")
    out["receipts"] = tuple(tuple(r) for r in receipts if isinstance(r, list))
    error = fields["error"]
    out["error"] = None if error is None else tuple(error) if isinstance(error, list) else error
    for name, kind in (("key", str), ("task", str), ("episode", int), ("steps", int)):
        if not isinstance(fields[name], kind):
            raise ValueError(name)
    if fields["status"] not in ("done", "error"):
        raise ValueError("status")
    if (fields["status"] == "done") != isinstance(fields["success"], bool):
        raise ValueError("success")
    return out
