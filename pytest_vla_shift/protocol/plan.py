"""The plan: which cells a suite has, how a run cuts them, and what they cost.

Sorted, so that every worker and every run collects the same nodes in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_vla_shift.protocol.conditions import (
    NOMINAL,
    SIMULTANEOUS,
    Condition,
    compound_name,
    compounds,
)
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite


@dataclass(frozen=True, slots=True)
class Cell:
    """task x episode x condition: one node.

    Attributes:
        suite: the suite's name.
        episode: the initial state of the task.
        condition: never clean; the clean rollout is shared by all cells of the episode.
        replicate: 0, or 1 for the same cell with another policy seed (``--vla-replicate``).
    """

    suite: str
    episode: Episode
    condition: Condition
    replicate: int = 0

    @property
    def id(self) -> str:
        """The node's parameter, for example ``libero_goal-put_the_bowl_on_the_plate-e07-blur-L2``.

        ``-k`` selects on its words.
        """
        again = f"-r{self.replicate}" if self.replicate else ""
        return f"{self.episode_id}-{self.condition.name}{again}"

    @property
    def episode_id(self) -> str:
        """What the ids of an episode's cells begin with: ``libero_goal-open_the_drawer-e07``."""
        e = self.episode
        return f"{e.task_suite}-{e.task}-e{e.index:02d}"


_ID = re.compile(r"(.+-e\d{2,})-(?:null|nominal|[a-z0-9_+]+-L[1-9])(?:-.*)?", re.DOTALL)
"""Greedy: a task may have any name, a condition has no ``-e00-`` in its own. What may follow is the
replicate, or a further parameter of the test."""


def episode_of(cell_id: str) -> str | None:
    """The :attr:`Cell.episode_id` of a cell's id; None if it is no cell's.

    An xdist controller has nothing but ids: this is the inverse of :attr:`Cell.id`, and the only
    place that reads one.
    """
    match = _ID.fullmatch(cell_id)
    return None if match is None else match[1]


@dataclass(frozen=True, slots=True)
class Cut:
    """How a run narrows the grid before it is made. An empty field cuts nothing.

    Attributes:
        tasks: a task is kept if one of these words is in its name or its task suite's.
        episodes: initial-state numbers.
        configurations: places of an episode among its task's episodes, from 0. They do not cut
            the nominal pass, which is over all initial states.
        axes: axis names; ``null`` names the null arm, ``simultaneous`` all axes at once.
        levels: level names. They do not cut what has none: the null arm and the nominal pass.
    """

    tasks: tuple[str, ...] = ()
    episodes: tuple[int, ...] = ()
    configurations: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def keeps_condition(self, condition: Condition) -> bool:
        """Whether a condition is left in."""
        axis = "null" if condition.axis is None else condition.axis
        if self.axes and axis not in self.axes:
            return False
        return self.keeps_level(condition)

    def keeps_level(self, condition: Condition) -> bool:
        """Whether a condition's level is left in."""
        return condition.level is None or not self.levels or condition.level in self.levels

    def keeps_task(self, task_suite: str, task: str) -> bool:
        """Whether a task is left in."""
        return not self.tasks or any(word in f"{task_suite}-{task}" for word in self.tasks)


@dataclass(frozen=True, slots=True)
class Extras:
    """What a run asks for on top of a suite's own conditions.

    Attributes:
        compounds: for each, the names of axes to be shifted at once; ``("simultaneous",)`` is all
            of the suite's. ``--vla-axis`` does not cut what was asked for by name.
        nominal: run every released initial state clean as well.
        replicate: run every compared cell again with another policy seed.
    """

    compounds: tuple[tuple[str, ...], ...] = ()
    nominal: bool = False
    replicate: bool = False

    def conditions(self, suite: Suite) -> tuple[Condition, ...]:
        """The compounds that ``suite`` does not have of itself, in sorted order.

        Raises:
            UsageError: a compound names an axis that the suite does not have, or fewer than two.
        """
        found: dict[str, Condition] = {}
        for names in self.compounds:
            wanted = suite.axis_names if names == (SIMULTANEOUS,) else names
            unknown = sorted(set(wanted) - set(suite.axis_names))
            if unknown:
                raise UsageError(
                    f"--vla-compound: suite {suite.name!r} has no axis {unknown[0]!r};"
                    f" it has {', '.join(suite.axis_names)}"
                )
            if len(set(wanted)) < 2:
                raise UsageError(
                    f"--vla-compound: {'+'.join(names)!r} is not two axes or more;"
                    " join their names with +"
                )
            made = compounds(suite.axes, wanted)
            if not made:
                name = compound_name(wanted, suite.axis_names)
                raise UsageError(f"--vla-compound: the axes of {name!r} share no level")
            found.update((condition.name, condition) for condition in made)
        own = {condition.name for condition in suite.conditions()}
        return tuple(found[name] for name in sorted(found) if name not in own)


