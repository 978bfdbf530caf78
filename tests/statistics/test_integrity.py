"""The integrity audit passes what a run really wrote, and catches every field that is not so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.plan import Cell, Extras, plan
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.statistics.integrity import IntegrityReport, audit_integrity
from pytest_vla_shift.statistics.pairs import PlannedPair
from tests.fakes.toy_policies import GlobalRandom
from tests.rollouts.toy import ToyEngine, toy_suite

Run = tuple[Suite, list[PlannedPair], dict[str, RolloutRecord]]
Change = Callable[[RolloutRecord], RolloutRecord]


def planned_pair(made: ToyEngine, cell: Cell) -> PlannedPair:
    condition, episode = cell.condition, cell.episode
    return PlannedPair(
        suite=cell.suite,
        task_suite=episode.task_suite,
        task=episode.task,
        episode=episode.index,
        condition=condition.name,
        axis=condition.axis,
        level=condition.level,
        cell=cell.id,
        clean_key=made.engine.clean_request(made.suite, cell).key,
        shifted_key=made.engine.request(made.suite, cell).key,
        replicate=cell.replicate,
        axes=condition.axes,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A seeded policy through the toy suite with a compound, the nominal pass and a replicate."""
    suite = toy_suite(("draw_seed = 0", "draw_seed = 2"))  # base-L3 breaks episode 1
    made = ToyEngine(tmp_path_factory.mktemp("run"), suite, GlobalRandom())
    cells = plan(suite, extras=Extras((("simultaneous",),), nominal=True, replicate=True))
    for cell in cells:
        made.engine.pair(suite, cell)
    records = dict(made.engine.store.records())
    return suite, [planned_pair(made, cell) for cell in cells], records


def audited(run: Run, **options: bool) -> IntegrityReport:
    suite, cells, records = run
    return audit_integrity(cells, records, {suite.name: suite}, **options)


def changed(run: Run, condition: str, change: Change, *, rekey: bool = False) -> Run:
    """The run with one record changed: of ``reach_left``, episode 1, replicate 0."""
    suite, cells, records = run
    (old,) = (
        record
        for record in records.values()
        if (record.task, record.episode, record.condition, record.replicate)
        == ("reach_left", 1, condition, 0)
    )
    new = change(old)
    if rekey:
        new = replace(new, key=digest(new.identity))
        cells = [
            replace(cell, shifted_key=new.key) if cell.shifted_key == old.key else cell
            for cell in cells
        ]
        return suite, cells, {**records, new.key: new}
    return suite, cells, {**records, old.key: new}


def kinds(report: IntegrityReport) -> set[str]:
    return {problem.kind for problem in report.problems}


def test_what_a_run_wrote_passes_whole(run: Run) -> None:
    report = audited(run)
    assert report.problems == ()
    assert report.passed
    assert [task.task for task in report.tasks] == ["reach_left", "reach_right"]
    for task in report.tasks:
        # null, base at three levels, blur and the compound at one, and clean: twice for 3 episodes.
        assert (task.conditions, task.planned_episodes, task.episodes) == (7, 3, 3)
        assert (task.expected, task.valid) == (42, 42)
        assert task.errors == {}
    assert json.loads(json.dumps(report.to_json()))["passed"] is True


def identity(path: tuple[str, ...], value: Any) -> Change:
    """Another value deep in the identity."""

    def change(record: RolloutRecord) -> RolloutRecord:
        copy = json.loads(json.dumps(record.identity))
        inner = copy
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        return replace(record, identity=copy)

    return change


def field(name: str, value: Any) -> Change:
    return lambda record: replace(record, **{name: value})


def stage(name: str, value: Any) -> Change:
    def change(record: RolloutRecord) -> RolloutRecord:
        assert record.stages is not None
        return replace(record, stages=replace(record.stages, **{name: value}))

    return change


def intervention(name: str, value: Any) -> Change:
    def change(record: RolloutRecord) -> RolloutRecord:
        (item,) = record.interventions
        return replace(record, interventions=({**item, name: value},))

    return change


