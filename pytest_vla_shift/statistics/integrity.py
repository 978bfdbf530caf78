"""The integrity audit of a finished run (RoboCasa-Shift VI-E, Table VII): a row a task.

A function of the plan, the records and the suites: it can be asked again of any stored run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.statistics.integrity_checks import (
    Expected,
    Found,
    Kind,
    Measured,
    across_run,
    against_clean,
    alone,
    among_levels,
)
from pytest_vla_shift.statistics.pairs import PlannedPair


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one rollout.

    Attributes:
        kind: a word of :class:`Kind`.
        suite, task_suite, task, episode, condition, replicate: of which rollout.
        message: what, in words.
    """

    kind: str
    suite: str
    task_suite: str
    task: str
    episode: int
    condition: str
    replicate: int
    message: str


@dataclass(frozen=True, slots=True)
class TaskIntegrity:
    """One task's row.

    Attributes:
        suite, task_suite, task: which.
        episodes: episode ids of which every expected rollout is valid.
        planned_episodes: episode ids of the plan.
        conditions: of the plan, clean included.
        expected, valid: rollouts of the plan; of them, measured and without any problem.
        problems: kind -> rollouts that have one of it.
        errors: kind of infrastructure error -> rollouts.
        disagreements: rollouts whose milestones and official success disagree. Counted only: a
            tracker-complete official failure is a finding, and no fault.
    """

    suite: str
    task_suite: str
    task: str
    episodes: int
    planned_episodes: int
    conditions: int
    expected: int
    valid: int
    problems: Mapping[str, int]
    errors: Mapping[str, int]
    disagreements: int

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """The audit of a run.

    Attributes:
        tasks: sorted by suite and task.
        problems: all of them, in the order of the plan.
        notes: what a reader must know and is no fault.
    """

    tasks: tuple[TaskIntegrity, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, and something was audited."""
        return bool(self.tasks) and not self.problems

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON."""
        return {"kind": "audit-integrity", "schema": 1, "passed": self.passed, **asdict(self)}


def audit_integrity(
    planned: Iterable[PlannedPair],
    records: Mapping[str, RolloutRecord],
    suites: Mapping[str, Suite],
    *,
    selection: bool = False,
) -> IntegrityReport:
    """Audit a run.

    Args:
        planned: its cells, in any order.
        records: key -> record; those that no cell asks for are left alone.
        suites: name -> protocol, of every suite of ``planned``.
        selection: the plan is a part of its suites (``-k``, ``--lf``, a cut). Conditions may then
            have different episodes, which is a note; in a whole plan it is a fault.

    Raises:
        ValueError: a suite is missing, or the plan asks for one rollout by two keys.
    """
    expected = _expected(planned)
    absent = sorted({item.suite for item in expected} - set(suites))
    if absent:
        raise ValueError(f"the protocol of suite {absent[0]!r} is needed to audit it")
    found: dict[Expected, list[Found]] = {item: [] for item in expected}
    measured = [(item, records[item.key]) for item in expected if item.key in records]
    for item in expected:
        record = records.get(item.key)
        if record is None:
            clean = records.get(item.clean_key)
            blocked = clean is not None and clean.status != "done"
            found[item].append(
                (Kind.MISSING, "its clean arm has an error" if blocked else "no record")
            )
            continue
        found[item].extend(alone(item, record, suites[item.suite]))
        clean = records.get(item.clean_key)
        if not item.is_clean and clean is not None and "error" not in (clean.status, record.status):
            found[item].extend(against_clean(record, clean))
    for item, problem in _jointly(measured):
        found[item].append(problem)
    notes = []
    for item, message in _uneven(expected):
        if selection:
            notes.append(f"{item.task}: {message}; the plan is a selection.")
        else:
            found[item].append((Kind.EPISODES, message))
    return IntegrityReport(
        tasks=tuple(_tasks(expected, found, records)),
        problems=tuple(
            Problem(str(kind), *item.place, message=message)
            for item in expected
            for kind, message in found[item]
        ),
        notes=tuple(notes),
    )


def _expected(planned: Iterable[PlannedPair]) -> list[Expected]:
    """Every rollout once, clean arms included, in the order of suites, tasks and episodes."""
    found: dict[str, Expected] = {}
    keys: dict[tuple[str, str, str, int, str, int], str] = {}
    for cell in planned:
        place = (cell.suite, cell.task_suite, cell.task, cell.episode)
        clean = Expected(
            *place, CLEAN.name, cell.replicate, None, None, (), cell.clean_key, cell.clean_key
        )
        wanted = [clean]
        if cell.condition != NOMINAL.name:
            wanted.append(
                Expected(
                    *place,
                    cell.condition,
                    cell.replicate,
                    cell.axis,
                    cell.level,
                    tuple(sorted(cell.axes)),
                    cell.shifted_key,
                    cell.clean_key,
                )
            )
        for item in wanted:
            if keys.setdefault(item.place, item.key) != item.key:
                raise ValueError(f"the plan asks for {item.place} by two keys")
            if found.setdefault(item.key, item).place != item.place:
                raise ValueError(f"the plan asks for {item.place} and another by one key")
    return sorted(found.values(), key=lambda item: item.place)


def _jointly(measured: Sequence[Measured]) -> Iterator[tuple[Expected, Found]]:
    """Checks that need several rollouts, over those that were measured."""
    done = [(item, record) for item, record in measured if record.status == "done"]
    episodes: defaultdict[tuple[object, ...], list[Measured]] = defaultdict(list)
    by_suite: defaultdict[str, list[Measured]] = defaultdict(list)
    for item, record in done:
        by_suite[item.suite].append((item, record))
        if not item.is_clean:
            place = (item.suite, item.task_suite, item.task, item.episode, item.replicate)
            episodes[place].append((item, record))
    for group in episodes.values():
        yield from among_levels(group)
    for group in by_suite.values():
        yield from across_run(group)


def _uneven(expected: Sequence[Expected]) -> Iterator[tuple[Expected, str]]:
    """The same episode ids under every compared condition, a task at a time."""
    ids: defaultdict[tuple[str, str, str, int], defaultdict[str, list[Expected]]]
    ids = defaultdict(lambda: defaultdict(list))
    for item in expected:
        if not item.is_clean:  # a nominal pass has clean rollouts of other episodes as well
            task = (item.suite, item.task_suite, item.task, item.replicate)
            ids[task][item.condition].append(item)
    for conditions in ids.values():
        everywhere = {item.episode for items in conditions.values() for item in items}
        for name, items in conditions.items():
            lacking = sorted(everywhere - {item.episode for item in items})
            if lacking:
                yield items[0], f"{name} lacks episodes {', '.join(map(str, lacking))}"


def _tasks(
    expected: Sequence[Expected],
    found: Mapping[Expected, Sequence[Found]],
    records: Mapping[str, RolloutRecord],
) -> Iterator[TaskIntegrity]:
    tasks: defaultdict[tuple[str, str, str], list[Expected]] = defaultdict(list)
    for item in expected:
        tasks[item.suite, item.task_suite, item.task].append(item)
    for name, items in sorted(tasks.items()):
        there = [records[item.key] for item in items if item.key in records]
        faulty = {item.episode for item in items if found[item]}
        kinds = Counter(str(kind) for item in items for kind in {kind for kind, _ in found[item]})
        errors = Counter(
            record.error[0] if record.error else "unknown"
            for record in there
            if record.status == "error"
        )
        ids = {item.episode for item in items}
        yield TaskIntegrity(
            *name,
            episodes=len(ids - faulty),
            planned_episodes=len(ids),
            conditions=len({item.condition for item in items}),
            expected=len(items),
            valid=sum(not found[item] for item in items),
            problems=dict(sorted(kinds.items())),
            errors=dict(sorted(errors.items())),
            disagreements=sum(record.stage_disagreement for record in there),
        )
