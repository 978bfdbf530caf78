"""The severity audit: are the frozen levels valid resets, before any policy is asked?

RoboCasa-Shift VI-B2: tasks x three fixed episodes x the clean and every shifted condition, each
reset, looked at and settled, and no policy. It establishes that resets and pictures are valid,
not that a task can be done under a shift.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.conditions import CLEAN, NULL, Condition
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import Cut
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.rollouts.request import RolloutRequest, request
from pytest_vla_shift.rollouts.rollout import Measured, goal_name, settle, start
from pytest_vla_shift.rollouts.severity_checks import (
    View,
    change_problems,
    growth_problems,
    picture_problems,
    pixel_change,
    promises_growth,
    reach_of,
    state_of,
    state_problems,
)
from pytest_vla_shift.shifts.apply import ActionPipeline

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.simulators.protocol import Simulator

EPISODES = 3
"""Base episodes of each task, the first of the suite's: the paper's number."""

WHOLE = Cut()
"""Cuts nothing."""


@dataclass(frozen=True, slots=True)
class SeverityRecord:
    """One reset under one condition.

    Attributes:
        task_suite, task, episode, condition, axis, level: which.
        valid: restored, shifted, at rest, goal not reached, premises as in clean.
        observation: all cameras, right size and type, not of one colour, the same when drawn again.
        fingerprint: the pre-shift state is clean's; for clean, that of a second reset.
        change: receipts and pictures show the intended change, and nothing else differs.
        problems: what is wrong, in words; empty if all of that is so.
        receipts: names of the changed fields.
        reaches: cameras whose pictures these fields may change.
        pixel_change: camera -> mean absolute difference from clean's picture after settling, 0 to
            255.
        identity: nothing was shifted, since the draw or the level changes nothing here.
    """

    task_suite: str
    task: str
    episode: int
    condition: str
    axis: str | None
    level: str | None
    valid: bool
    observation: bool
    fingerprint: bool
    change: bool
    problems: tuple[str, ...]
    receipts: tuple[str, ...]
    reaches: tuple[str, ...]
    pixel_change: Mapping[str, float]
    identity: bool = False

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.problems


Frames = Mapping[str, Mapping[str, "Image"]]
"""Condition -> camera -> picture after settling."""


@dataclass(frozen=True, slots=True)
class SeverityReport:
    """The audit of a suite.

    Attributes:
        suite, protocol: its name and digest.
        axes: axis -> whether a higher level must change pictures more.
        records: by task, episode and condition.
        across_levels: axes whose pictures do not change as they must, with task and episode, in
            words: not more at a higher level where that is promised, or not at any level.
        frames: task -> pictures of its first audited episode, for contact sheets.
    """

    suite: str
    protocol: str
    axes: Mapping[str, bool]
    records: tuple[SeverityRecord, ...]
    across_levels: tuple[str, ...]
    frames: Mapping[tuple[str, str], Frames]

    @property
    def passed(self) -> bool:
        """Whether something was audited and nothing is wrong."""
        good = all(record.passed for record in self.records)
        return bool(self.records) and good and not self.across_levels

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON, without the pictures."""
        return {
            "kind": "audit-severity",
            "schema": 1,
            "suite": self.suite,
            "protocol": self.protocol,
            "passed": self.passed,
            "promises_growth": dict(self.axes),
            "across_levels": list(self.across_levels),
            "records": [{**asdict(record), "passed": record.passed} for record in self.records],
        }


def conditions_of(suite: Suite, cut: Cut) -> list[Condition]:
    """Clean, and every shifted condition that ``cut`` leaves. The null arm shifts nothing."""
    kept = [c for c in suite.conditions() if c != NULL and cut.keeps_condition(c)]
    return [CLEAN, *kept]


def episodes_of(suite: Suite, cut: Cut, count: int) -> list[Episode]:
    """The first ``count`` episodes of every task that ``cut`` leaves, in the order of the plan."""
    found: list[Episode] = []
    for task_suite, task in suite.tasks:
        if cut.keeps_task(task_suite, task):
            numbers = suite.episodes[task_suite, task]
            kept = [
                number
                for place, number in enumerate(numbers)
                if (not cut.episodes or number in cut.episodes)
                and (not cut.configurations or place in cut.configurations)
            ]
            found += [Episode(task_suite, task, number) for number in kept[:count]]
    return found


def audit_severity(
    simulator: Simulator,
    suite: Suite,
    *,
    cut: Cut = WHOLE,
    episodes: int = EPISODES,
    progress: Callable[[SeverityRecord], None] = lambda _: None,
) -> SeverityReport:
    """Reset every audited episode under every condition, and look.

    Args:
        simulator: of the suite.
        suite: the protocol.
        cut: narrows tasks, episodes, axes and levels.
        episodes: audited episodes of each task.
        progress: called with every record.
    """
    records: list[SeverityRecord] = []
    frames: dict[tuple[str, str], dict[str, Mapping[str, Image]]] = {}
    across: list[str] = []
    # What a policy would be that looks through every camera and reads its instruction.
    spec = PolicySpec(
        "severity audit", "1", cameras=suite.cameras, action_dim=simulator.info.action_dim
    )
    for episode in episodes_of(suite, cut, episodes):
        clean: View | None = None
        here: list[SeverityRecord] = []
        shown = frames.setdefault((episode.task_suite, episode.task), {})
        first = not shown
        for condition in conditions_of(suite, cut):
            wanted = request(suite, episode, condition, simulator.info, spec, {})
            audit = _Audit(simulator, wanted)
            record = audit.record(clean)
            if condition is CLEAN:
                clean = audit.view if record.valid else None
            if first and audit.view.settled:
                shown[condition.name] = audit.view.settled
            here.append(record)
            progress(record)
        records += here
        across += _across_levels(suite, episode, here)
    return SeverityReport(
        suite=suite.name,
        protocol=suite.protocol_digest,
        axes={axis.name: promises_growth(axis) for axis in suite.axes},
        records=tuple(records),
        across_levels=tuple(across),
        frames=frames,
    )


