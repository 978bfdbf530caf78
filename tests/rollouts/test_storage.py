"""Sections that a signal does not cut, and the sentence of what cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts import lock
from pytest_vla_shift.rollouts.storage import (
    StorageError,
    interrupt,
    replace_whole,
    whole,
    write_new,
    writing,
)
from pytest_vla_shift.rollouts.store import Store
from tests.rollouts.test_store import record


class Struck(BaseException):
    """What the tests' signal raises."""


@pytest.fixture
def handled() -> Iterator[int]:
    """A signal whose handler interrupts."""

    def handle(number: int, frame: FrameType | None) -> None:
        interrupt(Struck())

    before = signal.signal(signal.SIGUSR2, handle)
    yield signal.SIGUSR2
    signal.signal(signal.SIGUSR2, before)


def test_a_section_ends_before_the_signal_is_felt(handled: int) -> None:
    done = []

    def work() -> None:
        with whole():
            signal.raise_signal(handled)
            with whole():
                done.append("inner")
            done.append("outer")

    with pytest.raises(Struck):
        work()
    assert done == ["inner", "outer"]
    with pytest.raises(Struck):
        signal.raise_signal(handled)
    with whole():
        pass  # it was felt once


def test_a_section_that_fails_does_not_swallow_the_signal(handled: int) -> None:
    def work() -> None:
        with whole():
            signal.raise_signal(handled)
            raise ValueError("and this")

    with pytest.raises(Struck) as caught:
        work()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_section_of_another_thread_delays_nothing(handled: int) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with whole():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    try:
        with pytest.raises(Struck):
            signal.raise_signal(handled)
    finally:
        leave.set()
        thread.join()


def test_a_rollout_that_is_being_written_when_the_signal_comes_is_written(
    tmp_path: Path, handled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, "main")
    written = os.write

    def struck(file: int, data: bytes) -> int:
        signal.raise_signal(handled)
        return written(file, data)

    monkeypatch.setattr(os, "write", struck)
    with pytest.raises(Struck):
        store.write(record(0))
    monkeypatch.undo()
    assert store.get(record(0).key) == record(0), "this process knows it"
    assert Store(tmp_path, "later").get(record(0).key) == record(0)


def test_a_rollout_in_error_is_not_written_when_the_signal_comes(
    tmp_path: Path, handled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, "main")
    written = os.write

    def struck(file: int, data: bytes) -> int:
        signal.raise_signal(handled)
        return written(file, data)

    monkeypatch.setattr(os, "write", struck)
    with pytest.raises(Struck):
        store.write(record(0, error="simulator"))
    monkeypatch.undo()
    assert Store(tmp_path, "later").records() == {}


@pytest.mark.parametrize(
    "number, words",
    [
        (errno.ENOSPC, "No space left on device. What was recorded before is whole: make room on"),
        (errno.EDQUOT, "make room within the quota"),
        (errno.EIO, "look at the disk"),
        (errno.EROFS, "mount its file system to be written"),
        (errno.ENOLCK, "a file system with locks"),
        (errno.EBADF, "mend that"),
    ],
)
def test_a_refusal_says_what_where_and_what_to_do(number: int, words: str) -> None:
    with pytest.raises(StorageError) as caught, writing(Path("/runs/r")):
        raise OSError(number, os.strerror(number))
    assert caught.value.errno == number
    assert str(caught.value).startswith("/runs/r cannot be written: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("then run the same command again for the rest")


def test_a_refusal_is_told_by_the_innermost_who_knows_the_place() -> None:
    with (
        pytest.raises(StorageError, match=r"^/runs/r/line cannot"),
        writing(Path("/runs/r")),
        writing(Path("/runs/r/line")),
    ):
        raise OSError(errno.EIO, "x")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    replace_whole(path, b"first")
    replace_whole(path, b"second")
    assert path.read_bytes() == b"second"
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="move away what is in its place"):
        replace_whole(tmp_path / "folder", b"x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "run.json"]


def test_a_new_file_is_whole_or_not_there_and_an_old_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "actions.npz"
    path.write_bytes(b"half of wh")  # as a killed process leaves it
    write_new(path, b"first")
    assert path.read_bytes() == b"first"
    new = tmp_path / "frame.jpg"
    write_new(new, b"x" * 100_000)
    assert new.read_bytes() == b"x" * 100_000
    take = os.write
    # A disk that is full takes a part, and refuses the rest.
    taken: list[int] = []

    def full(handle: int, data: bytes) -> int:
        if taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken.append(take(handle, data[:3]))
        return taken[0]

    monkeypatch.setattr(os, "write", full)
    for write in (write_new, replace_whole):
        taken.clear()
        with pytest.raises(StorageError, match="make room on its disk"):
            write(tmp_path / "other", b"much more")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["actions.npz", "frame.jpg"]
    with pytest.raises(StorageError):
        write_new(new, b"other")
    assert new.read_bytes() == b"x" * 100_000


def to_dev_full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def to_a_terminal_that_is_gone() -> int:
    """Writing to it is an input/output error, as on a disk that fails."""
    master, terminal = os.openpty()
    os.close(master)
    return terminal


@pytest.mark.parametrize(
    "opened, words",
    [(to_dev_full, "No space left on device"), (to_a_terminal_that_is_gone, "Input/output error")],
)
def test_a_line_that_the_disk_does_not_take_is_no_record(
    tmp_path: Path,
    opened: object,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(tmp_path, "main")
    store.write(record(0))
    assert callable(opened)
    broken = opened()
    monkeypatch.setattr(store, "_file", broken)
    with pytest.raises(StorageError, match=words):
        store.write(record(1))
    os.close(broken)
    assert store.final(record(1).key) is None
    assert set(Store(tmp_path, "later").records()) == {record(0).key}


def test_a_file_system_without_locks_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    store = Store(tmp_path, "main")
    monkeypatch.setattr("fcntl.flock", none)
    with (
        pytest.raises(UsageError, match=r"No locks available.*--vla-reports=DIR"),
        lock.held(tmp_path),
    ):
        pytest.fail("held")
    with pytest.raises(StorageError, match="file system with locks"), store.claim("k"):
        pytest.fail("claimed")
