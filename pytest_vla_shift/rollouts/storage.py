"""How a run writes what must last: not cut in two by a signal, or refused in one clear sentence."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class StorageError(OSError):
    """Something of a run cannot be written. The run stops; what was recorded before stays whole."""


_MENDING = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room within the quota",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the limit on open files (ulimit -n)",
    errno.EROFS: "mount its file system to be written",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EIO: "look at the disk, or at the connection to it",
    errno.ESTALE: "look at the connection to its disk",
    errno.ENOLCK: "put --vla-reports on a file system with locks",
    errno.EISDIR: "move away what is in its place",
    errno.ENOTDIR: "move away what is in its place",
    errno.ENOENT: "give the run's folder back",
}
"""What to do, by the system's own number for what went wrong."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system refuses in here is a :class:`StorageError` that says what and where.

    Args:
        path: what is being written, for people.

    Raises:
        StorageError: the body raised an OSError.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise refused(path, error) from error


def refused(path: Path, error: OSError) -> StorageError:
    """``error``, met while writing ``path``, as the sentence that a run stops with."""
    if isinstance(error, StorageError):
        return error  # it says already what and where
    what = error.strerror or str(error)
    mending = _MENDING.get(error.errno or 0, "mend that")
    found = StorageError(
        f"{path} cannot be written: {what}. What was recorded before is whole: {mending}, then run"
        " the same command again for the rest"
    )
    found.errno = error.errno
    return found


# Signals. Handlers run in the main thread only, between two of its instructions.

_depth = 0
_pending: Callable[[], None] | None = None
_mutex = threading.Lock()
_others = 0
"""Threads other than the main one that are in a section."""


@contextmanager
def whole() -> Iterator[None]:
    """A section that a signal does not cut: what its handler asks for comes at the end.

    Handlers interrupt the main thread only; of other threads it is known that they are in one, see
    :func:`settle`. Sections may be nested.
    """
    global _depth, _pending, _others
    if threading.current_thread() is not threading.main_thread():
        with _mutex:
            _others += 1
        try:
            yield
        finally:
            with _mutex:
                _others -= 1
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0 and _pending is not None:
            action, _pending = _pending, None
            action()


def when_whole(action: Callable[[], None]) -> None:
    """Call ``action``, at once or at the end of the section that is under way; the latest counts.

    Only from a signal's handler.
    """
    global _pending
    if _depth:
        _pending = action
    else:
        action()


def interrupt(error: BaseException) -> None:
    """Raise ``error``, at once or at the end of the section that is under way.

    Only from a signal's handler.
    """

    def give() -> None:
        raise error

    when_whole(give)


def settle(within_s: float) -> None:
    """Wait until no other thread is in a section, but no longer than that."""
    until = time.monotonic() + within_s
    while _others and time.monotonic() < until:
        time.sleep(0.001)


def replace_whole(path: Path, data: bytes) -> None:
    """Write a file in one step, so that nobody ever reads half of it.

    Raises:
        StorageError: it cannot be written; what was there before is still there.
    """
    part = f"{path.parent}/.{path.name}.{os.getpid()}.{threading.get_ident()}.part"
    with writing(path), whole():
        try:
            _fill(os.open(part, _NEW | os.O_TRUNC, 0o666), data)
            os.replace(part, path)  # noqa: PTH105  (a Path of its own costs as much as the call)
        except BaseException:
            _unlink(part)
            raise


def write_new(path: Path, data: bytes) -> None:
    """Write a file that nobody reads before a row that is written later names it.

    A killed process may leave half of it, in the way of nobody: whoever writes it again replaces
    it in one step, and until then no row names it. For half the cost of :func:`replace_whole`.

    Raises:
        StorageError: it cannot be written; then there is none, or what was there before.
    """
    with writing(path), whole():
        try:
            handle = os.open(path, _NEW | os.O_EXCL, 0o666)
        except FileExistsError:
            replace_whole(path, data)
            return
        try:
            _fill(handle, data)
        except BaseException:
            _unlink(path)
            raise


_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


def _fill(handle: int, data: bytes) -> None:
    """Write all of ``data`` and close; what is cut short is told by the write of the rest."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _unlink(path: str | Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
