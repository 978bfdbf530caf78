"""Servers of ours, in a thread, as long as a test needs one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pytest_vla_shift.policies.serving.host import Service

S = TypeVar("S", bound="Service")

ENDS_S = 5.0


@contextmanager
def answering(service: S) -> Iterator[S]:
    """``service``, which answers; at the end it is closed, and its thread must end soon."""
    thread = threading.Thread(target=service.serve)
    thread.start()
    try:
        yield service
    finally:
        service.close()
        thread.join(ENDS_S)
        assert not thread.is_alive()
