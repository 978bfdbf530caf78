"""Stage specifications: which milestones a task has and in what order they are expected.

RoboCasa-Shift III-D represents a task as ordered semantic subgoals, each with a predicate of
the simulator's state. Goals that a task does not order are kept apart as *tracks* of one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Milestone:
    """One semantic subgoal.

    Attributes:
        name: what people read, unique in its specification, for example ``grasped ketchup_1``.
        predicate: the name of the simulator predicate that latches it.
    """

    name: str
    predicate: str


Track = tuple[Milestone, ...]
Group = tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Milestones of one task.

    ``groups`` come one after the other. The tracks of one group advance independently of each
    other (the task imposes no order between them); the milestones of one track are ordered.
    """

    groups: tuple[Group, ...]

    def milestones(self) -> Iterator[Milestone]:
        """All milestones in specification order, which is the order for "first incomplete"."""
        for group in self.groups:
            for track in group:
                yield from track

    def without(self, predicates: frozenset[str]) -> StageSpec:
        """The specification without milestones whose predicate is in ``predicates``."""
        groups: list[Group] = []
        for group in self.groups:
            tracks = [tuple(m for m in track if m.predicate not in predicates) for track in group]
            kept = tuple(track for track in tracks if track)
            if kept:
                groups.append(kept)
        return StageSpec(tuple(groups))
