"""The pair that a test is given: both arms, the transition, and words for what happened."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla_shift.outcomes import Degraded, Unsolved
from pytest_vla_shift.protocol.conditions import NOMINAL, NULL
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord, StageResult
from pytest_vla_shift.shifts.apply import cached_shift
from pytest_vla_shift.shifts.kinds import Metric, offset_words
from pytest_vla_shift.statistics.pairs import Transition


@dataclass(slots=True)
class Pair:
    """A clean and a shifted rollout of one episode, which differ in nothing but the shift.

    Attributes:
        suite: the protocol.
        cell: which node.
        clean: the clean arm's record.
        shifted: the shifted arm's record.
        executed: rollouts run for it now; the others were in the store.
        replay: the one command that runs this cell again, alone.
        video: the side-by-side video, if one was made.
        notes: anything else to tell, for example why there is no video.
    """

    suite: Suite
    cell: Cell
    clean: RolloutRecord
    shifted: RolloutRecord
    executed: int
    replay: str
    video: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def nominal(self) -> bool:
        """Whether this is a cell of the nominal pass: both arms are the one clean rollout."""
        return self.cell.condition.name == NOMINAL.name

    @property
    def outcome(self) -> str:
        """The transition; of a nominal cell, which has nothing to compare with, ``S`` or ``F``."""
        if self.nominal:
            return "S" if self.clean.success else "F"
        return str(self.transition)

    @property
    def transition(self) -> Transition:
        """The clean arm's outcome, then the shifted arm's."""
        return Transition.of(bool(self.clean.success), bool(self.shifted.success))

    def assert_not_degraded(self) -> None:
        """Fail if the clean arm succeeded and the shifted arm did not; skip if neither did.

        F>S passes: the outcome changed, which is never called an improvement. A nominal cell passes
        if it was solved and is skipped if not.
        """
        __tracebackhide__ = True
        if self.nominal:
            if not self.clean.success:
                raise Unsolved(f"F, nominal and not solved: {self._title()}")
            return
        if self.transition is Transition.SF:
            raise Degraded(self.explain(), pytrace=False)
        if self.transition is Transition.FF:
            raise Unsolved(f"F>F, nothing to compare: {self._title()}")

    def explain(self) -> str:
        """What happened, for people: at most a dozen short lines."""
        word = {
            "S>S": "robust",
            "S>F": "degraded",
            "F>S": "recovered (not an improvement: the outcome changed)",
            "F>F": "unsolved",
            "S": "solved",
            "F": "unsolved",
        }[self.outcome]
        lines = [f"{self.outcome} {word}: {self._title()}"]
        if not self.nominal:
            lines += [f"  shift    {shift}" for shift in self._shifts()]
        lines.append(f"  clean    {arm(self.clean)}")
        if not self.nominal:
            lines.append(f"  shifted  {arm(self.shifted)}")
        if self.shifted.instruction != self.clean.instruction:
            lines.append(f"  told     {self.shifted.instruction!r}")
        if self.video is not None:
            lines.append(f"  video    {os.path.relpath(self.video)}")
        lines += [f"  note     {note}" for note in self.notes]
        lines.append(f"  replay   {self.replay}")
        return "\n".join(lines)

    def _title(self) -> str:
        e = self.cell.episode
        again = f", replicate {self.cell.replicate}" if self.cell.replicate else ""
        return f"{e.task_suite} {e.task} episode {e.index}, {self.cell.condition.name}{again}"

    def _shifts(self) -> list[str]:
        """One line an axis."""
        if self.cell.condition.name == NULL.name:
            other = self.shifted.seed_note == "other"
            return [
                "null arm: the clean condition again, "
                + ("with another policy seed" if other else "with nothing changed")
            ]
        lines = [describe(intervention) for intervention in self.shifted.interventions]
        return lines + [f"{axis}: {why}" for axis, why in self.shifted.identities.items()]


def describe(intervention: object) -> str:
    """An intervention's axis, magnitudes and draw in one line."""
    if not isinstance(intervention, dict):
        return str(intervention)
    shift = cached_shift(str(intervention["shift"]))
    if isinstance(shift, Metric):
        words = offset_words(shift, intervention["parameters"], intervention["draw"])
        return f"{intervention['axis']} {intervention['level']}, {words}"
    parts = [f"{intervention['axis']} {intervention['level']}:"]
    parts.append(_numbers(intervention["parameters"]))
    if intervention["draw"]:
        parts.append(f"(draw {_numbers(intervention['draw'])})")
    return " ".join(parts)


def _numbers(values: JSON) -> str:
    if not isinstance(values, dict):
        return str(values)
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )


def arm(record: RolloutRecord) -> str:
    """One arm's outcome and depth in one line."""
    outcome = "success at" if record.success else "failed after"
    return f"{outcome} step {record.steps}; {depth(record.stages)}" + (
        "  (milestones and success disagree)" if record.stage_disagreement else ""
    )


def depth(stages: StageResult | None) -> str:
    """``3 of 5 milestones, first incomplete: lifted bowl``."""
    if stages is None or not stages.milestones:
        return "no milestones"
    count = f"{len(stages.completed)} of {len(stages.milestones)} milestones"
    if stages.first_incomplete is None:
        return count
    return f"{count}, first incomplete: {stages.first_incomplete}"


def replay_command(
    node: str, policy: str, args: dict[str, str], extra: list[str], renderer: str | None = None
) -> str:
    """The shell line that runs one node again, recording apart from the run it comes from.

    Args:
        node: the node, its path relative to where pytest is started.
        policy, args: who is asked.
        extra: further options.
        renderer: MUJOCO_GL, if it is set: part of the key.
    """
    words = [f"MUJOCO_GL={renderer}"] if renderer else []
    words += ["pytest", node, f"--vla-policy={policy}"]
    words += [f"--vla-policy-arg={name}={value}" for name, value in args.items()]
    return shlex.join([*words, *extra, "--vla-run=replay", "--vla-fresh"])
