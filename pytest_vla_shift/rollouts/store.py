"""The store: one JSON line a rollout, append only, read back strictly.

Layout of a run's directory::

    run.json                          the manifest of the latest session
    rollouts/results-<worker>-<id>.jsonl   "started" and "rollout" lines of one process
    rollouts/actions/<key>.npz        executed actions, (steps, D) float64
    rollouts/frames/<key>/<camera>.jpg     first frame after settling
    rollouts/fingerprints/<digest>.json    the fields of a pre-shift state, once for each state
    rollouts/claims/<key>             lock files; those that were held once are not empty
    rollouts/archive/<n>/             what --vla-fresh set aside, videos as well; never deleted

A line is written by one ``write`` call after everything that it refers to is on disk. Each process
writes a file of its own, so a half-written last line of a killed process damages nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest as digest_of
from pytest_vla_shift.rollouts.action_file import actions_bytes, read_actions
from pytest_vla_shift.rollouts.recent import Recent
from pytest_vla_shift.rollouts.record import JSON, SCHEMA, RolloutRecord
from pytest_vla_shift.rollouts.rows import BadRow, OtherSchema, line_of, read_row
from pytest_vla_shift.rollouts.storage import refused, replace_whole, whole, write_new, writing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.rollouts.frames import Stamp


class Store:
    """Records of one run directory, shared by all of its processes.

    Args:
        directory: the run's directory; created if missing.
        worker: this process's name in file names, for example ``main`` or ``gw1``.
        ignore: names of files that are about to be archived, or are by now.

    Raises:
        UsageError: the directory cannot be written, a row is of another schema, or two rows of one
            key differ in outcome.
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
        # Of each file: bytes and lines read, and its size at that time.
        self._read: dict[Path, tuple[int, int, int]] = {}
        self._unreadable: set[Path] = set()
        # An episode's rollouts follow each other: the same state and the same clean arm.
        self._fingerprints: Recent[dict[str, str]] = Recent()
        self._frames: Recent[tuple[Stamp, dict[str, Image]]] = Recent()
        self._file: int | None = None
        self._path = self.root
        # Lanes read and write from threads of their own.
        self._mutex = threading.RLock()
        make_writable(directory)
        self.refresh()
        self._loaded = True

    def refresh(self) -> None:
        """Read what any process has written since the last look."""
        with self._mutex:
            self._refresh()

    def _refresh(self) -> None:
        for file in sorted(self.root.glob("results-*.jsonl")):
            if file.name in self._ignore or file in self._unreadable:
                continue
            try:
                self._read_on(file)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self._unreadable.add(file)
                self.bad_rows.append(BadRow(file.name, 0, reason))

    def _read_on(self, file: Path) -> None:
        """Read what was added to a file since the last look.

        Raises:
            OSError, ValueError: it cannot be read at all.
        """
        offset, line_number, size = self._read.get(file, (0, 0, -1))
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("not a file")
        if found.st_size == size:
            return
        with file.open("rb") as stream:
            stream.seek(offset)
            data = stream.read()
        size = offset + len(data)
        # What comes after the last newline is being written at this moment, or was cut off when
        # its process was killed. (splitlines would also break at a carriage return.)
        for line in data.split(b"\n")[:-1]:
            offset, line_number = offset + len(line) + 1, line_number + 1
            self._take(file.name, line_number, line)
        self._read[file] = (offset, line_number, size)

    def unfinished_lines(self) -> list[BadRow]:
        """Last lines that were cut off; only meaningful while no other process writes."""
        return [
            BadRow(file.name, lines + 1, "cut off in the middle of the line")
            for file, (offset, lines, size) in sorted(self._read.items())
            if size > offset
        ]

    def _take(self, file: str, number: int, line: bytes) -> None:
        try:
            record = read_row(line)
        except OtherSchema as other:
            raise UsageError(
                f"{self.root / file}, line {number}: a rollout of schema {other.schema}; this"
                f" version reads and writes schema {SCHEMA}, and never mixes them. Choose another"
                " run with --vla-run=NAME, or set these rows aside with --vla-fresh"
            ) from None
        except ValueError as error:
            self.bad_rows.append(BadRow(file, number, str(error)[:MOST_REASON]))
            return
        if record is not None:
            self._keep(file, number, record)

    def _keep(self, file: str, number: int, record: RolloutRecord) -> None:
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
        """Hold ``key`` alone among all processes of this host; freed by the kernel on death.

        What others have recorded of it by then has been read.
        """
        with self._claimed(key, fcntl.LOCK_EX):
            yield

    @contextmanager
    def claim_if_free(self, key: str) -> Iterator[bool]:
        """As :meth:`claim`, but True at once, or False if somebody else holds ``key``."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._claimed(key, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                claimed = False
            else:
                claimed = True
            yield claimed

    @contextmanager
    def _claimed(self, key: str, operation: int) -> Iterator[None]:
        path = self.root / "claims" / key
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(handle, operation)
            except BlockingIOError:
                raise
            except OSError as error:
                raise refused(path, error) from error
            if os.fstat(handle).st_size:
                self.refresh()
            else:
                # Nobody has held it, so nobody has recorded it since this store was opened.
                with writing(path):
                    os.write(handle, b"held\n")
            yield
        finally:
            os.close(handle)

    def started(self, key: str, cell: str) -> None:
        """Note that a rollout begins: a crash then shows as started and never finished.

        Raises:
            StorageError: it cannot be written.
        """
        with self._mutex, whole():
            self._append({"kind": "started", "schema": SCHEMA, "key": key, "cell": cell})

    def write(
        self,
        record: RolloutRecord,
        actions: NDArray[np.float64] | None = None,
        first_frames: Mapping[str, Image] | None = None,
        fingerprint: Mapping[str, str] | None = None,
    ) -> None:
        """Write one rollout: its line last, when all that it refers to is on disk.

        A signal that ends the run waits for the end of this; but an error may come of the same
        signal, which went to the simulator as well, so a row in error does not make it wait.

        Raises:
            StorageError: something of it cannot be written; then its line is not.
        """
        with whole() if record.status == "done" else nullcontext():
            if fingerprint is not None:
                self._write_fingerprint(record.fingerprint, fingerprint)
            if actions is not None:
                write_new(self._actions_path(record.key), actions_bytes(actions))
            if first_frames:
                from pytest_vla_shift.rollouts.frames import stamp, write_frames

                folder = self.root / "frames" / record.key
                with writing(folder):
                    write_frames(folder, first_frames)
                written = stamp(folder)
                if len(written) == len(first_frames):
                    self._frames.put(record.key, (written, dict(first_frames)))
            with self._mutex:
                self._append(record.to_json())
                self._keep(self._path.name, self._read[self._path][1], record)

    def fingerprint(self, digest: str) -> dict[str, str] | None:
        """Field -> digest of a pre-shift state, or None if its file is gone or damaged."""
        if not re.fullmatch(r"[0-9a-f]+", digest):
            return None  # a damaged row: it names no file of ours
        recent = self._fingerprints.get(digest)
        if recent is not None:
            return recent
        try:
            found = json.loads((self.root / "fingerprints" / f"{digest}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            return None
        if digest_of(found) != digest:
            return None
        self._fingerprints.put(digest, found)
        return found

    def actions(self, key: str) -> NDArray[np.float64] | None:
        """The executed actions of ``key``, (steps, D), or None if the file is gone.

        Raises:
            UnreadableActions: the file is damaged or hostile. Nothing in it is ever executed.
        """
        return read_actions(self._actions_path(key))

    def _actions_path(self, key: str) -> Path:
        return self.root / "actions" / f"{key}.npz"

    def frames(self, key: str) -> dict[str, Image]:
        """Camera -> first frame of ``key``; empty if there is none.

        As it was written, or, while its files are those that this process wrote, as it was drawn.
        """
        from pytest_vla_shift.rollouts.frames import read_frames, stamp

        folder = self.root / "frames" / key
        recent = self._frames.get(key)
        if recent is not None and recent[0] == stamp(folder):
            return recent[1]
        before, found = stamp(folder), read_frames(folder)
        self._frames.put(key, (before, found))
        return found

    def close(self) -> None:
        """Close this process's file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write_fingerprint(self, digest: str, fields: Mapping[str, str]) -> None:
        if self.fingerprint(digest) == fields:
            return  # as written for another condition of the episode
        text = json.dumps(dict(fields), indent=0, sort_keys=True) + "\n"
        replace_whole(self.root / "fingerprints" / f"{digest}.json", text.encode())

    def _append(self, row: Mapping[str, JSON]) -> None:
        if self._file is None:
            self._path = self.root / f"results-{self.worker}-{uuid.uuid4().hex[:12]}.jsonl"
            with writing(self._path):
                self._file = os.open(
                    self._path,
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC,
                    0o666,
                )
        line = line_of(row) + b"\n"
        with writing(self._path):
            written = os.write(self._file, line)
            if written == len(line):
                # Read by having been written: this file is nobody else's.
                offset, lines, _ = self._read.get(self._path, (0, 0, 0))
                size = offset + len(line)
                self._read[self._path] = (size, lines + 1, size)
                return
            # Whatever cut it short says so when the rest is tried. Then the file is closed, so that
            # its broken last line stays the last; a rest that fits now only lengthens it.
            file, self._file = self._file, None
            try:
                os.write(file, line[written:-1])
                raise OSError(f"only {written} of {len(line)} bytes of a record were written")
            finally:
                os.close(file)


MOST_REASON = 300
"""Characters of what is said of a bad row: it may quote the garbage that it is made of."""


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

    Raises:
        StorageError: the folder for it cannot be made.
    """
    root = directory / "rollouts"
    files = sorted(root.glob("results-*.jsonl"))
    if not files:
        return None
    numbers = [int(old.name) for old in (root / "archive").glob("*") if old.name.isdecimal()]
    target = root / "archive" / f"{max(numbers, default=0) + 1:03d}"
    with writing(target), whole():
        target.mkdir(parents=True)
        for file in files:
            file.rename(target / file.name)
        # The same keys will be written again: what stays would be taken for the new rollouts'.
        for folder in (root / "actions", root / "frames", directory / "videos"):
            if folder.is_dir():
                folder.rename(target / folder.name)
    return target
