"""Records: written and read back whole, and refused when a field is missing or of another type."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import cast

import pytest

from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.rollouts.record import JSON, SCHEMA, RolloutRecord, StageResult
from tests.rollouts.toy import ToyEngine, cell_of, toy_suite


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> tuple[RolloutRecord, RolloutRecord]:
    """A shifted rollout and one in error."""
    suite = toy_suite(('"reach_right"', '"reach_right_simerror"'))
    made = ToyEngine(tmp_path_factory.mktemp("records"), suite)
    shifted = made.engine.pair(suite, cell_of(suite, "base-L2")).shifted
    assert shifted is not None
    broken = made.engine.pair(suite, cell_of(suite, "base-L2", "reach_right_simerror")).clean
    return shifted, broken


def rows(records: tuple[RolloutRecord, RolloutRecord]) -> list[dict[str, JSON]]:
    """As they are read from a file."""
    return [json.loads(json.dumps(record.to_json(), allow_nan=False)) for record in records]


def test_records_survive_their_own_json(records: tuple[RolloutRecord, RolloutRecord]) -> None:
    for record, row in zip(records, rows(records), strict=True):
        again = RolloutRecord.from_json(row)
        assert again == record
        for name in ("milestones", "completed"):
            if record.stages is not None:
                assert type(getattr(again.stages, name)) is type(getattr(record.stages, name))
        assert again.key == digest(again.identity)


def test_a_row_has_what_the_record_has_in_its_order(
    records: tuple[RolloutRecord, RolloutRecord],
) -> None:
    for record in records:
        row = record.to_json()
        assert row == {"kind": "rollout", "schema": SCHEMA, **dataclasses.asdict(record)}
        assert list(row) == [
            "kind",
            "schema",
            *(field.name for field in dataclasses.fields(record)),
        ]


def test_the_example_has_something_in_every_field(
    records: tuple[RolloutRecord, RolloutRecord],
) -> None:
    shifted, broken = records
    for field in dataclasses.fields(RolloutRecord):
        filled = getattr(broken if field.name == "error" else shifted, field.name)
        if field.name not in EMPTY:
            assert filled, field.name


EMPTY = (
    *("stage_disagreement", "initial_predicates", "success", "episode"),
    *("replicate", "identities"),
)
FIELDS = [field.name for field in dataclasses.fields(RolloutRecord)]


@pytest.mark.parametrize("name", [*FIELDS, "kind", "schema"])
def test_a_missing_field_is_refused_by_name(
    records: tuple[RolloutRecord, RolloutRecord], name: str
) -> None:
    row = rows(records)[0]
    del row[name]
    with pytest.raises(ValueError, match=name):
        RolloutRecord.from_json(row)


def test_a_field_too_many_is_refused_by_name(records: tuple[RolloutRecord, RolloutRecord]) -> None:
    with pytest.raises(ValueError, match="surprise"):
        RolloutRecord.from_json({**rows(records)[0], "surprise": 1})


WRONG: dict[str, list[JSON]] = {
    "key": [None, 3, "0" * 20],
    "identity": [None, [], "x", {}],
    "suite": [None, 3],
    "task_suite": [None, 3],
    "task": [None, ["x"]],
    "episode": [None, "0", 1.0, True, -1],
    "condition": [None, 1],
    "axis": [3, True],
    "level": [3, ["L1"]],
    "replicate": [None, -1, True, "0", 1.0],
    "status": [None, "finished", "error", True],
    "success": [None, 1, "true"],
    "steps": [None, 1.5, True, -1],
    "decisions": [None, "3", -1],
    "stages": [None, [], {}, "x"],
    "stage_disagreement": [None, 0, "false"],
    "initial_predicates": [None, {}, "x", [1]],
    "fingerprint": [None, [], {"qpos": "a"}],
    "receipts": [None, {}, ["x"], [["field", 1]], [[1, 2, 3]], [None]],
    "interventions": [None, {}, ["x"], [None]],
    "identities": [None, [], "x", {"language": 1}],
    "instruction": [None, 3, ["x"]],
    "policy_seed": [None, "7", 1.5, True],
    "seed_note": [None, 1],
    "actions_digest": [3, ["x"]],
    "error": ["simulator", ["simulator"], ["simulator", 1], ["simulator", "words"]],
    "attempts": [None, "1", True],
    "timing": [None, [], {"wall": "1"}, {"wall": True}],
    "where": [None, [], {"worker": 1}],
}


def test_every_field_is_tried() -> None:
    assert list(WRONG) == FIELDS


@pytest.mark.parametrize(
    "name, number", [(n, i) for n, values in WRONG.items() for i in range(len(values))]
)
def test_a_field_of_another_type_is_refused_by_name(
    records: tuple[RolloutRecord, RolloutRecord], name: str, number: int
) -> None:
    row = rows(records)[0]
    row[name] = WRONG[name][number]
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the name is looked for below
        RolloutRecord.from_json(row)
    # A status, a success or an identity that is readable contradicts another field.
    contradicted = {"status": "success", "identity": "key"}
    assert str(error.value).startswith((f"{name}: ", f"{contradicted.get(name, name)}: "))


STAGES: dict[str, list[JSON]] = {
    "milestones": [None, "x", [1]],
    "completed": [None, [], {"a": "1"}, {"a": True}, {"a": -1}],
    "first_incomplete": [3],
    "progress": [None, "1", True],
    "complete": [None, 1],
}


@pytest.mark.parametrize(
    "name, number", [(n, i) for n, values in STAGES.items() for i in range(len(values))]
)
def test_stages_of_another_type_are_refused_by_name(
    records: tuple[RolloutRecord, RolloutRecord], name: str, number: int
) -> None:
    row = rows(records)[0]
    stages = cast("dict[str, JSON]", row["stages"])
    row["stages"] = {**stages, name: STAGES[name][number]}
    with pytest.raises(ValueError, match=rf"^stages: {name}: "):
        RolloutRecord.from_json(row)
    del stages[name]
    row["stages"] = stages
    with pytest.raises(ValueError, match=f"^stages: fields differ.*{name}"):
        RolloutRecord.from_json(row)


def test_stage_readers_know_every_field_of_a_stage_result() -> None:
    assert list(STAGES) == [field.name for field in dataclasses.fields(StageResult)]


@pytest.mark.parametrize("name, value", [("success", True), ("error", None), ("status", "done")])
def test_an_error_has_no_outcome(
    records: tuple[RolloutRecord, RolloutRecord], name: str, value: JSON
) -> None:
    row = rows(records)[1]
    assert RolloutRecord.from_json(row).error == ("simulator", "the toy refuses on request")
    row[name] = value
    with pytest.raises(ValueError, match="with status"):
        RolloutRecord.from_json(row)


def test_an_outcome_leaves_out_when_and_where(
    records: tuple[RolloutRecord, RolloutRecord],
) -> None:
    record = records[0]
    elsewhere = dataclasses.replace(
        record, timing={"wall": 9.0}, where={"worker": "gw1"}, attempts=2
    )
    assert elsewhere.outcome() == record.outcome()
    assert dataclasses.replace(record, steps=record.steps + 1).outcome() != record.outcome()


def test_the_schema_of_the_row_is_checked_first(
    records: tuple[RolloutRecord, RolloutRecord],
) -> None:
    with pytest.raises(ValueError, match="kind 'rollout', schema 99"):
        RolloutRecord.from_json({**rows(records)[0], "schema": 99, "new": 1})
    with pytest.raises(ValueError, match="kind 'run'"):
        RolloutRecord.from_json({**rows(records)[0], "kind": "run"})


def test_no_path_is_in_what_is_compared(
    records: tuple[RolloutRecord, RolloutRecord], tmp_path: Path
) -> None:
    text = json.dumps(records[0].outcome())
    assert str(tmp_path.parent) not in text
