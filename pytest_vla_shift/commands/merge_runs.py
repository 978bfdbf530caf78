"""What ``vla-shift merge`` does: read, compare, write beside the target, give it its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from pytest_vla_shift import __version__
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import canonical, digest
from pytest_vla_shift.reporting.allure_merge import FOLDER, merge_allure
from pytest_vla_shift.reporting.allure_writer import history_id, write_broken
from pytest_vla_shift.reporting.audit_tables import integrity_lines
from pytest_vla_shift.reporting.run_report import Reported, report_run, run_facts
from pytest_vla_shift.reporting.tables import render as render_table
from pytest_vla_shift.rollouts.lock import held
from pytest_vla_shift.rollouts.manifest import (
    PlannedNode,
    SessionPlan,
    kept_plan_path,
    write_manifest,
    write_plan,
)
from pytest_vla_shift.rollouts.merging import (
    ROWS,
    Merged,
    copy_files,
    copy_folders,
    merge_record,
    merge_rows,
)
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.sources import RunSource, at_rest, read_source
from pytest_vla_shift.rollouts.store import make_writable
from pytest_vla_shift.statistics.report import RunReport

NAMED = 20
"""Missing nodes that the terminal names; all are in :data:`MISSING`."""

MISSING = "missing.txt"
RECORD = "merge.json"

LOST = "its rollouts are recorded, but none of the merged runs has its Allure result"


@dataclass(frozen=True, slots=True)
class MergeDone:
    """What a merge came to.

    Attributes:
        target: the merged run's directory.
        runs: how many runs went into it.
        rollouts: distinct rollouts with a record.
        reported: its aggregates, audit and missing nodes.
        planned: nodes of the whole selection.
        written: False if it had been written before.
    """

    target: Path
    runs: int
    rollouts: int
    reported: Reported
    planned: int
    written: bool


def merge(target: Path, runs: Sequence[Path]) -> MergeDone:
    """Merge ``runs`` into the directory ``target``.

    Raises:
        UsageError: the runs are not parts of one, one of them is being written, or ``target``
            holds something else or cannot be written.
    """
    directories = list({path.resolve(): path for path in runs}.values())
    for directory in directories:
        if directory.resolve() in (target.resolve(), *target.resolve().parents):
            raise UsageError(f"{target} is {directory} or within it; merge into another folder")
    with ExitStack() as stack:
        for directory in directories:
            stack.enter_context(at_rest(directory))
        sources = [read_source(directory) for directory in directories]
        _check_versions(sources)
        merged = merge_rows(sources)
        record = merge_record(sources, __version__)
        written = not target.exists() or (target.is_dir() and not any(target.iterdir()))
        if written:
            back, reported = _write(target.resolve(), sources, merged, record)
        else:
            stack.enter_context(at_rest(target))
            notes = _check_same(target, record)
            back = _read_back(target)
            reported = _report(None, target.resolve().name, back, notes)
    return MergeDone(
        target, len(sources), len(back.records), reported, len(back.plan.nodes), written
    )


def render(done: MergeDone) -> str:
    """What the terminal shows: the table of a run, then what is missing."""
    reported = done.reported
    lines = [render_table(reported.report)]
    if reported.integrity is not None:
        lines += integrity_lines(reported.integrity)
    lines += reported.troubles
    missing = reported.unreported
    if missing:
        lines += ["", f"MISSING: {len(missing)} of {done.planned} planned nodes have no record"]
        lines += [f"  {node.node}" for node in missing[:NAMED]]
        if len(missing) > NAMED:
            lines.append(f"  ... and {len(missing) - NAMED} more")
        lines.append(f"all of them are in {done.target / MISSING}")
    lines += ["", f"{done.rollouts} rollouts of {done.runs} runs: {done.target}"]
    if not done.written:
        lines.append("It had been written before, and is left as it is.")
    return "\n".join(lines)


def _check_versions(sources: Sequence[RunSource]) -> None:
    for source in sources:
        if source.plan is not None and source.package != __version__:
            raise UsageError(
                f"{source.directory} was made by pytest-vla-shift"
                f" {source.package or '(it does not say which)'}, and this is {__version__};"
                " merge with the version that made it"
            )


def _check_same(target: Path, record: str) -> list[str]:
    """Refuse a folder that is not exactly what this merge wrote; what the merge noted otherwise.

    What is compared is what the runs and the folder hold, not what the runs are called.

    Raises:
        UsageError: it is something else, or has been changed since.
    """
    try:
        found = json.loads((target / RECORD).read_bytes())
        files, notes = found.pop("files"), [str(note) for note in found.pop("notes")]
        same = _nameless(found) == _nameless(json.loads(record))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise UsageError(
            f"{target} is not empty, and no merge has written it; choose another folder"
        ) from None
    if not same:
        raise UsageError(f"{target} is the merge of other runs; choose another folder")
    if files != _listing(target):
        raise UsageError(
            f"{target} is the merge of these runs and has been changed since: it may have records"
            " of its own now. Choose another folder, or go on with this one"
        )
    return notes


def _nameless(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a merge without the names that its runs have, which may have been moved."""
    sources = [{**source, "run": ""} for source in record["sources"]]
    return {**record, "sources": sorted(sources, key=canonical)}


