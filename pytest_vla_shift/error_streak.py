"""When to give up: rollouts with an infrastructure error, one after the other, of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import (
    InvalidScene,
    MissingAsset,
    NotAPair,
    UnreachablePose,
)

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.record import RolloutRecord

OF_A_CELL = frozenset(
    error.kind for error in (InvalidScene, MissingAsset, NotAPair, UnreachablePose)
)
"""Kinds of errors that say something of their own cell only; they neither count nor end a row."""


class GivenUp(Exception):
    """Too many errors in a row; the message says what to do."""


class ErrorStreak:
    """Counts the rollouts of one process as they end, in that order.

    Every process counts its own: with several, a fault of one of them, as of its GPU, would be
    hidden among what the others do well.

    Args:
        most: errors in a row at which nothing more is expected; None for never.

    Attributes:
        problem: why the run should stop; None while it should not.
    """

    def __init__(self, most: int | None) -> None:
        self.problem: GivenUp | None = None
        self._most = most
        self._errors = 0

    def see(self, record: RolloutRecord) -> GivenUp | None:
        """Count a rollout that was run; why the run should stop, if it should."""
        kind, message = record.error or ("", "")
        if record.status == "done":
            self._errors = 0
        elif kind not in OF_A_CELL:
            self._errors += 1
        if self._errors == self._most and self.problem is None:
            self.problem = GivenUp(
                f"{self._most} rollouts in a row ended in an infrastructure error, the last one of"
                f" kind {kind}: {message.splitlines()[0][:200] if message else 'unknown'}. No"
                " failure was counted: mend that, or leave out the task that has it (-k), and run"
                " the same command again for the rest (--vla-max-errors sets how many, 0 for any)"
            )
        return self.problem
