"""One line that says how far a run is: rollouts done, rate, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

INTERVAL_S = 10.0


class Progress:
    """Counts rollouts as nodes are reported.

    A node stands for its own rollout, and the first node of an episode for the clean one as well,
    whether they were run or found in the store.

    Args:
        clean_keys: node id -> key of its episode's clean rollout.
        rollouts: all rollouts of the plan.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        clean_keys: Mapping[str, str],
        rollouts: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clean_keys = clean_keys
        self._rollouts = rollouts
        self._clock = clock
        self._began = self._last = clock()
        self._done = 0
        self._executed = 0
        self._episodes: set[str] = set()
        self._nodes: set[str] = set()

    def count(self, node: str, executed: int) -> str | None:
        """Count a reported node; the line to print, or None if one was printed lately."""
        clean = self._clean_keys.get(node)
        if clean is None or node in self._nodes:
            return None
        self._nodes.add(node)
        self._done += 1 + (clean not in self._episodes)
        self._episodes.add(clean)
        self._executed += executed
        now = self._clock()
        if now - self._last < INTERVAL_S and self._done < self._rollouts:
            return None
        self._last = now
        return self.line()

    def line(self) -> str:
        """``rollouts 34 of 84, 2.1 per s, 0:24 left``."""
        elapsed = max(self._clock() - self._began, 1e-9)
        found = self._done - self._executed
        text = f"rollouts {self._done} of {self._rollouts}"
        if found > 0:
            text += f" ({found} found)"
        if self._executed == 0:
            return text
        rate = self._executed / elapsed
        left = round((self._rollouts - self._done) / rate)
        speed = f"{rate:.1f} per s" if rate >= 1 else f"{1 / rate:.1f} s each"
        return f"{text}, {speed}, {left // 60}:{left % 60:02d} left"
