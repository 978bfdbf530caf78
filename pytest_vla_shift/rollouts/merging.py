"""Several runs of one plan as one: whether they are that, which rows it has, and their files.

Shards are such runs, and so are pieces of one run that was resumed elsewhere. What is merged does
not depend on the order in which they are given.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.protocol.identity import canonical, differing_fields
from pytest_vla_shift.rollouts.action_file import read_actions
from pytest_vla_shift.rollouts.manifest import PlannedNode, SessionPlan
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.rollout import actions_digest
from pytest_vla_shift.rollouts.sources import Row, RunSource

ROWS = "results-merged.jsonl"
"""The one file of rows that a merge writes; a run that goes on from there adds its own."""

SHOWN = 60
"""Characters that are shown of a value in which two runs differ."""


@dataclass(slots=True)
class Merged:
    """What several runs are together.

    Attributes:
        plan: the whole selection.
        records: key -> record.
        lines: the file of rows, each with its newline.
        holders: key -> directories that have its record, in order.
        notes: what was left out, or could not be copied; a sentence each.
    """

    plan: SessionPlan
    records: dict[str, RolloutRecord]
    lines: list[bytes]
    holders: dict[str, list[Path]]
    notes: list[str] = field(default_factory=list)


def merge_rows(sources: Sequence[RunSource]) -> Merged:
    """Every record of ``sources`` once.

    Of rows with one key and one outcome, the one whose bytes come first is kept; one in error
    stays beside one that was measured, as in a run that tried again.

    Args:
        sources: in any order; those without a plan have no rows either, and are noted.

    Raises:
        UsageError: they are not runs of one plan, or disagree on the outcome of a key.
    """
    ordered = sorted(sources, key=_order)
    planned = [source for source in ordered if source.plan is not None]
    if not planned:
        raise UsageError("none of these runs has a plan: nothing was ever run in them")
    plan = _one_plan(planned)
    rows: defaultdict[str, list[tuple[Row, Path]]] = defaultdict(list)
    for source in planned:
        for row in source.rows:
            rows[row.record.key].append((row, source.directory))
    merged = Merged(plan, {}, [], {})
    started = {k: line for source in reversed(planned) for k, line in source.started.items()}
    for key in _in_order(plan.selection, {*rows, *started}):
        found = sorted(rows.get(key, ()), key=lambda item: item[0].line)
        if key in started:
            merged.lines.append(started[key] + b"\n")
        done = [item for item in found if item[0].record.status == "done"]
        _agree([row for row, _ in done])
        errors = {row.line: row for row, _ in found if row.record.status == "error"}
        kept = [*errors.values(), *(row for row, _ in done[:1])]
        if kept:
            merged.lines += [row.line + b"\n" for row in kept]
            merged.records[key] = kept[-1].record
            merged.holders[key] = list(dict.fromkeys(path for _, path in done or found))
    for source in ordered:
        if source.plan is None:
            merged.notes.append(f"{source.directory} has neither a plan nor records.")
        merged.notes += [f"{trouble}; it is left out." for trouble in source.troubles]
    return merged


def _order(source: RunSource) -> tuple[tuple[int, int], str, str]:
    shard = source.plan.shard if source.plan is not None else None
    return shard or (0, 0), source.name, source.digest


def _in_order(nodes: Iterable[PlannedNode], keys: set[str]) -> Iterator[str]:
    """Keys as the plan asks for them, then those that it does not ask for."""
    asked = dict.fromkeys(key for n in nodes for key in (n.clean_key, n.shifted_key))
    yield from (key for key in asked if key in keys)
    yield from sorted(keys - set(asked))


def _one_plan(sources: Sequence[RunSource]) -> SessionPlan:
    """The plan of the whole selection, if all have the same one.

    Raises:
        UsageError: two have not; both are named, with the first thing in which they differ.
    """
    first = sources[0]
    for other in sources[1:]:
        difference = _difference(first, other)
        if difference is not None:
            raise UsageError(
                f"{first.directory} and {other.directory} are not parts of one run: {difference}"
            )
    assert first.plan is not None  # those without one are not asked
    return replace(first.plan, nodes=first.plan.selection, shard=None, others=())


def _difference(first: RunSource, other: RunSource) -> str | None:
    left, right = _facts(first), _facts(other)
    names = differing_fields(left, right)
    if names:
        name = names[0]
        more = f", and {len(names) - 1} more differ" if len(names) > 1 else ""
        return f"{name} is {_at(left, name)} in the first and {_at(right, name)} in the other{more}"
    mine, theirs = _nodes(first), _nodes(other)
    for nodes, others, where in ((mine, theirs, "first"), (theirs, mine, "other")):
        alone = [node for node in nodes if node not in others]
        if alone:
            more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
            return f"{alone[0]}{more} was selected in the {where} alone"
    for node, planned in mine.items():
        if planned != theirs[node]:
            names = differing_fields(asdict(planned), asdict(theirs[node]))
            return f"{node} has another {names[0]} in each"
    return None


def _facts(source: RunSource) -> dict[str, object]:
    """What must be the same in all parts of a run."""
    assert source.plan is not None
    plan = source.plan
    return {
        "pytest_vla_shift": source.package,
        "policy": plan.policy,
        "versions": plan.versions,
        "renderers": plan.renderers,
        "protocols": plan.protocols,
        "grid": plan.grid,
        "suites": plan.suites,
    }


def _nodes(source: RunSource) -> dict[str, PlannedNode]:
    assert source.plan is not None
    return {node.node: node for node in source.plan.selection}


def _at(facts: Mapping[str, object], name: str) -> str:
    """The value of a dotted name of :func:`differing_fields`; a part may itself have dots."""
    value: object = facts
    rest = name
    while rest and isinstance(value, Mapping):
        part = next((k for k in value if rest == k or rest.startswith(f"{k}.")), None)
        if part is None:
            return "not there"
        value, rest = value[part], rest[len(part) + 1 :]
    text = canonical(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _agree(rows: Sequence[Row]) -> None:
    """Refuse two outcomes of one rollout.

    Raises:
        UsageError: names both rows and what differs.
    """
    for row in rows[1:]:
        first, second = rows[0].record.outcome(), row.record.outcome()
        if first != second:
            names = ", ".join(differing_fields(first, second))
            record = row.record
            raise UsageError(
                f"{rows[0].where} and {row.where} are two different outcomes of"
                f" {record.task_suite}/{record.task} episode {record.episode} {record.condition}"
                f" under the same key {record.key}; they differ in {names}. Something outside the"
                " key decides outcomes, so neither can be trusted"
            )


def copy_files(merged: Merged, target: Path) -> None:
    """Copy what the records refer to; what no run has whole is noted.

    Args:
        merged: the records.
        target: a new run's directory, with its folders.

    Raises:
        OSError: something cannot be written.
    """
    lost: defaultdict[str, list[str]] = defaultdict(list)
    for key, record in merged.records.items():
        holders = merged.holders[key]
        if record.actions_digest is not None and not _copy_actions(record, holders, target):
            lost["actions"].append(key)
        if record.fingerprint and not _copy_fingerprint(record, holders, target):
            lost["fingerprint"].append(key)
        for name in (f"rollouts/frames/{key}", f"videos/{key}.mp4"):
            _copy_one(name, holders, target)
    for what, keys in sorted(lost.items()):
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        merged.notes.append(
            f"the {what} of rollout {keys[0]}{more} is missing or damaged in every run that has"
            " its record."
        )


def _copy_actions(record: RolloutRecord, holders: Iterable[Path], target: Path) -> bool:
    name = f"rollouts/actions/{record.key}.npz"
    for holder in holders:
        try:
            actions = read_actions(holder / name)
        except InfrastructureError:
            continue  # another run may have them whole
        if actions is not None and actions_digest(actions) == record.actions_digest:
            return _copy_one(name, [holder], target)
    return False


def _copy_fingerprint(record: RolloutRecord, holders: Iterable[Path], target: Path) -> bool:
    # It becomes a file's name, and a row may say anything.
    named = re.fullmatch(r"[0-9a-f]+", record.fingerprint) is not None
    name = f"rollouts/fingerprints/{record.fingerprint}.json"
    return named and _copy_one(name, holders, target)


def _copy_one(name: str, holders: Iterable[Path], target: Path) -> bool:
    """Copy a file or a folder of files from the first run that has it; whether one has."""
    there = target / name
    if there.exists():
        return True
    for holder in holders:
        path = holder / name
        if path.is_file():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)
            return True
        if path.is_dir():
            there.mkdir(parents=True)
            for file in sorted(path.glob("[!.]*")):
                if file.is_file():
                    shutil.copyfile(file, there / file.name)
            return True
    return False


def copy_folders(pattern: str, sources: Sequence[RunSource], target: Path) -> list[str]:
    """Copy folders of findings that belong to a run as a whole, such as its audits'.

    Returns:
        A sentence on each that two runs have and that is not the same in both.
    """
    notes: list[str] = []
    owners: dict[str, Path] = {}
    for source in sorted(sources, key=_order):
        for folder in sorted(source.directory.glob(pattern)):
            if not folder.is_dir():
                continue
            owner = owners.setdefault(folder.name, folder)
            if owner is folder:
                shutil.copytree(folder, target / folder.name)
            elif _contents(owner) != _contents(folder):
                notes.append(f"{owner} and {folder} differ; the first is kept.")
    return notes


def _contents(folder: Path) -> list[tuple[str, bytes]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in files]


def merge_record(sources: Sequence[RunSource], package: str) -> str:
    """``merge.json`` of these sources: the same for the same runs, whatever their order."""
    return json.dumps(
        {
            "kind": "merge",
            "schema": 2,
            "pytest_vla_shift": package,
            "sources": [
                {
                    "run": source.name,
                    "shard": list(source.plan.shard) if source.plan and source.plan.shard else None,
                    "rows": len(source.rows),
                    "digest": source.digest,
                }
                for source in sorted(sources, key=_order)
            ],
        },
        indent=1,
    )
