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
        UsageError: it cannot be written, or another process holds it.
    """
    make_writable(directory)
    handle = os.open(directory / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another run is writing to {directory}; wait for it, or choose another run"
            ) from None
        yield
    finally:
        os.close(handle)