@dataclass(slots=True)
class CutCheck:
    """Finds a cut that would silently run nothing: an unknown word, or no cell left at all."""

    cut: Cut
    extras: Extras = Extras()
    _left: bool = False
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _known: dict[str, set[str]] = field(default_factory=dict)

    def see(self, suite: Suite) -> None:
        """Note what ``suite`` offers, and whether the cut leaves any of it."""
        self._left = self._left or bool(plan(suite, self.cut, self.extras))
        names = [f"{task_suite}-{task}" for task_suite, task in suite.tasks]
        offered_axes = [c.axis for c in suite.conditions() if c.axis is not None]
        axes = [*(["null"] if suite.null else []), *dict.fromkeys(offered_axes)]
        levels = [level.name for axis in suite.axes for level in axis.levels]
        numbers = {e for found in suite.episodes.values() for e in found}
        if self.extras.nominal:
            numbers |= {e for found in suite.nominal.values() for e in found}
        episodes = [str(number) for number in sorted(numbers)]
        most = max(len(found) for found in suite.episodes.values())
        configurations = [str(number) for number in range(most)]
        for option, offered in (
            ("--vla-task", names),
            ("--vla-axis", axes),
            ("--vla-level", levels),
            ("--vla-episodes", episodes),
            ("--vla-configuration", configurations),
        ):
            self._known.setdefault(option, set()).update(offered)
        for word in self.cut.tasks:
            if any(word in name for name in names):
                self._seen.add(("--vla-task", word))
        self._seen.update(("--vla-axis", name) for name in axes)
        self._seen.update(("--vla-level", name) for name in levels)
        self._seen.update(("--vla-episodes", number) for number in episodes)
        self._seen.update(("--vla-configuration", number) for number in configurations)

    def problem(self) -> str | None:
        """One sentence on the first word that matched nothing or on an empty plan, or None."""
        if not self._known:
            return None
        for option, words in (
            ("--vla-task", self.cut.tasks),
            ("--vla-axis", self.cut.axes),
            ("--vla-level", self.cut.levels),
            ("--vla-episodes", tuple(str(e) for e in self.cut.episodes)),
            ("--vla-configuration", tuple(str(j) for j in self.cut.configurations)),
        ):
            for word in words:
                if (option, word) not in self._seen:
                    known = sorted(self._known[option], key=lambda w: (len(w), w))
                    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
                    return (
                        f"{option}: no suite of this run has {word!r};"
                        f" there are {', '.join(known[:12])}{more}"
                    )
        if not self._left:
            return (
                "--vla-task, --vla-episodes, --vla-configuration, --vla-axis and --vla-level"
                " together leave nothing of any suite of this run; loosen one of them"
            )
        return None


def plan(suite: Suite, cut: Cut = Cut(), extras: Extras = Extras()) -> list[Cell]:
    """The cells of ``suite`` under ``cut`` with ``extras``: by task, episode and condition.

    An episode's cells follow each other: nominal, the suite's conditions, compounds that were
    asked for, then the replicate's.
    """
    conditions = [c for c in suite.conditions() if cut.keeps_condition(c)]
    conditions += [c for c in extras.conditions(suite) if cut.keeps_level(c)]
    replicates = (0, 1) if extras.replicate else (0,)
    cells: list[Cell] = []
    for task_suite, task in suite.tasks:
        if not cut.keeps_task(task_suite, task):
            continue
        compared = suite.episodes[task_suite, task]
        nominal = suite.nominal[task_suite, task] if extras.nominal else ()
        for index in sorted({*compared, *nominal}):
            if cut.episodes and index not in cut.episodes:
                continue
            episode = Episode(task_suite, task, index)
            if index in nominal:
                cells.append(Cell(suite.name, episode, NOMINAL))
            place = suite.configuration(episode)
            if place is None or (cut.configurations and place not in cut.configurations):
                continue
            cells += [Cell(suite.name, episode, c, r) for r in replicates for c in conditions]
    return cells


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan costs in rollouts.

    Attributes:
        nodes: test nodes; several of them may ask for one cell.
        shifted: shifted and null rollouts, one a compared cell.
        clean: clean rollouts, one an episode (and replicate); a nominal cell asks for nothing else.
        asked: distinct cells, each of which asks for a clean rollout.
    """

    nodes: int
    shifted: int
    clean: int
    asked: int

    @property
    def rollouts(self) -> int:
        """Rollouts to execute if nothing is recorded yet."""
        return self.shifted + self.clean

    @property
    def saved(self) -> int:
        """Clean rollouts that a cell-by-cell run would have executed again."""
        return self.asked - self.clean


def cost(cells: Iterable[Cell]) -> PlanCost:
    """The cost of nodes that ask for ``cells``."""
    listed = list(cells)
    asked = {(cell.suite, cell.id): cell for cell in listed}
    shifted = [cell for cell in asked.values() if cell.condition.name != NOMINAL.name]
    clean = {(cell.suite, cell.episode, cell.replicate) for cell in listed}
    return PlanCost(len(listed), len(shifted), len(clean), len(asked))
