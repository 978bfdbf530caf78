"""One writer at a time for a run's directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.store import make_writable


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a run's directory alone; the kernel lets go of it when the process ends.

    Raises:
        UsageError: it cannot be written, another process holds it, or its file system has no locks:
            then nobody could tell that two runs write there.
    """
    make_writable(directory)
    path = directory / "run.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"{path} cannot be opened: {error.strerror}; move it away") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another run is writing to {directory}; wait for it, or choose another run"
            ) from None
        except OSError as error:
            raise UsageError(
                f"{path} cannot be locked: {error.strerror}. A run's directory must be on a file"
                " system with locks (flock): choose another one with --vla-reports=DIR, and copy"
                " the run when it is done"
            ) from error
        yield
    finally:
        os.close(handle)