def _listing(directory: Path) -> str:
    """A digest of the names and contents of all files; the lock and the record itself aside."""
    return digest(
        sorted(
            [str(path.relative_to(directory)), _content(path)]
            for path in directory.rglob("*")
            if path.is_file() and path.name not in ("run.lock", RECORD)
        )
    )


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _Back:
    """What is in the merged run, read from its folder."""

    plan: SessionPlan
    records: Mapping[str, RolloutRecord]


def _read_back(directory: Path) -> _Back:
    source = read_source(directory)
    if source.plan is None:
        raise UsageError(f"{kept_plan_path(directory)} is not there any more")
    records: dict[str, RolloutRecord] = {}
    for row in source.rows:
        known = records.get(row.record.key)
        if known is None or known.status == "error":
            records[row.record.key] = row.record
    return _Back(source.plan, records)


def _write(
    target: Path, sources: Sequence[RunSource], merged: Merged, record: str
) -> tuple[_Back, Reported]:
    """Write the run beside ``target``; the name comes last, so that half of it never has it."""
    part = target.with_name(f".{target.name}.merging")
    try:
        with held(part):
            try:
                _empty(part)
                back, reported = _fill(part, target.name, sources, merged)
                noted = {**json.loads(record), "notes": merged.notes}
                listed = {**noted, "files": _listing(part)}
                (part / RECORD).write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
                part.rename(target)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    except OSError as error:
        raise UsageError(f"{target} cannot be written, and is not there: {error}") from error
    return back, reported


def _empty(part: Path) -> None:
    """Remove what a merge left that was killed."""
    for old in part.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        elif old.name != "run.lock":
            old.unlink()
    make_writable(part)


def _fill(
    part: Path, name: str, sources: Sequence[RunSource], merged: Merged
) -> tuple[_Back, Reported]:
    copy_files(merged, part)
    merged.notes += copy_folders("audit-*", sources, part)
    (part / "rollouts" / ROWS).write_bytes(b"".join(merged.lines))
    plan = merged.plan
    write_plan(kept_plan_path(part), plan)
    session = digest(sorted({source.digest for source in sources}))[:12]
    write_manifest(part, session, __version__, {"run": name, "merged": len(sources)}, plan)
    directories = [source.directory for source in sources if source.plan is not None]
    histories = merge_allure(directories, part / FOLDER)
    if histories:
        merged.notes += [
            f"{directory} has no folder {FOLDER}: what it reported is not in this one's."
            for directory in directories
            if not (directory / FOLDER).is_dir()
        ]
    # From here on of what is written: it is what everybody else will read.
    back = _read_back(part)
    reported = _report(part, name, back, merged.notes, allure=bool(histories))
    if not (part / "summary.json").is_file():
        raise UsageError("\n".join(reported.troubles))
    if histories:
        with reported.noting("writing the Allure results"):
            silent = _silent(back.plan, reported, histories)
            write_broken(part / FOLDER, str(plan.policy["name"]), silent, LOST)
    if reported.unreported:
        text = "".join(f"{node.node}\n" for node in reported.unreported)
        (part / MISSING).write_text(text, "utf-8")
    return back, reported


def _report(
    part: Path | None, name: str, back: _Back, notes: Sequence[str], *, allure: bool = False
) -> Reported:
    try:
        return report_run(
            part,
            part / FOLDER if part is not None and allure else None,
            back.plan,
            back.records,
            run_facts(name, back.plan, notes),
            unreported=lambda report: _missing(back.plan, report),
        )
    except ValueError as error:
        raise UsageError(f"the records contradict the plan: {error}") from error


def _missing(plan: SessionPlan, report: RunReport) -> list[PlannedNode]:
    gaps = {(cell.suite, cell.cell) for cell in report.missing}
    return [node for node in plan.nodes if (node.suite, node.cell) in gaps]


def _silent(plan: SessionPlan, reported: Reported, histories: set[str]) -> list[PlannedNode]:
    """Nodes with records and without an Allure result, as a killed process leaves them."""
    missing = {node.node for node in reported.unreported}
    return [n for n in plan.nodes if n.node not in missing and history_id(n) not in histories]
