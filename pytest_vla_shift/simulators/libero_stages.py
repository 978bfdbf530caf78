"""From a BDDL goal to milestones, without a simulator: which predicates a task has, in what order.

Every goal predicate gives one track. BDDL's order of goals is not temporal (``close`` may be
listed before ``in``), so the tracks form one group and advance independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.protocol.observation import Goal
from pytest_vla_shift.protocol.stages import Milestone, StageSpec


class Kind(Enum):
    """What a predicate asks of the world; the thresholds are in :mod:`.libero_predicates`."""

    REACHED = "reached"
    GRASPED = "grasped"
    LIFTED = "lifted"
    AT_TARGET = "at target"
    GOAL = "goal"


@dataclass(frozen=True, slots=True)
class Subgoal:
    """One predicate of a task.

    Attributes:
        name: what people read and records hold, for example ``grasped ketchup_1``.
        kind: which test it is.
        goal: the number of the goal predicate that it leads to.
    """

    name: str
    kind: Kind
    goal: int


_PLACING = ("on", "in")
_ARTICULATED = ("open", "close", "turnon", "turnoff")


def subgoals(goal: Goal, instruction: str) -> tuple[Subgoal, ...]:
    """The predicates of a task, track after track, each track in its expected order.

    Placing an object (``on``, ``in``) needs it reached, grasped, lifted and brought to the target;
    where the instruction says to push it, reached and brought. A fixture is reached, then done.

    Raises:
        SimulatorError: a goal predicate that none of LIBERO's released tasks has.
    """
    pushed = instruction.lower().startswith("push")
    found: list[Subgoal] = []
    for number, predicate in enumerate(goal.predicates):
        name, *arguments = predicate
        if name in _PLACING and len(arguments) == 2:
            kinds = [Kind.REACHED, Kind.GRASPED, Kind.LIFTED, Kind.AT_TARGET]
            if pushed:
                kinds = [Kind.REACHED, Kind.AT_TARGET]
        elif name in _ARTICULATED and len(arguments) == 1:
            kinds = [Kind.REACHED]
        else:
            raise SimulatorError(f"no milestones are known for the goal {' '.join(predicate)!r}")
        found += [Subgoal(f"{kind.value} {arguments[0]}", kind, number) for kind in kinds]
        found.append(Subgoal(" ".join(predicate), Kind.GOAL, number))
    names = [subgoal.name for subgoal in found]
    if len(set(names)) != len(names):
        raise SimulatorError(f"two goals ask the same of one object: {', '.join(names)}")
    return tuple(found)


def specification(found: tuple[Subgoal, ...]) -> StageSpec:
    """One group with a track for every goal predicate."""
    tracks: dict[int, list[Milestone]] = {}
    for subgoal in found:
        tracks.setdefault(subgoal.goal, []).append(Milestone(subgoal.name, subgoal.name))
    return StageSpec((tuple(tuple(track) for track in tracks.values()),))


def instruction_of(task: str) -> str:
    """The sentence that LIBERO's benchmark gives for a task: its name without scene and dashes.

    Not the BDDL file's ``:language``, which differs ("Pick the akita black bowl ...") and which no
    published evaluation uses.
    """
    words = task.split("_")
    if task[:1].isupper():
        scene = next(i for i, word in enumerate(words) if word.startswith("SCENE"))
        words = words[scene + 1 :]
    return " ".join(words)
