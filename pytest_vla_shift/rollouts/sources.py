"""A run's directory as something to read from: nothing in it is changed, not even a folder made."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import (
    SCHEMA,
    SessionPlan,
    check_manifest,
    kept_plan_path,
    read_plan,
)
from pytest_vla_shift.rollouts.record import SCHEMA as RECORD_SCHEMA
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.rows import OtherSchema, read_row


@dataclass(frozen=True, slots=True)
class Row:
    """One record as it stands in a file.

    Attributes:
        record: what it says.
        line: its bytes, without the newline.
        where: directory, file and line, for people.
    """

    record: RolloutRecord
    line: bytes
    where: str


@dataclass(slots=True)
class RunSource:
    """What a run has on disk.

    Attributes:
        directory: where.
        plan: of its latest session; None if no session got that far.
        package: the version of this package that wrote it; empty if its manifest does not say.
        rows: all records in the order of files and lines, errors included.
        started: key -> the line that says that its rollout began.
        troubles: lines that are no records, a sentence each.
        digest: of the plan and of all rows.
    """

    directory: Path
    plan: SessionPlan | None
    package: str
    rows: list[Row] = field(default_factory=list)
    started: dict[str, bytes] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    digest: str = ""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.resolve().name


@contextmanager
def at_rest(directory: Path) -> Iterator[None]:
    """Keep a run from being written meanwhile; a directory without a lock has had no writer.

    Raises:
        UsageError: it is being written.
    """
    try:
        handle = os.open(directory / "run.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{directory} is being written by a run; wait for its end") from None
        except OSError:
            pass  # a file system without locks, where nobody can tell
        yield
    finally:
        os.close(handle)


def read_source(directory: Path) -> RunSource:
    """Read the plan and every row of a run.

    Raises:
        UsageError: there is no run, or it is of another schema.
    """
    path = kept_plan_path(directory)
    # Whoever copies files only, as CI's artefacts, leaves the empty folders of an empty shard.
    if not path.is_file() and not (directory / "rollouts").is_dir():
        raise UsageError(f"{directory} is no run's directory: it has neither a plan nor rollouts")
    check_manifest(directory)
    try:
        plan = read_plan(path)
        if plan is not None:
            _ = plan.selection  # that there is one
    except UsageError:
        raise
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UsageError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    source = RunSource(directory, plan, _package(directory))
    whole = sha256(path.read_bytes() if plan is not None else b"")
    for file in sorted((directory / "rollouts").glob("results-*.jsonl")):
        try:
            data = file.read_bytes()
        except OSError as error:
            source.troubles.append(f"{file} cannot be read: {error.strerror}")
            continue
        whole.update(sha256(data).digest())
        _read(source, file, data)
    if plan is None and (source.rows or source.troubles):
        raise UsageError(
            f"{path} is not there, and without it nobody knows what its records are of. Run its"
            " command again: what is recorded is found, and the plan is written"
        )
    source.digest = whole.hexdigest()[:20]
    return source


def _read(source: RunSource, file: Path, data: bytes) -> None:
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        where = f"{file}, line {number}"
        try:
            record = read_row(line)
        except OtherSchema as other:
            raise UsageError(
                f"{where}: a rollout of schema {other.schema}; this version reads and writes"
                f" schema {RECORD_SCHEMA}"
            ) from None
        except ValueError as error:
            source.troubles.append(f"{where} is not a record ({str(error)[:200]})")
            continue
        if record is not None:
            source.rows.append(Row(record, line, where))
            continue
        key = json.loads(line).get("key")
        if isinstance(key, str):
            source.started.setdefault(key, line)
    if rest:
        where = f"{file}, line {len(lines) + 1}"
        source.troubles.append(f"{where} is not a record (cut off in the middle of the line)")


def _package(directory: Path) -> str:
    """As the manifest says. One without a word on it says nothing of the rows either."""
    try:
        raw = json.loads((directory / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        return ""
    return str(raw.get("pytest_vla_shift", ""))
