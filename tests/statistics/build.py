"""Records and plans for tests: outcomes are chosen, everything else is as a run writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_vla_shift.rollouts.record import RolloutRecord, StageResult
from pytest_vla_shift.statistics.pairs import PlannedPair


def stages(done: int, total: int = 4) -> StageResult:
    """``done`` of ``total`` milestones latched, one every ten steps."""
    names = tuple(f"g{i + 1}" for i in range(total))
    return StageResult(
        milestones=names,
        completed={name: 10 * (i + 1) for i, name in enumerate(names[:done])},
        first_incomplete=names[done] if done < total else None,
        progress=done / total if total else 1.0,
        complete=done == total,
    )


def record(
    task: str = "pick",
    episode: int = 0,
    condition: str = "clean",
    success: bool | None = True,
    *,
    suite: str = "demo",
    task_suite: str = "libero_object",
    depth: tuple[int, int] | None = None,
    error: str | None = None,
    disagreement: bool = False,
    fingerprint: str = "same",
    policy_seed: int = 7,
    seed_note: str = "shared",
    replicate: int = 0,
) -> RolloutRecord:
    """One rollout; its key says what it is of. ``depth`` is (milestones latched, of how many)."""
    axis, _, level = condition.partition("-")
    if depth is None:
        depth = (4, 4) if success else (1, 4)
    return RolloutRecord(
        key=key(suite, task, episode, condition),
        identity={},
        suite=suite,
        task_suite=task_suite,
        task=task,
        episode=episode,
        condition=condition,
        axis=axis if level else None,
        level=level or None,
        replicate=replicate,
        status="error" if error else "done",
        success=None if error else success,
        steps=100,
        decisions=13,
        stages=None if error else stages(*depth),
        stage_disagreement=disagreement,
        initial_predicates=(),
        fingerprint=fingerprint,
        receipts=(),
        interventions=(),
        identities={},
        instruction="do it",
        policy_seed=policy_seed,
        seed_note=seed_note,
        actions_digest=None,
        error=(error, "what happened") if error else None,
    )


def key(suite: str, task: str, episode: int, condition: str) -> str:
    return f"{suite}/{task}/{episode}/{condition}"


def planned(
    task: str = "pick",
    episode: int = 0,
    condition: str = "camera-L1",
    *,
    suite: str = "demo",
    task_suite: str = "libero_object",
    axes: tuple[str, ...] = (),
) -> PlannedPair:
    """One cell; ``axes`` are those of a compound."""
    axis, _, level = condition.partition("-")
    return PlannedPair(
        suite=suite,
        task_suite=task_suite,
        task=task,
        episode=episode,
        condition=condition,
        axis=axis if level else None,
        level=level or None,
        axes=axes or ((axis,) if level else ()),
        cell=f"{suite}-{task}-e{episode:02}-{condition}",
        clean_key=key(suite, task, episode, "clean"),
        shifted_key=key(suite, task, episode, condition),
    )


def world(
    outcomes: Mapping[str, Mapping[str, Sequence[tuple[bool, bool]]]], suite: str = "demo"
) -> tuple[list[PlannedPair], dict[str, RolloutRecord]]:
    """A plan and its records from condition -> task -> (clean, shifted) of episodes 0, 1, ..."""
    cells: list[PlannedPair] = []
    records: dict[str, RolloutRecord] = {}
    for condition, tasks in outcomes.items():
        for task, pairs in tasks.items():
            for episode, (clean, shifted) in enumerate(pairs):
                cells.append(planned(task, episode, condition, suite=suite))
                add(records, record(task, episode, "clean", clean, suite=suite))
                add(records, record(task, episode, condition, shifted, suite=suite))
    return cells, records


def add(records: dict[str, RolloutRecord], *new: RolloutRecord) -> None:
    for item in new:
        records[item.key] = item


def by_key(records: Iterable[RolloutRecord]) -> dict[str, RolloutRecord]:
    return {item.key: item for item in records}
