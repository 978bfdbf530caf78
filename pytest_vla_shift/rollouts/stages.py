"""StageTracker: how deep into a task a rollout got (RoboCasa-Shift III-D)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_vla_shift.protocol.stages import StageSpec
from pytest_vla_shift.rollouts.record import StageResult

REVISION = 1
"""Part of every key: raised whenever the same predicates would give other stage results."""


class StageTracker:
    """Latches milestones in order, step by step.

    At each control step the predicate of a track's current milestone is evaluated; once true it
    is latched with that step and the track advances. Several milestones of one track may latch at
    one step, in order: a chunked rollout ends at success, so the last step must count for all
    that it completed. A later milestone never latches before an earlier one of its track, and the
    tracks of a later group wait for the earlier group.

    Args:
        spec: the task's milestones.
        initially_true: predicates already true after settling; their milestones are dropped.
    """

    def __init__(self, spec: StageSpec, initially_true: Sequence[str] = ()) -> None:
        self._spec = spec.without(frozenset(initially_true))
        self._completed: dict[str, int] = {}

    def update(self, step: int, predicates: Mapping[str, bool]) -> None:
        """Latch what is true after control step ``step`` (counted from 1)."""
        for group in self._spec.groups:
            group_complete = True
            for track in group:
                for milestone in track:
                    if milestone.name in self._completed:
                        continue
                    if not predicates[milestone.predicate]:
                        group_complete = False
                        break
                    self._completed[milestone.name] = step
            if not group_complete:
                return

    def result(self) -> StageResult:
        """The depth reached so far. A task without milestones left has progress 1."""
        names = tuple(milestone.name for milestone in self._spec.milestones())
        missing = [name for name in names if name not in self._completed]
        return StageResult(
            milestones=names,
            completed=dict(self._completed),
            first_incomplete=missing[0] if missing else None,
            progress=1.0 if not names else len(self._completed) / len(names),
            complete=not missing,
        )
