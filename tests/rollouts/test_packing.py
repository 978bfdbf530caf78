"""What may be published of a run: its records, and nothing of the machine that it ran on."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts import packing
from pytest_vla_shift.rollouts.manifest import SessionPlan, write_manifest, write_plan
from pytest_vla_shift.rollouts.packing import check_placeless, pack_run
from pytest_vla_shift.rollouts.packs import Pack
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.rollouts.store import Store
from tests.rollouts.packed import small_pack

COMMAND = "pytest suites/demo --vla-policy=demo_policy"


def write_run(
    directory: Path,
    rows: Mapping[str, RolloutRecord] | None = None,
    plan: SessionPlan | None = None,
) -> Path:
    """A run's directory as a session leaves it."""
    found = small_pack()
    plan = plan or found.plan
    store = Store(directory, "main")
    for record in (rows or found.records).values():
        store.started(record.key, "a cell")
        store.write(record)
    store.close()
    write_plan(directory / "plan.json", plan)
    write_manifest(directory, "s", "0.0.9", {"run": "night"}, plan)
    return directory


def failed(record: RolloutRecord, message: str) -> RolloutRecord:
    return replace(record, status="error", success=None, stages=None, error=("simulator", message))


def test_outcomes_and_nothing_of_the_machine(tmp_path: Path) -> None:
    made = pack_run(write_run(tmp_path / "run"), f" {COMMAND}\n")
    found = made.pack
    assert (found.package, found.command, found.drawn_with) == ("0.0.9", COMMAND, ("a renderer",))
    assert made.notes == ()
    there = small_pack()
    assert found.plan == there.plan
    assert {k: r.outcome() for k, r in found.records.items()} == {
        k: r.outcome() for k, r in there.records.items()
    }
    for record in found.records.values():
        assert (record.timing, record.where) == ({}, {})
    # As the plan asks for them, whatever the order in which lanes and workers wrote them.
    back = pack_run(
        write_run(tmp_path / "b", dict(reversed(list(there.records.items())))), COMMAND
    ).pack
    assert back.content == found.content


def test_of_a_rollout_that_was_tried_again_the_measurement_counts(tmp_path: Path) -> None:
    rows = small_pack().records
    key = next(iter(rows))
    run = write_run(tmp_path / "run", {"first": failed(rows[key], "lost"), **rows})
    assert len(list((run / "rollouts").glob("results-*"))) == 1
    assert pack_run(run, COMMAND).pack.records[key].status == "done"


def test_what_the_plan_does_not_ask_for_is_left_out_and_told(tmp_path: Path) -> None:
    there = small_pack()
    plan = replace(there.plan, nodes=there.plan.nodes[:4])
    made = pack_run(write_run(tmp_path / "run", plan=plan), COMMAND)
    assert len(made.pack.records) == 6
    assert made.notes == ("12 recorded rollouts are outside the run's latest plan and left out.",)


def test_where_the_weights_lie_is_not_told(tmp_path: Path) -> None:
    plan = small_pack().plan
    args: dict[str, JSON] = {"weights": "/data/ann/tiny.onnx", "temperature": "0"}
    plan = replace(plan, policy={**plan.policy, "args": args})
    found = pack_run(write_run(tmp_path / "run", plan=plan), COMMAND).pack
    assert found.plan.policy["args"] == {"temperature": "0"}
    assert b"ann" not in found.content


@pytest.mark.parametrize("command", ["", "  \n"])
def test_a_run_that_nobody_can_repeat_is_not_packed(tmp_path: Path, command: str) -> None:
    with pytest.raises(UsageError, match="needs the command"):
        pack_run(write_run(tmp_path / "run"), command)


def test_a_shard_is_no_run(tmp_path: Path) -> None:
    plan = small_pack().plan
    plan = replace(
        plan, nodes=plan.nodes[:6], shard=(1, 2), others=tuple(enumerate(plan.nodes[6:], 6))
    )
    with pytest.raises(UsageError, match="is a shard"):
        pack_run(write_run(tmp_path / "run", plan=plan), COMMAND)
    with pytest.raises(UsageError, match="no run's directory"):
        pack_run(tmp_path, COMMAND)


def with_error(message: str) -> Pack:
    there = small_pack()
    key = next(iter(there.records))
    return replace(there, records={**there.records, key: failed(there.records[key], message)})


def with_policy(**changed: JSON) -> Pack:
    there = small_pack()
    return replace(there, plan=replace(there.plan, policy={**there.plan.policy, **changed}))


TOLD = [
    (replace(small_pack(), command="pytest suites --vla-reports=/data/runs"), "the command"),
    (replace(small_pack(), command="pytest ~/suites/demo"), "the command"),
    (replace(small_pack(), command="pytest --vla-policy-url=tcp://gpu3:5555"), "the command"),
    (replace(small_pack(), command=r"pytest C:\runs"), "the command"),
    (replace(small_pack(), command="pytest ../elsewhere"), "the command"),
    (replace(small_pack(), drawn_with=("llvmpipe on lab-seven",)), "what drew the pictures"),
    (with_error("cannot open '/opt/assets/mug.xml'"), "pick e00 clean, error,"),
    (with_error("lab-seven.example.org went away"), "pick e00 clean, error,"),
    (with_policy(args={"model": "/mnt/models/vla"}), "the plan's policy"),
    (with_policy(checkpoint="file://weights"), "the plan's policy"),
]


@pytest.mark.parametrize("pack,where", TOLD, ids=range(len(TOLD)))
def test_a_place_on_a_machine_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, pack: Pack, where: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "lab-seven.example.org")
    with pytest.raises(UsageError, match=f"{where} names a place on a machine"):
        check_placeless(pack)


def test_the_name_of_its_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = replace(small_pack(), command="pytest --vla-run=from-annabel")
    monkeypatch.setattr(packing, "_user", lambda: "annabel")
    with pytest.raises(UsageError, match="annabel"):
        check_placeless(pack)
    monkeypatch.setattr(packing, "_user", lambda: "root")
    check_placeless(pack)
    check_placeless(replace(pack, command="pytest --vla-run=root"))


def test_what_only_looks_like_a_place_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "pick")  # a word of every task
    harmless = with_error("60 m/s and/or 3/4 of libero_object/pick; see https://example.org/a/b")
    plan = replace(harmless.plan, suites={"demo": '# km/h / 2, "a/b/c"\ntitle = "pick"'})
    check_placeless(replace(harmless, plan=plan, records=small_pack().records))
    monkeypatch.setattr(socket, "gethostname", lambda: "lab-seven")
    check_placeless(replace(harmless, plan=plan))


def test_the_plan_is_json_that_can_be_read_back() -> None:
    head = small_pack().content.partition(b"\n")[0]
    assert json.loads(head)["kind"] == "plan"
