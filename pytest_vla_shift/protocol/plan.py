"""The plan: which cells a suite has, how a run cuts them, and what they cost.

Sorted, so that every worker and every run collects the same nodes in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_vla_shift.protocol.conditions import Condition
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.suite import Suite


@dataclass(frozen=True, slots=True)
class Cell:
    """task x episode x condition: one node.

    Attributes:
        suite: the suite's name.
        episode: the initial state of the task.
        condition: never clean; the clean rollout is shared by all cells of the episode.
    """

    suite: str
    episode: Episode
    condition: Condition

    @property
    def id(self) -> str:
        """The node's parameter, for example ``libero_goal-put_the_bowl_on_the_plate-e07-blur-L2``.

        ``-k`` selects on its words.
        """
        e = self.episode
        return f"{e.task_suite}-{e.task}-e{e.index:02d}-{self.condition.name}"


@dataclass(frozen=True, slots=True)
class Cut:
    """How a run narrows the grid before it is made. An empty field cuts nothing.

    Attributes:
        tasks: a task is kept if one of these words is in its name or its task suite's.
        episodes: initial-state numbers.
        axes: axis names; ``null`` names the null arm.
        levels: level names. They do not cut the null arm, which has none.
    """

    tasks: tuple[str, ...] = ()
    episodes: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def keeps_condition(self, condition: Condition) -> bool:
        """Whether a condition is left in."""
        axis = "null" if condition.axis is None else condition.axis.name
        if self.axes and axis not in self.axes:
            return False
        return condition.level is None or not self.levels or condition.level.name in self.levels

    def keeps_task(self, task_suite: str, task: str) -> bool:
        """Whether a task is left in."""
        return not self.tasks or any(word in f"{task_suite}-{task}" for word in self.tasks)


@dataclass(slots=True)
class CutCheck:
    """Finds a cut that would silently run nothing: an unknown word, or no cell left at all."""

    cut: Cut
    _left: bool = False
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _known: dict[str, set[str]] = field(default_factory=dict)

    def see(self, suite: Suite) -> None:
        """Note what ``suite`` offers, and whether the cut leaves any of it."""
        self._left = self._left or bool(plan(suite, self.cut))
        names = [f"{task_suite}-{task}" for task_suite, task in suite.tasks]
        axes = [*(["null"] if suite.null else []), *(axis.name for axis in suite.axes)]
        levels = [level.name for axis in suite.axes for level in axis.levels]
        episodes = sorted({str(e) for found in suite.episodes.values() for e in found}, key=int)
        for option, offered in (
            ("--vla-task", names),
            ("--vla-axis", axes),
            ("--vla-level", levels),
            ("--vla-episodes", episodes),
        ):
            self._known.setdefault(option, set()).update(offered)
        for word in self.cut.tasks:
            if any(word in name for name in names):
                self._seen.add(("--vla-task", word))
        self._seen.update(("--vla-axis", name) for name in axes)
        self._seen.update(("--vla-level", name) for name in levels)
        self._seen.update(("--vla-episodes", number) for number in episodes)

    def problem(self) -> str | None:
        """One sentence on the first word that matched nothing or on an empty plan, or None."""
        if not self._known:
            return None
        for option, words in (
            ("--vla-task", self.cut.tasks),
            ("--vla-axis", self.cut.axes),
            ("--vla-level", self.cut.levels),
            ("--vla-episodes", tuple(str(e) for e in self.cut.episodes)),
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
                "--vla-task, --vla-episodes, --vla-axis and --vla-level together leave nothing of"
                " any suite of this run; loosen one of them"
            )
        return None


def plan(suite: Suite, cut: Cut = Cut()) -> list[Cell]:
    """The cells of ``suite`` under ``cut``: by task, episode and condition, in that order."""
    conditions = [c for c in suite.conditions() if cut.keeps_condition(c)]
    episodes = [
        episode
        for episode in suite.all_episodes()
        if cut.keeps_task(episode.task_suite, episode.task)
        and (not cut.episodes or episode.index in cut.episodes)
    ]
    return [Cell(suite.name, e, c) for e in episodes for c in conditions]


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan costs in rollouts.

    Attributes:
        nodes: test nodes; several of them may ask for one cell.
        shifted: shifted and null rollouts, one a cell.
        clean: clean rollouts, one an episode.
    """

    nodes: int
    shifted: int
    clean: int

    @property
    def rollouts(self) -> int:
        """Rollouts to execute if nothing is recorded yet."""
        return self.shifted + self.clean

    @property
    def saved(self) -> int:
        """Clean rollouts that a cell-by-cell run would have executed again."""
        return self.shifted - self.clean


def cost(cells: Iterable[Cell]) -> PlanCost:
    """The cost of nodes that ask for ``cells``."""
    listed = list(cells)
    shifted = {(cell.suite, cell.id) for cell in listed}
    return PlanCost(len(listed), len(shifted), len({(c.suite, c.episode) for c in listed}))
