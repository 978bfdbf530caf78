"""What the rows of a long table say together: whole grids, or a refusal that names the cell.

A cell that is not there would silently change every rate that it belongs to, so a grid with a gap
is refused. A rollout that could not be measured has a row, with its error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, SIMULTANEOUS
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.statistics.bootstrap import TaskName
from pytest_vla_shift.statistics.table import UNSHIFTED, LongRow

NAMED = 3
"""How many missing cells are named before the rest is counted."""

Place = tuple[str, str, int]
"""Suite, task and episode."""

Name = tuple[str, str | None]
"""Axis and level of a condition."""


@dataclass(frozen=True, slots=True)
class Block:
    """One policy on one suite, or on several with the same conditions, with one policy seed.

    Attributes:
        policy: empty if the table does not say.
        suites: their names.
        replicate: 0, or 1 ... with another policy seed.
        conditions: condition -> place -> row; every condition over the same places.
        clean: place -> clean row, or a nominal one where the table has no clean rows; empty in
            a replicate without a clean arm.
        clean_is_nominal: whether ``clean`` comes from nominal rows.
        nominal: place -> row of the nominal pass, which are the nominal rows and the clean ones: a
            nominal cell is the clean rollout itself. Empty without nominal rows.
    """

    policy: str
    suites: tuple[str, ...]
    replicate: int
    conditions: Mapping[Name, Mapping[Place, LongRow]]
    clean: Mapping[Place, LongRow]
    clean_is_nominal: bool
    nominal: Mapping[Place, LongRow]

    @property
    def places(self) -> tuple[Place, ...]:
        """Episodes under shifted conditions; all there are where nothing is shifted."""
        unshifted = self.clean or self.nominal
        return tuple(sorted(next(iter(self.conditions.values()), unshifted)))

    @property
    def tasks(self) -> tuple[TaskName, ...]:
        """Suite and task, sorted."""
        return tuple(sorted({place[:2] for place in self.places}))

    @property
    def axes(self) -> tuple[str, ...]:
        """Axes that are shifted alone, sorted."""
        return tuple(sorted({axis for axis, level in self.conditions if level and single(axis)}))


def single(axis: str) -> bool:
    """Whether a shifted condition's axis is one axis, and no compound."""
    return axis != SIMULTANEOUS and "+" not in axis


def blocks(rows: Sequence[LongRow], source: str) -> tuple[Block, ...]:
    """The grids of a table: every policy, suite and replicate, checked.

    Where a policy has several suites with the same conditions, a block of all of them comes
    before those of each: LIBERO-CTRL's tasks are spread over four suites, and are read as one.

    Args:
        rows: at least one.
        source: the table's name, for messages.

    Raises:
        UsageError: a cell is there twice or is missing, a shifted row has no clean one, clean and
            nominal rows contradict each other, a replicate is over other cells, or only some of
            the rows name a policy.
    """
    _check_policies(rows, source)
    groups: defaultdict[tuple[str, str, int], list[LongRow]] = defaultdict(list)
    for row in rows:
        groups[row.policy, row.suite, row.replicate].append(row)
    found = {key: _block(key, group, source) for key, group in sorted(groups.items())}
    for (policy, suite, replicate), block in found.items():
        if replicate:
            first = found.get((policy, suite, 0))
            if first is None:
                raise UsageError(
                    f"{source}: replicate {replicate} of {suite}, and no replicate 0 before it"
                )
            _check_replicate(block, first, source)
    out: list[Block] = []
    for policy in sorted({key[0] for key in found}):
        for replicate in sorted({key[2] for key in found if key[0] == policy}):
            own = [b for key, b in found.items() if (key[0], key[2]) == (policy, replicate)]
            whole = _together(own)
            out += [whole, *own] if whole is not None else own
    return tuple(out)


def _check_policies(rows: Sequence[LongRow], source: str) -> None:
    """A row without a policy beside rows with one is of nobody knows whom."""
    named = next((row for row in rows if row.policy), None)
    nameless = next((row for row in rows if not row.policy), None)
    if named is not None and nameless is not None:
        raise UsageError(
            f"{source}, line {nameless.line}: no policy, but line {named.line} is of"
            f" {named.policy!r}: {nameless.cell}"
        )


