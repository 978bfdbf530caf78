"""One line that says how far a run is: rollouts done, rate, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

INTERVAL_S = 10.0


class Progress:
    """Counts rollouts as nodes are reported.

    A reported node stands for its two rollouts, whether they were run or found in the store; the
    clean one is the same for all nodes of an episode and counts once.

    Args:
        keys: node id -> keys of its clean and its shifted rollout.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        keys: Mapping[str, tuple[str, str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._rollouts = len({key for pair in keys.values() for key in pair})
        self._clock = clock
        self._began = self._last = clock()
        self._executed = 0
        self._done: set[str] = set()
        self._nodes: set[str] = set()

    def count(self, node: str, executed: int) -> str | None:
        """Count a reported node; the line to print, or None if one was printed lately."""
        keys = self._keys.get(node)
        if keys is None or node in self._nodes:
            return None
        self._nodes.add(node)
        news = set(keys) - self._done
        self._done.update(keys)
        self._executed += executed
        now = self._clock()
        finished = bool(news) and len(self._done) == self._rollouts
        if now - self._last < INTERVAL_S and not finished:
            return None
        self._last = now
        return self.line()

    def line(self) -> str:
        """``rollouts 34 of 84, 2.1 per s, 0:24 left``."""
        elapsed = max(self._clock() - self._began, 1e-9)
        found = len(self._done) - self._executed
        text = f"rollouts {len(self._done)} of {self._rollouts}"
        if found > 0:
            text += f" ({found} found)"
        if self._executed == 0:
            return text
        rate = self._executed / elapsed
        left = round((self._rollouts - len(self._done)) / rate)
        speed = f"{rate:.1f} per s" if rate >= 1 else f"{1 / rate:.1f} s each"
        return f"{text}, {speed}, {left // 60}:{left % 60:02d} left"
