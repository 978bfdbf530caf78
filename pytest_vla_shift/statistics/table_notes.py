"""What a reader of a table's statistics must know, and no number says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, SIMULTANEOUS
from pytest_vla_shift.statistics.table_grid import Block, single

NAMED = 5
"""How many things a note names before the rest is counted."""


def block_notes(block: Block) -> tuple[str, ...]:
    """Notes on one policy's suite: its nominal pass, and levels without all axes at once."""
    return (*_nominal(block), *_compounds(block))


def apart_notes(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Why suites of one policy and replicate are not read together, where they are not.

    Args:
        blocks: of a whole table.
    """
    notes: list[str] = []
    for policy, replicate in dict.fromkeys((b.policy, b.replicate) for b in blocks):
        own = [b for b in blocks if (b.policy, b.replicate) == (policy, replicate)]
        if any(len(block.suites) > 1 for block in own):
            continue
        who = f"policy {policy}: " if policy else ""
        again = f" (replicate {replicate})" if replicate else ""
        first = own[0]
        for block in own[1:]:
            only = [
                f"only {one.suites[0]} has {_few(sorted(_has(one) - _has(other)))}"
                for one, other in ((first, block), (block, first))
                if _has(one) - _has(other)
            ]
            if only:
                notes.append(
                    f"{who}{first.suites[0]} and {block.suites[0]} are not read together{again}:"
                    f" {'; '.join(only)}"
                )
    return tuple(notes)


def _has(block: Block) -> set[str]:
    """Names of what a suite's rows are about."""
    found = {axis if level is None else f"{axis} {level}" for axis, level in block.conditions}
    if block.clean and not block.clean_is_nominal:
        found.add(f"{CLEAN.name} rows")
    if block.nominal:
        found.add(f"{NOMINAL.name} rows")
    return found


def _nominal(block: Block) -> Iterator[str]:
    states = Counter(place[:2] for place in block.nominal)
    if len(set(states.values())) > 1:
        usual = Counter(states.values()).most_common(1)[0][0]
        odd = [f"{n} of {' '.join(task)}" for task, n in sorted(states.items()) if n != usual]
        yield f"nominal pass: unequal numbers of states: {_few(odd)}, and {usual} of the others"
    beyond = sorted(set(states) - set(block.tasks))
    if beyond and block.conditions:
        yield (
            "nominal pass: also over tasks that are not compared"
            f" ({_few([' '.join(task) for task in beyond])}), so it is no reference of losses"
        )


def _compounds(block: Block) -> Iterator[str]:
    if len(block.axes) < 2:
        return
    levels = {level for axis, level in block.conditions if level and single(axis)}
    named = {level for axis, level in block.conditions if level and not single(axis)}
    with_all = {level for axis, level in block.conditions if level and axis == SIMULTANEOUS}
    without = sorted(levels - with_all)
    if not with_all:
        what = "the compounds are of some axes only" if named else "no compound at all"
        yield f"no {SIMULTANEOUS} rows: {what}"
    elif without:
        yield f"{SIMULTANEOUS} rows at {_few(sorted(with_all))} only, none at {_few(without)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
