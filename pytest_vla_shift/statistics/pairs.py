"""From rollout records to pairs: what happened to one episode under one condition.

A pair with an infrastructure error in either arm has no transition and leaves every rate; it is
counted. A pair whose record is not there is named as missing. Neither is ever a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pytest_vla_shift.protocol.conditions import NOMINAL
from pytest_vla_shift.protocol.errors import NotAPair
from pytest_vla_shift.rollouts.manifest import PlannedNode
from pytest_vla_shift.rollouts.record import RolloutRecord

Arm = Literal["clean", "shifted"]


class Transition(StrEnum):
    """The outcome of the clean arm, then that of the shifted arm."""

    SS = "S>S"
    SF = "S>F"
    FS = "F>S"
    FF = "F>F"

    @classmethod
    def of(cls, clean: bool, shifted: bool) -> Transition:
        """The transition of two outcomes."""
        if clean:
            return cls.SS if shifted else cls.SF
        return cls.FS if shifted else cls.FF


@dataclass(frozen=True, slots=True, order=True)
class PlannedPair:
    """One cell of the plan, and the keys of the two rollouts that answer it.

    Attributes:
        suite, task_suite, task, episode, condition: where it belongs.
        axis, level: what is shifted; None for null and nominal.
        replicate: 0, or 1 with the second policy seed.
        axes: names of the shifted axes, sorted; several in a compound.
        cell: the node's id, unique in its suite.
        clean_key, shifted_key: keys of the two records.
    """

    suite: str
    task_suite: str
    task: str
    episode: int
    condition: str
    axis: str | None
    level: str | None
    cell: str
    clean_key: str
    shifted_key: str
    replicate: int = 0
    axes: tuple[str, ...] = ()


def planned_pairs(nodes: Iterable[PlannedNode]) -> list[PlannedPair]:
    """The cells of a plan, each once: several nodes may ask for one cell."""
    return [
        PlannedPair(
            suite=node.suite,
            task_suite=node.task_suite,
            task=node.task,
            episode=node.episode,
            condition=node.condition,
            axis=node.axis,
            level=node.level,
            cell=node.cell,
            clean_key=node.clean_key,
            shifted_key=node.shifted_key,
            replicate=node.replicate,
            axes=node.axes,
        )
        for node in {(node.suite, node.cell): node for node in nodes}.values()
    ]


@dataclass(frozen=True, slots=True)
class PairRow:
    """One pair, as the statistics read it.

    Attributes:
        planned: the cell.
        clean_success, shifted_success: None where that arm has an error or was not run because
            the other arm has one.
        clean_progress, shifted_progress: 0 to 1; None without success or without milestones.
        milestones: of the shifted arm, in specification order; g1 is the first.
        first_incomplete: of the shifted arm; None if every milestone latched.
        clean_disagreement, shifted_disagreement: milestones and official success disagree.
        clean_error, shifted_error: kind of an infrastructure error.
        pair_error: why two measured arms are not a pair: kind, then the differing fields.
        identities: axis -> why its shift changed nothing in the shifted arm.
    """

    planned: PlannedPair
    clean_success: bool | None
    shifted_success: bool | None
    clean_progress: float | None = None
    shifted_progress: float | None = None
    milestones: tuple[str, ...] = ()
    first_incomplete: str | None = None
    clean_disagreement: bool = False
    shifted_disagreement: bool = False
    clean_error: str | None = None
    shifted_error: str | None = None
    pair_error: tuple[str, str] | None = None
    identities: tuple[tuple[str, str], ...] = ()

    @property
    def unshifted(self) -> bool:
        """Whether every axis of the condition was an identity: nothing was shifted at all."""
        return bool(self.identities) and len(self.identities) == len(self.planned.axes)

    @property
    def error_kinds(self) -> tuple[str, ...]:
        """Kinds of everything that went wrong, one an arm, empty for a measured pair."""
        pair = self.pair_error[0] if self.pair_error else None
        return tuple(k for k in (self.clean_error, self.shifted_error, pair) if k is not None)

    @property
    def stopped_first(self) -> bool:
        """Whether the shifted arm's first incomplete milestone is g1."""
        return bool(self.milestones) and self.first_incomplete == self.milestones[0]

    @property
    def transition(self) -> Transition | None:
        """None if the pair could not be measured."""
        if self.error_kinds or self.clean_success is None or self.shifted_success is None:
            return None
        return Transition.of(self.clean_success, self.shifted_success)