def receipt(place: int, value: Any) -> Change:
    def change(record: RolloutRecord) -> RolloutRecord:
        first = list(record.receipts[0])
        first[place] = value
        return replace(record, receipts=(tuple(first), *record.receipts[1:]))  # type: ignore[arg-type]

    return change


CHANGES: dict[str, tuple[str, Change, str]] = {
    "key": ("base-L1", field("key", "0" * 20), "misplaced"),
    "identity": ("base-L1", identity(("settle", "steps"), 9), "misplaced"),
    "suite": ("base-L1", field("suite", "other"), "misplaced"),
    "task_suite": ("base-L1", field("task_suite", "other"), "misplaced"),
    "task": ("base-L1", field("task", "reach_right"), "misplaced"),
    "episode": ("base-L1", field("episode", 2), "misplaced"),
    "condition": ("base-L1", field("condition", "base-L2"), "misplaced"),
    "axis": ("base-L1", field("axis", "blur"), "misplaced"),
    "level": ("base-L1", field("level", "L2"), "misplaced"),
    "replicate": ("base-L1", field("replicate", 1), "misplaced"),
    "status": ("base-L1", field("status", "error"), "runtime failure"),
    "error": ("base-L1", field("error", ("policy", "raised")), "runtime failure"),
    "success": ("clean", field("success", False), "truncation"),
    "failure": ("base-L3", field("success", True), "stages"),
    "steps beyond the horizon": ("clean", field("steps", 61), "truncation"),
    "steps of a failure": ("base-L3", field("steps", 59), "truncation"),
    "decisions": ("base-L1", field("decisions", 1), "truncation"),
    "no stages": ("base-L1", field("stages", None), "stages"),
    "milestones": ("base-L1", stage("milestones", ("a", "b")), "stages"),
    "completed": ("base-L1", stage("completed", {}), "stages"),
    "completed late": (
        "base-L1",
        stage("completed", {"reached target_1": 999, "grasped target_1": 999, "up target_1": 999}),
        "stages",
    ),
    "first_incomplete": ("base-L1", stage("first_incomplete", "up target_1"), "stages"),
    "progress": ("base-L1", stage("progress", 0.5), "stages"),
    "complete": ("base-L1", stage("complete", False), "stages"),
    "stage_disagreement": ("base-L1", field("stage_disagreement", True), "stages"),
    "initial_predicates": (
        "blur-L1",
        field("initial_predicates", ("reached target_1",)),
        "base state",
    ),
    "fingerprint": ("base-L1", field("fingerprint", "0" * 20), "base state"),
    "no fingerprint": ("base-L1", field("fingerprint", ""), "base state"),
    "clean fingerprint": ("clean", field("fingerprint", "0" * 20), "base state"),
    "no receipts": ("base-L1", field("receipts", ()), "intervention"),
    "receipt of clean": ("clean", field("receipts", (("model.x", 0.0, 1.0),)), "intervention"),
    "receipt's field": ("base-L2", receipt(0, "model.target_pos"), "intervention"),
    "receipt's before": ("base-L2", receipt(1, [9.0, 9.0, 9.0]), "intervention"),
    "receipt's after": ("blur-L1", receipt(2, 2.0), "intervention"),
    "receipt without change": ("blur-L1", receipt(2, 0.0), "intervention"),
    "no interventions": ("base-L1", field("interventions", ()), "intervention"),
    "intervention's axis": ("base-L1", intervention("axis", "blur"), "intervention"),
    "intervention's shift": ("base-L1", intervention("shift", "gaussian_blur"), "intervention"),
    "intervention's level": ("base-L1", intervention("level", "L2"), "intervention"),
    "parameters": (
        "base-L1",
        intervention("parameters", {"sigma_xy_m": 0.2, "sigma_yaw_deg": 0.0}),
        "intervention",
    ),
    "draw": ("base-L1", intervention("draw", {"x": 0.0, "y": 1.0, "yaw": 0.0}), "intervention"),
    "noise's seed": ("base-L1", intervention("seed", 5), "intervention"),
    "identities": ("base-L1", field("identities", {"base": "nothing changes"}), "intervention"),
    "an identity too many": ("null", field("identities", {"blur": "none"}), "intervention"),
    "instruction": ("base-L1", field("instruction", "do nothing"), "intervention"),
    "policy_seed": ("base-L1", field("policy_seed", 5), "policy seed"),
    "seed_note": ("base-L1", field("seed_note", "other"), "policy seed"),
    "actions_digest": ("base-L1", field("actions_digest", None), "truncation"),
}
"""Field -> the condition whose record is changed, the change, and the kind that must be found."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_record_that_differs_in_one_field_is_caught(run: Run, name: str) -> None:
    condition, change, kind = CHANGES[name]
    report = audited(changed(run, condition, change))
    assert not report.passed
    assert kind in kinds(report), report.problems
    left, right = report.tasks
    assert not left.passed
    assert left.valid < left.expected
    assert left.episodes < left.planned_episodes
    assert right.passed or name == "task"


def test_every_field_that_decides_a_number_is_among_the_changes() -> None:
    informative = {"attempts", "timing", "where"}
    compared = set(RolloutRecord.__dataclass_fields__) - informative
    told = {name: name for name in CHANGES}
    families = {
        "steps": "steps beyond the horizon",
        "stages": "no stages",
        "receipts": "no receipts",
        "interventions": "no interventions",
    }
    assert {name for name in compared if families.get(name, name) not in told} == set()


REKEYED: dict[str, tuple[Change, str]] = {
    "renderer": (identity(("simulator", "renderer"), "osmesa"), "renderer"),
    "version": (identity(("simulator", "versions"), {"toy": "2"}), "versions"),
    "recipe": (identity(("simulator", "recipe"), 2), "versions"),
    "policy": (identity(("policy", "revision"), "2"), "versions"),
    "policy's arguments": (identity(("policy", "args"), {"a": "b"}), "versions"),
    "horizon": (identity(("horizon",), 61), "truncation"),
    "settling": (identity(("settle", "steps"), 9), "contract"),
    "speed": (identity(("settle", "speed_m_s"), 1.0), "contract"),
    "seed of the environment": (identity(("simulator", "env_seed"), 1), "contract"),
    "size": (identity(("observation", "size"), [8, 8]), "contract"),
    "cameras": (identity(("observation", "cameras"), ["front"]), "contract"),
    "success rule": (identity(("success_rule",), "by eye"), "contract"),
    "key's level": (identity(("condition", "interventions"), []), "intervention"),
    "key's seed": (identity(("policy_seed",), 5), "policy seed"),
    "key's episode": (identity(("episode",), ["toy", "reach_left", 2]), "misplaced"),
    "key's suite": (identity(("suite",), "other"), "misplaced"),
}


@pytest.mark.parametrize("name", REKEYED)
def test_an_identity_that_is_not_the_runs_is_caught_under_its_own_key(run: Run, name: str) -> None:
    change, kind = REKEYED[name]
    report = audited(changed(run, "base-L2", change, rekey=True))
    assert kind in kinds(report), report.problems
    assert {(p.task, p.episode, p.condition) for p in report.problems} == {
        ("reach_left", 1, "base-L2")
    }


def test_a_seed_that_the_key_agrees_with_must_still_be_the_clean_arms(run: Run) -> None:
    def change(record: RolloutRecord) -> RolloutRecord:
        return replace(identity(("policy_seed",), 5)(record), policy_seed=5)

    report = audited(changed(run, "base-L2", change, rekey=True))
    assert [problem.message for problem in report.problems] == [
        "the arms had different policy seeds"
    ]

    def as_clean(record: RolloutRecord) -> RolloutRecord:
        _, _, records = run
        clean = next(
            r
            for r in records.values()
            if (r.task, r.episode, r.condition, r.replicate) == ("reach_left", 1, "clean", 0)
        )
        same = identity(("policy_seed",), clean.policy_seed)(record)
        return replace(same, policy_seed=clean.policy_seed)

    report = audited(changed(run, "null", as_clean, rekey=True))
    assert [problem.message for problem in report.problems] == [
        "the null arm has the clean arm's seed"
    ]


def test_a_lost_record_is_missing_and_an_errors_partner_says_why(run: Run) -> None:
    suite, cells, records = run
    lost = next(r for r in records.values() if r.condition == "blur-L1")
    report = audited((suite, cells, {k: v for k, v in records.items() if k != lost.key}))
    (problem,) = report.problems
    assert (problem.kind, problem.message) == ("missing", "no record")
    assert (problem.task, problem.episode, problem.condition) == (
        lost.task,
        lost.episode,
        "blur-L1",
    )

    clean = next(c.clean_key for c in cells if c.shifted_key == lost.key)
    failed = replace(
        records[clean], status="error", success=None, stages=None, error=("worker lost", "gone")
    )
    without = {
        k: v
        for k, v in records.items()
        if k == clean
        or (v.task, v.episode, v.replicate) != (lost.task, lost.episode, lost.replicate)
    }
    report = audited((suite, cells, {**without, clean: failed}))
    assert kinds(report) == {"missing", "runtime failure"}
    assert {p.message for p in report.problems if p.kind == "missing"} == {
        "its clean arm has an error"
    }
    (row,) = (task for task in report.tasks if not task.passed)
    assert row.errors == {"worker lost": 1}


def test_episodes_that_differ_between_conditions_are_a_fault_of_a_whole_plan(run: Run) -> None:
    suite, cells, records = run
    gap = [c for c in cells if (c.task, c.episode, c.condition) != ("reach_left", 2, "blur-L1")]
    report = audited((suite, gap, records))
    assert kinds(report) == {"episodes"}
    assert "blur-L1 lacks episodes 2" in report.problems[0].message
    selected = audited((suite, gap, records), selection=True)
    assert selected.passed
    assert any("blur-L1 lacks episodes 2" in note for note in selected.notes)


def test_tracker_complete_failures_are_counted_and_are_no_fault(run: Run) -> None:
    def complete(record: RolloutRecord) -> RolloutRecord:
        assert record.stages is not None
        names = record.stages.milestones
        stages = replace(
            record.stages,
            completed=dict.fromkeys(names, 5),
            first_incomplete=None,
            progress=1.0,
            complete=True,
        )
        return replace(record, stages=stages, stage_disagreement=True, steps=60, success=False)

    report = audited(changed(run, "base-L3", complete))
    assert report.passed
    assert sum(task.disagreements for task in report.tasks) >= 1


def test_what_cannot_be_audited_is_refused(run: Run) -> None:
    suite, cells, records = run
    with pytest.raises(ValueError, match="the protocol of suite 'toy_suite' is needed"):
        audit_integrity(cells, records, {})
    twice = [cells[-1], replace(cells[-1], shifted_key="another")]
    with pytest.raises(ValueError, match="by two keys"):
        audit_integrity(twice, records, {suite.name: suite})
    assert not audit_integrity([], records, {}).passed


def test_presets_must_be_those_of_the_configuration(tmp_path: Path) -> None:
    presets = "".join(
        f"\n[[axes.base.presets]]\nx = {n}.0\ny = 0.0\nyaw = 0.0\n" for n in range(1, 4)
    )
    suite = toy_suite(("\n[axes.blur]", presets + "\n[axes.blur]"))
    made = ToyEngine(tmp_path, suite)
    cells = [c for c in plan(suite) if c.condition.axis == "base" and c.episode.index == 1]
    for cell in cells:
        made.engine.pair(suite, cell)
    run = (suite, [planned_pair(made, c) for c in cells], dict(made.engine.store.records()))
    assert audited(run).passed
    others = {
        key: replace(
            record,
            interventions=tuple(
                {**i, "draw": {"x": 1.0, "y": 0.0, "yaw": 0.0}} for i in record.interventions
            ),
        )
        for key, record in run[2].items()
    }
    report = audited((suite, run[1], others))
    assert any("preset" in problem.message for problem in report.problems)
