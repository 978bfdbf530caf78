"""What each rollout of a run must satisfy after it: alone, against its clean arm, among its levels.

Every check yields problems, each with its kind; :mod:`.integrity` counts them. Records are read
as they are: nothing here trusts that the run which wrote them has checked anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, NULL
from pytest_vla_shift.protocol.identity import canonical, differing_fields, digest
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord


class Kind(StrEnum):
    """What can be wrong (the paper's Table VII, and what it takes for granted)."""

    MISSING = "missing"
    MISPLACED = "misplaced"
    RUNTIME = "runtime failure"
    BASE_STATE = "base state"
    POLICY_SEED = "policy seed"
    RENDERER = "renderer"
    VERSIONS = "versions"
    CONTRACT = "contract"
    INTERVENTION = "intervention"
    STAGES = "stages"
    TRUNCATION = "truncation"
    EPISODES = "episodes"


Found = tuple[Kind, str]

_OF_THE_SHIFT = ("revision", "versions")
"""What the key says of a shift's implementation, beside the intervention itself."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One rollout that a plan asks for.

    Attributes:
        suite, task_suite, task, episode, condition, replicate: its place; ``clean`` for a clean
            or nominal one.
        axis, level: as a record has them.
        axes: names of the shifted axes, sorted.
        key, clean_key: of its record, and of its clean arm's.
    """

    suite: str
    task_suite: str
    task: str
    episode: int
    condition: str
    replicate: int
    axis: str | None
    level: str | None
    axes: tuple[str, ...]
    key: str
    clean_key: str

    @property
    def place(self) -> tuple[str, str, str, int, str, int]:
        """Where it belongs."""
        return (
            self.suite,
            self.task_suite,
            self.task,
            self.episode,
            self.condition,
            self.replicate,
        )

    @property
    def is_clean(self) -> bool:
        """Whether nothing is shifted and nothing is compared."""
        return self.condition in (CLEAN.name, NOMINAL.name)


def place_of(record: RolloutRecord) -> tuple[str, str, str, int, str, int]:
    """Where a record says it belongs."""
    return (
        record.suite,
        record.task_suite,
        record.task,
        record.episode,
        record.condition,
        record.replicate,
    )


def alone(expected: Expected, record: RolloutRecord, suite: Suite) -> Iterator[Found]:
    """What a record must satisfy by itself and by its suite."""
    yield from _place(expected, record)
    if record.status != "done":
        kind, message = record.error or ("unknown", "no message")
        yield Kind.RUNTIME, f"{kind}: {message}"
        return
    if record.error is not None:
        yield Kind.RUNTIME, f"{record.error[0]} in a rollout that counts as measured"
    if not record.fingerprint:
        yield Kind.BASE_STATE, "no fingerprint"
    yield from _length(record, suite)
    yield from _stages(record)
    yield from _seed(record)
    yield from _interventions(expected, record, suite)
    yield from _protocol(record, suite)


def _place(expected: Expected, record: RolloutRecord) -> Iterator[Found]:
    if record.key != expected.key or record.key != digest(record.identity):
        yield Kind.MISPLACED, "its key is not the digest of its identity, or not the one asked for"
    if place_of(record) != expected.place:
        yield Kind.MISPLACED, f"the record says it is of {place_of(record)}"
    if (record.axis, record.level) != (expected.axis, expected.level):
        yield Kind.MISPLACED, f"the record says axis {record.axis}, level {record.level}"
    told = (
        record.identity.get("suite"),
        record.identity.get("episode"),
        _at(record.identity, "condition", "name"),
        record.identity.get("replicate"),
    )
    if told != (
        record.suite,
        [record.task_suite, record.task, record.episode],
        record.condition,
        record.replicate,
    ):
        yield Kind.MISPLACED, f"its identity says it is of {told}"


def _length(record: RolloutRecord, suite: Suite) -> Iterator[Found]:
    """A failure must have used its whole horizon; a success, no more than it."""
    horizon = suite.horizons.get(record.task_suite)
    if record.identity.get("horizon") != horizon:
        yield (
            Kind.TRUNCATION,
            f"ran with horizon {record.identity.get('horizon')}, the suite's is {horizon}",
        )
    if horizon is None:
        return
    if record.success and not 1 <= record.steps <= horizon:
        yield Kind.TRUNCATION, f"success after {record.steps} steps of a horizon of {horizon}"
    if not record.success and record.steps != horizon:
        yield Kind.TRUNCATION, f"failed after {record.steps} of {horizon} steps"
    replan = _at(record.identity, "policy", "replan")
    least = -(-record.steps // replan) if isinstance(replan, int) and replan > 0 else 1
    if not least <= record.decisions <= record.steps:
        yield Kind.TRUNCATION, f"{record.decisions} decisions in {record.steps} steps"
    if record.actions_digest is None:
        yield Kind.TRUNCATION, "no executed actions"


def _stages(record: RolloutRecord) -> Iterator[Found]:
    """StageTracker's own bookkeeping. That it disagrees with success is counted, not wrong."""
    stages = record.stages
    if stages is None:
        yield Kind.STAGES, "no stage results"
        return
    names, completed = stages.milestones, stages.completed
    missing = [name for name in names if name not in completed]
    if len(set(names)) != len(names) or set(completed) - set(names):
        yield Kind.STAGES, "completed milestones are not among the task's"
    if any(not 1 <= step <= record.steps for step in completed.values()):
        yield Kind.STAGES, "a milestone latched outside of the rollout"
    if stages.first_incomplete != (missing[0] if missing else None):
        yield Kind.STAGES, f"first incomplete milestone is told as {stages.first_incomplete!r}"
    progress = 1.0 if not names else (len(names) - len(missing)) / len(names)
    if stages.progress != progress or stages.complete != (not missing):
        yield Kind.STAGES, f"progress {stages.progress}, complete {stages.complete}: should differ"
    if record.stage_disagreement != (bool(names) and stages.complete != record.success):
        yield Kind.STAGES, "whether milestones and success disagree is told wrongly"


def _seed(record: RolloutRecord) -> Iterator[Found]:
    if record.identity.get("policy_seed") != record.policy_seed:
        yield Kind.POLICY_SEED, "the seed is not the one of the key"
    seeded = _at(record.identity, "policy", "seeded")
    if not seeded:
        inert = _at(record.identity, "policy", "seedable") is not False
        right = "inert" if inert else "not supported"
    else:
        right = "other" if record.condition == NULL.name else "shared"
    if record.seed_note != right:
        yield Kind.POLICY_SEED, f"the seed is told to be {record.seed_note!r}, it is {right!r}"


def _interventions(expected: Expected, record: RolloutRecord, suite: Suite) -> Iterator[Found]:
    """Every axis of the condition at the suite's own level, and no other."""
    told: dict[str, Mapping[str, JSON]] = {str(i.get("axis")): i for i in record.interventions}
    if len(told) != len(record.interventions) or set(told) & set(record.identities):
        yield Kind.INTERVENTION, "an axis is shifted twice, or is shifted and an identity"
    if tuple(sorted({*told, *record.identities})) != expected.axes:
        shifted = ", ".join(sorted({*told, *record.identities})) or "nothing"
        yield Kind.INTERVENTION, f"shifted are {shifted}, asked for {expected.axes}"
    axes = {axis.name: axis for axis in suite.axes}
    place = suite.configuration(Episode(record.task_suite, record.task, record.episode))
    for name, item in told.items():
        axis = axes.get(name)
        level = {lv.name: lv for lv in axis.levels}.get(str(expected.level)) if axis else None
        if axis is None or level is None:
            yield Kind.INTERVENTION, f"the suite has no {name} {expected.level}"
            continue
        if item.get("shift") != axis.shift or item.get("level") != level.name:
            yield Kind.INTERVENTION, f"{name} was {item.get('shift')} {item.get('level')}"
        if item.get("parameters") != dict(level.parameters):
            yield Kind.INTERVENTION, f"{name} {level.name} ran with {item.get('parameters')}"
        if axis.presets and (place is None or item.get("draw") != dict(axis.presets[place])):
            yield Kind.INTERVENTION, f"{name} did not run with the preset of its configuration"
    bound = _at(record.identity, "condition", "interventions")
    keyed = [
        {k: v for k, v in item.items() if k not in _OF_THE_SHIFT}
        if isinstance(item, dict)
        else item
        for item in (bound if isinstance(bound, list) else [bound])
    ]
    if canonical(keyed) != canonical([dict(item) for item in record.interventions]):
        yield Kind.INTERVENTION, "the interventions are not those of the key"
    yield from _receipts(record)


def _receipts(record: RolloutRecord) -> Iterator[Found]:
    if bool(record.receipts) != bool(record.interventions):
        yield Kind.INTERVENTION, f"{len(record.receipts)} receipts, for what was shifted"
    if record.receipts and all(before == after for _, before, after in record.receipts):
        yield Kind.INTERVENTION, "no receipt shows a change"
    for item in record.interventions:
        parameters = item.get("parameters")
        for name, value in parameters.items() if isinstance(parameters, dict) else ():
            for field, _, after in record.receipts:
                if field.endswith(f" {item.get('shift')}.{name}") and after != value:
                    yield Kind.INTERVENTION, f"receipt {field}: {after}, asked for {value}"


def _protocol(record: RolloutRecord, suite: Suite) -> Iterator[Found]:
    """What the suite fixes for every rollout."""
    for path, wanted in (
        (("simulator", "env_seed"), suite.env_seed),
        (("settle", "steps"), suite.settle_steps),
        (("settle", "speed_m_s"), suite.settle_speed),
        (("observation", "size"), [suite.height, suite.width]),
    ):
        if _at(record.identity, *path) != wanted:
            yield Kind.CONTRACT, f"{'.'.join(path)} is not the suite's"


def against_clean(record: RolloutRecord, clean: RolloutRecord) -> Iterator[Found]:
    """What a pair must share (Table V)."""
    if record.fingerprint != clean.fingerprint:
        yield Kind.BASE_STATE, "the state before the shift differs from the clean arm's"
    fields = [field for field, _, _ in record.receipts]
    moved = any(field.startswith("robot.") for field in fields)
    if not moved and record.initial_predicates != clean.initial_predicates:
        yield Kind.BASE_STATE, "what holds after settling differs, though no robot was moved"
    if "instruction" not in fields and record.instruction != clean.instruction:
        yield Kind.INTERVENTION, "the instruction differs, and no receipt says so"
    if record.seed_note == "other":
        if record.policy_seed == clean.policy_seed:
            yield Kind.POLICY_SEED, "the null arm has the clean arm's seed"
    elif record.policy_seed != clean.policy_seed:
        yield Kind.POLICY_SEED, "the arms had different policy seeds"


Measured = tuple[Expected, RolloutRecord]


def among_levels(measured: Sequence[Measured]) -> Iterator[tuple[Expected, Found]]:
    """What all conditions of one episode share: an axis's draw and noise, and where it began.

    Args:
        measured: the shifted rollouts of one episode and replicate.
    """
    drawn: defaultdict[str, list[tuple[Expected, JSON]]] = defaultdict(list)
    fields: defaultdict[str, list[tuple[Expected, JSON]]] = defaultdict(list)
    before: defaultdict[str, list[tuple[Expected, JSON]]] = defaultdict(list)
    for expected, record in measured:
        for item in record.interventions:
            draw = [item.get("draw"), item.get("seed")]
            drawn[str(item.get("axis"))].append((expected, draw))
        if len(expected.axes) != 1:
            continue  # in a compound one axis may begin where another has left off
        names: list[JSON] = [*sorted(field for field, _, _ in record.receipts)]
        if record.interventions:
            fields[expected.axes[0]].append((expected, names))
        for field, value, _ in record.receipts:
            before[field].append((expected, value))
    for what, groups in (
        ("the draw on {} is not that of its other levels", drawn),
        ("{} changed other fields than at its other levels", fields),
        ("{} did not begin where it began under other conditions", before),
    ):
        for name, rows in groups.items():
            for expected in _odd_ones(rows):
                yield expected, (Kind.INTERVENTION, what.format(name))


VARIES = frozenset({"episode", "condition", "horizon", "policy_seed", "replicate"})
"""Fields of an identity that differ between rollouts of one run."""


def across_run(measured: Sequence[Measured]) -> Iterator[tuple[Expected, Found]]:
    """What all rollouts of one suite share: renderer, versions, policy, observation."""
    shared = [
        (expected, {k: v for k, v in record.identity.items() if k not in VARIES})
        for expected, record in measured
    ]
    counts = Counter(canonical(common) for _, common in shared)
    if len(counts) < 2:
        return
    usual = counts.most_common(1)[0][0]
    reference = next(common for _, common in shared if canonical(common) == usual)
    for expected, common in shared:
        for name in differing_fields(reference, common):
            kind = Kind.CONTRACT
            if name == "simulator.renderer":
                kind = Kind.RENDERER
            elif name.startswith(("simulator.", "policy.", "schema", "stages")):
                kind = Kind.VERSIONS
            yield expected, (kind, f"{name} differs from most other rollouts of the run")


def _odd_ones(rows: Iterable[tuple[Expected, JSON]]) -> Iterator[Expected]:
    """Those whose value is not the most common one."""
    listed = [(expected, canonical(value)) for expected, value in rows]
    usual = Counter(value for _, value in listed).most_common(1)[0][0]
    for expected, value in listed:
        if value != usual:
            yield expected


def _at(identity: Mapping[str, JSON], *path: str) -> JSON:
    value: JSON = dict(identity)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