@dataclass(frozen=True, slots=True)
class MissingPair:
    """A planned pair that nobody reported, and which of its arms is absent."""

    planned: PlannedPair
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class PairTable:
    """All pairs of a plan, in sorted order: measured or with an error, and missing."""

    rows: tuple[PairRow, ...]
    missing: tuple[MissingPair, ...]


def pair_rows(cells: Iterable[PlannedPair], records: Mapping[str, RolloutRecord]) -> PairTable:
    """Join the plan with the records.

    Args:
        cells: the plan, in any order.
        records: key -> record. Records that no cell asks for are left alone.

    Raises:
        ValueError: a cell is planned twice, or a record under a cell's key belongs to another
            suite, task, episode or condition.
    """
    rows: list[PairRow] = []
    missing: list[MissingPair] = []
    seen: set[tuple[str, str]] = set()
    for cell in sorted(cells, key=_order):
        if (cell.suite, cell.cell) in seen:
            raise ValueError(f"cell {cell.cell!r} is planned twice")
        seen.add((cell.suite, cell.cell))
        clean, shifted = records.get(cell.clean_key), records.get(cell.shifted_key)
        # A nominal cell asks for the clean rollout and nothing else.
        asked = "clean" if cell.condition == NOMINAL.name else cell.condition
        for record, condition in ((clean, "clean"), (shifted, asked)):
            if record is not None:
                _check_place(cell, record, condition)
        # An arm that was not run because the other one had an error is an error, not a gap.
        failed = [r for r in (clean, shifted) if r is not None and r.status == "error"]
        if (clean is None or shifted is None) and not failed:
            arms: list[Arm] = []
            if clean is None:
                arms.append("clean")
            if shifted is None:
                arms.append("shifted")
            missing.append(MissingPair(cell, tuple(arms)))
            continue
        rows.append(_row(cell, clean, shifted))
    return PairTable(tuple(rows), tuple(missing))


def _order(cell: PlannedPair) -> tuple[str, str, str, str, int, str]:
    return (
        cell.suite,
        cell.condition,
        cell.task_suite,
        cell.task,
        cell.episode,
        cell.cell,
    )


def _check_place(cell: PlannedPair, record: RolloutRecord, condition: str) -> None:
    planned = (cell.suite, cell.task_suite, cell.task, cell.episode, condition, cell.replicate)
    found = (
        record.suite,
        record.task_suite,
        record.task,
        record.episode,
        record.condition,
        record.replicate,
    )
    if planned != found:
        raise ValueError(f"cell {cell.cell!r} asks for {planned}, its record is of {found}")


def _row(cell: PlannedPair, clean: RolloutRecord | None, shifted: RolloutRecord | None) -> PairRow:
    stages = shifted.stages if shifted is not None else None
    return PairRow(
        planned=cell,
        clean_success=clean.success if clean is not None else None,
        shifted_success=shifted.success if shifted is not None else None,
        clean_progress=_progress(clean),
        shifted_progress=_progress(shifted),
        milestones=stages.milestones if stages is not None else (),
        first_incomplete=stages.first_incomplete if stages is not None else None,
        clean_disagreement=clean is not None and clean.stage_disagreement,
        shifted_disagreement=shifted is not None and shifted.stage_disagreement,
        clean_error=_error_kind(clean),
        shifted_error=_error_kind(shifted),
        pair_error=_not_a_pair(clean, shifted),
        identities=() if shifted is None else tuple(sorted(shifted.identities.items())),
    )


def _progress(record: RolloutRecord | None) -> float | None:
    if record is None or record.stages is None or not record.stages.milestones:
        return None
    return record.stages.progress


def _error_kind(record: RolloutRecord | None) -> str | None:
    if record is None or record.status != "error":
        return None
    return record.error[0] if record.error is not None else "unknown"


def _not_a_pair(
    clean: RolloutRecord | None, shifted: RolloutRecord | None
) -> tuple[str, str] | None:
    """Two measured arms that did not start alike: seen when they were run, and again here,
    because records can come from a merged or an older store."""
    if clean is None or shifted is None or "error" in (clean.status, shifted.status):
        return None
    fields = ["fingerprint"] if clean.fingerprint != shifted.fingerprint else []
    # The null arm is given another policy seed on purpose, and says so.
    if shifted.seed_note != "other" and clean.policy_seed != shifted.policy_seed:
        fields.append("policy_seed")
    return (NotAPair.kind, ", ".join(fields)) if fields else None