def _across_levels(
    suite: Suite, episode: Episode, records: Sequence[SeverityRecord]
) -> Iterator[str]:
    levels: defaultdict[str, list[SeverityRecord]] = defaultdict(list)
    for record in records:  # in the order of the plan, so by level
        if record.axis is not None and record.passed and not record.identity:
            levels[record.axis].append(record)
    promising = {axis.name for axis in suite.axes if promises_growth(axis)}
    for name, found in levels.items():
        where = f"{episode.task} e{episode.index:02d} {name}"
        if name in promising:
            for problem in growth_problems([record.pixel_change for record in found]):
                yield f"{where}: {problem}"
        # One level may be too little to be seen under one draw, but not all of them.
        elif any(r.reaches for r in found) and not any(any(r.pixel_change.values()) for r in found):
            yield f"{where}: no picture changed at any level"


class _Audit:
    """One reset under one condition, checked step by step."""

    def __init__(self, simulator: Simulator, wanted: RolloutRequest) -> None:
        self.view = View()
        self._simulator = simulator
        self._wanted = wanted
        self._problems: dict[str, list[str]] = {
            "valid": [],
            "observation": [],
            "fingerprint": [],
            "change": [],
        }

    def record(self, clean: View | None) -> SeverityRecord:
        """The record; ``clean`` is None for the clean condition, or where clean was not valid."""
        wanted, view = self._wanted, self.view
        is_clean = wanted.condition is CLEAN
        try:
            self._look()
        except (InfrastructureError, UsageError) as error:
            kind = getattr(error, "kind", "usage")
            self._problems["valid"].append(f"{kind}: {error}")
        change: dict[str, float] = {}
        if clean is not None:
            self._compare(clean)
            change = pixel_change(clean.settled, view.settled, wanted.suite.cameras)
        elif not is_clean:
            self._problems["valid"].append("clean was not valid: there is nothing to compare with")
        found = self._problems
        return SeverityRecord(
            task_suite=wanted.episode.task_suite,
            task=wanted.episode.task,
            episode=wanted.episode.index,
            condition=wanted.condition.name,
            axis=wanted.condition.axis,
            level=wanted.condition.level,
            valid=not found["valid"],
            observation=not found["observation"],
            fingerprint=not found["fingerprint"],
            change=not found["change"],
            problems=tuple(f"{kind}: {text}" for kind, texts in found.items() for text in texts),
            receipts=tuple(receipt.field for receipt in view.receipts),
            reaches=tuple(sorted(reach_of(view.receipts, wanted.suite.cameras).cameras)),
            pixel_change=change,
            identity=not is_clean and not wanted.interventions,
        )

    def _look(self) -> None:
        """Reset, shift, look twice, settle, look again; a clean one is reset once more after."""
        simulator, wanted, view = self._simulator, self._wanted, self.view
        cameras = wanted.suite.cameras
        measured = Measured()
        prepared = start(simulator, wanted, measured)
        idle = np.asarray(simulator.info.settle_action)
        actions = ActionPipeline(wanted.interventions, simulator.info.layout, idle)
        view.fingerprint = measured.fingerprint
        view.receipts = [*measured.receipts, *actions.receipts()]
        view.instruction = measured.instruction
        seen = simulator.observe(cameras, privileged=True)
        view.images, view.state = dict(seen.images), state_of(seen)
        again = simulator.observe(cameras)
        size = (wanted.suite.height, wanted.suite.width)
        wrong = self._problems["observation"]
        wrong += picture_problems(view.images, again.images, cameras, size)
        wrong += state_problems(view.state)
        settle(simulator, wanted, prepared, measured)
        after = simulator.observe(cameras, privileged=True)
        view.settled, view.settled_state = dict(after.images), state_of(after)
        wrong += picture_problems(view.settled, view.settled, cameras, size)
        wrong += state_problems(view.settled_state)
        goals = {goal_name(predicate) for predicate in prepared.goal.predicates}
        view.premises = frozenset(goals & set(measured.initial_predicates))
        if wanted.condition is CLEAN:
            second = Measured()
            start(simulator, wanted, second)
            self._same_start(measured.fingerprint, second.fingerprint)

    def _compare(self, clean: View) -> None:
        view, wanted = self.view, self._wanted
        if view.fingerprint:
            self._same_start(clean.fingerprint, view.fingerprint)
        if not view.settled:
            return  # it did not get so far, which is told
        if view.premises != clean.premises:
            differing = ", ".join(sorted(view.premises ^ clean.premises))
            self._problems["valid"].append(f"after settling, {differing} differ from clean")
        if wanted.interventions:
            self._problems["change"] += change_problems(clean, view, wanted.suite.cameras)
        elif view.receipts:
            self._problems["change"].append("nothing was asked for, and there are receipts")

    def _same_start(self, one: Mapping[str, str], other: Mapping[str, str]) -> None:
        differing = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
        if differing:
            self._problems["fingerprint"].append(
                f"before the shift, {', '.join(differing[:6])} differ ({len(differing)} in all)"
            )
