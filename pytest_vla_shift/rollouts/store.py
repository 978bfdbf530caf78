"""The store: one JSON line a rollout, append only, read back strictly.

Layout of a run's directory::

    run.json                          the manifest of the latest session
    rollouts/results-<worker>-<id>.jsonl   "started" and "rollout" lines of one process
    rollouts/actions/<key>.npz        executed actions, (steps, D) float64
    rollouts/frames/<key>/<camera>.jpg     first frame after settling
    rollouts/fingerprints/<digest>.json    the fields of a pre-shift state, once for each state
    rollouts/claims/<key>             lock files, empty
    rollouts/archive/<n>/             what --vla-fresh set aside, videos as well; never deleted

A line is written by one ``write`` call after everything that it refers to is on disk. Each process
writes a file of its own, so a half-written last line of a killed process damages nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.rollouts.record import JSON, SCHEMA, RolloutRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that could not be read: it is named and its rollout runs again.

    Attributes:
        file: the file's name.
        line: counted from 1.
        reason: what is wrong with it.
    """

    file: str
    line: int
    reason: str


class UnreadableActions(InfrastructureError):
    """A file of recorded actions is damaged, or holds something else than actions."""

    kind = "unreadable actions"


class Store:
    """Records of one run directory, shared by all of its processes.

    Args:
        directory: the run's directory; created if missing.
        worker: this process's name in file names, for example ``main`` or ``gw1``.
        ignore: names of files that are about to be archived, or are by now.

    Raises:
        UsageError: the directory cannot be written, or two rows of one key differ in outcome.
    """

    def __init__(self, directory: Path, worker: str, ignore: frozenset[str] = frozenset()) -> None:
        self.directory = directory
        self.root = directory / "rollouts"
        self.worker = worker
        self._ignore = ignore
        self.bad_rows: list[BadRow] = []
        # Errors of this session. Those of an earlier one are tried again, these are not: a clean
        # arm that cannot run must not be run once more for each of its conditions.
        self.fresh_errors: set[str] = set()
        self._loaded = False
        self._records: dict[str, RolloutRecord] = {}
        self._offsets: dict[Path, tuple[int, int]] = {}
        self._file: int | None = None
        make_writable(directory)
        self.refresh()
        self._loaded = True

    def refresh(self) -> None:
        """Read what any process has written since the last look."""
        for file in sorted(self.root.glob("results-*.jsonl")):
            if file.name in self._ignore:
                continue
            offset, line_number = self._offsets.get(file, (0, 0))
            with file.open("rb") as stream:
                stream.seek(offset)
                data = stream.read()
            # What comes after the last newline is being written at this moment, or was cut off when
            # its process was killed. (splitlines would also break at a carriage return.)
            for line in data.split(b"\n")[:-1]:
                offset, line_number = offset + len(line) + 1, line_number + 1
                self._take(file.name, line_number, line)
            self._offsets[file] = (offset, line_number)

    def unfinished_lines(self) -> list[BadRow]:
        """Last lines that were cut off; only meaningful while no other process writes."""
        cut: list[BadRow] = []
        for file, (offset, line_number) in sorted(self._offsets.items()):
            if file.stat().st_size > offset:
                cut.append(BadRow(file.name, line_number + 1, "cut off in the middle of the line"))
        return cut

    def _take(self, file: str, number: int, line: bytes) -> None:
        try:
            row = json.loads(line, parse_constant=_no_constant)
            if not isinstance(row, dict):
                raise ValueError("not an object")
            if row.get("kind") == "started":
                return
            record = RolloutRecord.from_json(row)
        except (ValueError, TypeError, RecursionError) as error:
            self.bad_rows.append(BadRow(file, number, str(error)))
            return
        known = self._records.get(record.key)
        if known is not None and known.status == "done":
            if record.status == "done" and known.outcome() != record.outcome():
                raise UsageError(
                    f"{self.root / file}, line {number}: a second, different outcome of"
                    f" {record.task_suite}/{record.task} episode {record.episode}"
                    f" {record.condition} under the same key {record.key}. Something outside the"
                    " key decides outcomes, so these rows cannot be trusted; --vla-fresh sets them"
                    " aside"
                )
            return
        if self._loaded and record.status == "error":
            self.fresh_errors.add(record.key)
        self._records[record.key] = record

    def get(self, key: str) -> RolloutRecord | None:
        """The record of ``key`` as last read; errors included."""
        return self._records.get(key)

    def final(self, key: str) -> RolloutRecord | None:
        """The record of ``key`` unless it must run (again)."""
        record = self._records.get(key)
        if record is None or (record.status == "error" and key not in self.fresh_errors):
            return None
        return record

    def records(self) -> Mapping[str, RolloutRecord]:
        """All records as last read."""
        return self._records

    @contextmanager
    def claim(self, key: str) -> Iterator[None]:
        """Hold ``key`` alone among all processes of this host; freed by the kernel on death."""
        path = self.root / "claims" / key
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def started(self, key: str, cell: str) -> None:
        """Note that a rollout begins: a crash then shows as started and never finished."""
        self._append({"kind": "started", "schema": SCHEMA, "key": key, "cell": cell})

    def write(
        self,
        record: RolloutRecord,
        actions: NDArray[np.float64] | None = None,
        first_frames: Mapping[str, Image] | None = None,
        fingerprint: Mapping[str, str] | None = None,
    ) -> None:
        """Write one rollout: its line last, when all that it refers to is on disk."""
        if fingerprint is not None:
            self._write_fingerprint(record.fingerprint, fingerprint)
        if actions is not None:
            self._write_actions(record.key, actions)
        if first_frames:
            from pytest_vla_shift.rollouts.frames import write_frames

            write_frames(self.root / "frames" / record.key, first_frames)
        self._append(record.to_json())
        self.refresh()

    def fingerprint(self, digest: str) -> dict[str, str] | None:
        """Field -> digest of a pre-shift state, or None if its file is gone or damaged."""
        try:
            found = json.loads((self.root / "fingerprints" / f"{digest}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            return None
        return found

    def actions(self, key: str) -> NDArray[np.float64] | None:
        """The executed actions of ``key``, (steps, D), or None if the file is gone.

        Raises:
            UnreadableActions: the file is damaged or hostile. Nothing in it is ever executed.
        """
        import numpy as np

        path = self.root / "actions" / f"{key}.npz"
        if not path.exists():
            return None
        try:
            # Not np.load: it tries other formats where a file is no archive.
            with zipfile.ZipFile(path) as archive, archive.open("actions.npy") as member:
                actions = np.lib.format.read_array(member, allow_pickle=False)
        except _DAMAGED as error:
            raise UnreadableActions(f"{path}: {type(error).__name__}: {error}") from error
        if actions.dtype != np.float64 or actions.ndim != 2:
            raise UnreadableActions(f"{path}: {actions.dtype} of shape {actions.shape}")
        return actions

    def frames(self, key: str) -> dict[str, Image]:
        """Camera -> first frame of ``key``; empty if there is none."""
        from pytest_vla_shift.rollouts.frames import read_frames

        return read_frames(self.root / "frames" / key)

    def close(self) -> None:
        """Close this process's file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write_fingerprint(self, digest: str, fields: Mapping[str, str]) -> None:
        path = self.root / "fingerprints" / f"{digest}.json"
        if self.fingerprint(digest) == fields:
            return  # as written for another condition of the episode
        part = path.with_name(f".{digest}-{uuid.uuid4().hex}.json")
        try:
            part.write_text(json.dumps(dict(fields), indent=0, sort_keys=True) + "\n", "utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)  # there only if the disk is full

    def _write_actions(self, key: str, actions: NDArray[np.float64]) -> None:
        import numpy as np

        path = self.root / "actions" / f"{key}.npz"
        part = path.with_name(f".{key}-{uuid.uuid4().hex}.npz")
        try:
            np.savez_compressed(part, actions=actions)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)  # there only if the disk is full

    def _append(self, row: Mapping[str, JSON]) -> None:
        if self._file is None:
            path = self.root / f"results-{self.worker}-{uuid.uuid4().hex[:12]}.jsonl"
            self._file = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666
            )
        line = json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            # The disk is full: close the file, so that its broken last line stays the last.
            self.close()
            raise OSError(f"only {written} of {len(line)} bytes of a record were written")


_DAMAGED = (
    OSError,  # truncated in the middle of a member, or not readable
    ValueError,  # not an array; or an array of objects, which would take a pickle
    KeyError,  # no such member
    EOFError,
    MemoryError,  # a header that claims more than there is
    OverflowError,
    NotImplementedError,  # a compression that nobody here has used
    RuntimeError,  # encrypted
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile and numpy raise on bytes that :meth:`Store.write` did not write."""


def _no_constant(text: str) -> object:
    """NaN and the infinities are not JSON, and no measured value of ours."""
    raise ValueError(f"{text} is not a value of a record")


def make_writable(directory: Path) -> None:
    """Make a run's folders.

    Raises:
        UsageError: they cannot be made or written.
    """
    root = directory / "rollouts"
    try:
        for name in ("actions", "claims", "fingerprints", "frames"):
            (root / name).mkdir(parents=True, exist_ok=True)
        probe = root / f".writable-{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"the reports folder cannot be written: {error}. Choose another one with"
            " --vla-reports=DIR"
        ) from error


def record_files(directory: Path) -> tuple[str, ...]:
    """Names of a run's files of records, sorted."""
    return tuple(sorted(path.name for path in (directory / "rollouts").glob("results-*.jsonl")))


def archive(directory: Path) -> Path | None:
    """Set every row of a run aside (``--vla-fresh``), read or not, with all that belongs to it.

    Nothing is deleted. Only while no store is open on it. Returns where the rows are, or None if
    there were none.
    """
    root = directory / "rollouts"
    files = sorted(root.glob("results-*.jsonl"))
    if not files:
        return None
    numbers = [int(old.name) for old in (root / "archive").glob("*") if old.name.isdecimal()]
    target = root / "archive" / f"{max(numbers, default=0) + 1:03d}"
    target.mkdir(parents=True)
    for file in files:
        file.rename(target / file.name)
    # The same keys will be written again: what stays here would be taken for the new rollouts'.
    for folder in (root / "actions", root / "frames", directory / "videos"):
        if folder.is_dir():
            folder.rename(target / folder.name)
    return target