def _block(key: tuple[str, str, int], rows: Sequence[LongRow], source: str) -> Block:
    conditions: defaultdict[Name, dict[Place, LongRow]] = defaultdict(dict)
    for row in rows:
        cells = conditions[row.axis, row.level]
        place = (row.suite, row.task, row.episode)
        if place in cells:
            raise UsageError(
                f"{source}, lines {cells[place].line} and {row.line}: the same cell twice:"
                f" {row.cell}"
            )
        cells[place] = row
    asked = conditions.pop((NOMINAL.name, None), {})
    clean = conditions.get((CLEAN.name, None), {})
    _check_whole(conditions, source)
    _check_nominal(clean, asked, source)
    nominal = {**clean, **asked} if asked else {}
    conditions.pop((CLEAN.name, None), None)
    from_nominal = not clean and bool(nominal)
    if conditions:
        shifted = next(iter(sorted(conditions.items(), key=lambda item: str(item[0]))))[1]
        if from_nominal:
            clean = {place: nominal[place] for place in shifted if place in nominal}
        lacking = sorted(place for place in shifted if place not in clean)
        if lacking and (clean or key[2] == 0):
            row = shifted[lacking[0]]
            raise UsageError(
                f"{source}, line {row.line}: a shifted row without a clean one: {row.cell}"
            )
    elif from_nominal:
        clean = {}
    policy, suite, replicate = key
    return Block(policy, (suite,), replicate, dict(conditions), clean, from_nominal, nominal)


def _check_whole(conditions: Mapping[Name, Mapping[Place, LongRow]], source: str) -> None:
    """Every condition over the same places."""
    everywhere = {place: row for cells in conditions.values() for place, row in cells.items()}
    gaps = [
        (name, place)
        for name, cells in sorted(conditions.items(), key=lambda item: _order(item[0]))
        if len(cells) < len(everywhere)
        for place in sorted(everywhere)
        if place not in cells
    ]
    if not gaps:
        return
    named = ", ".join(_cell(*gap) for gap in gaps[:NAMED])
    more = f" and {len(gaps) - NAMED} more" if len(gaps) > NAMED else ""
    sizes = {_label(name): len(cells) for name, cells in conditions.items()}
    least, most = min(sizes, key=lambda k: sizes[k]), max(sizes, key=lambda k: sizes[k])
    there = everywhere[gaps[0][1]]
    raise UsageError(
        f"{source}: cells are missing: {named}{more}. {least} has {sizes[least]} rows, {most} has"
        f" {sizes[most]}; of the first one's episode there is line {there.line} ({there.cell})."
        " A rollout that could not be measured needs a row with its error"
    )


def _check_nominal(
    clean: Mapping[Place, LongRow], nominal: Mapping[Place, LongRow], source: str
) -> None:
    """The nominal pass is the clean condition: of one initial state there is one answer."""
    for place in sorted(set(clean) & set(nominal)):
        a, b = clean[place], nominal[place]
        if (a.success, a.error) != (b.success, b.error):
            raise UsageError(
                f"{source}, lines {a.line} and {b.line}: {a.cell} and {b.cell} differ; nominal is"
                " the clean rollout itself. Call the clean condition run again null"
            )


def _check_replicate(block: Block, first: Block, source: str) -> None:
    for name, cells in sorted(block.conditions.items(), key=lambda item: _order(item[0])):
        other = first.conditions.get(name, {})
        odd = sorted(set(cells) ^ set(other))
        if odd:
            row = cells.get(odd[0]) or other[odd[0]]
            raise UsageError(
                f"{source}, line {row.line}: replicates 0 and {block.replicate} are not over the"
                f" same cells: only one has {_cell(name, odd[0])}"
            )


def _together(own: Sequence[Block]) -> Block | None:
    """All suites of one policy and replicate, where they have the same conditions."""
    first = own[0]
    alike = all(
        set(block.conditions) == set(first.conditions)
        and bool(block.clean) == bool(first.clean)
        and bool(block.nominal) == bool(first.nominal)
        and block.clean_is_nominal == first.clean_is_nominal
        for block in own
    )
    if len(own) < 2 or not alike:
        return None
    return Block(
        first.policy,
        tuple(block.suites[0] for block in own),
        first.replicate,
        {name: _union(block.conditions[name] for block in own) for name in first.conditions},
        _union(block.clean for block in own),
        first.clean_is_nominal,
        _union(block.nominal for block in own),
    )


def _union(parts: Iterable[Mapping[Place, LongRow]]) -> dict[Place, LongRow]:
    return {place: row for part in parts for place, row in part.items()}


def _order(name: Name) -> tuple[bool, str, str]:
    return (name[0] not in UNSHIFTED, name[0], name[1] or "")


def _label(name: Name) -> str:
    return name[0] if name[1] is None else f"{name[0]}-{name[1]}"


def _cell(name: Name, place: Place) -> str:
    return f"{place[0]} {place[1]} e{place[2]:02} {_label(name)}"
