"""The few values that were used last, by key."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Remembers a few values; safe to use from several threads.

    Args:
        most: how many; the one that was remembered first makes room.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._values: dict[str, Value] = {}

    def get(self, key: str) -> Value | None:
        """The value of ``key``, if it is one of them."""
        return self._values.get(key)

    def put(self, key: str, value: Value) -> None:
        """Remember a value."""
        with self._mutex:
            self._values[key] = value
            while len(self._values) > self._most:
                del self._values[next(iter(self._values))]
