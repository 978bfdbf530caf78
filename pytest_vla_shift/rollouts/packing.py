"""From a run's directory to what of it may be published: its records, and nothing of a machine."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import SessionPlan, plan_json
from pytest_vla_shift.rollouts.merging import merge_rows
from pytest_vla_shift.rollouts.packs import Pack, planned_keys, published
from pytest_vla_shift.rollouts.record import JSON
from pytest_vla_shift.rollouts.sources import at_rest, read_source

_PLACE = re.compile(
    r"(?<![\w.:/~-])~?/(?:[\w.@+-]+/)+[\w.@+-]*"  # /data/ann/weights, ~/weights
    r"|(?<!\w)[A-Za-z]:\\"  # C:\
    r"|(?<![\w.])\.\./"  # beside the folder that pytest ran in
    r"|\b(?:file|tcp|ipc|ssh|wss?)://"  # where something is served
)
"""What says where something lies on somebody's machine, or in somebody's network."""

SHORTEST_NAME = 4
"""A host or user called less is a part of too many words."""

ANYBODY = frozenset({"root", "user", "runner", "localhost"})
"""Names that tell nobody from anybody else."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A run that can be published.

    Attributes:
        pack: it.
        notes: what was left out, a sentence each.
    """

    pack: Pack
    notes: tuple[str, ...]


def pack_run(directory: Path, command: str) -> Packed:
    """What a finished run would be as a pack; nothing is written.

    Of rollouts that were tried again, only the measurement is taken. Arguments of the policy that
    say where something lies are left out, as they are of every key.

    Args:
        directory: the run's. It is not changed.
        command: what it was run with, for people.

    Raises:
        UsageError: there is no such run, it is a shard or is being written, or something in it
            names a place on a machine.
    """
    with at_rest(directory):
        source = read_source(directory)
    if source.plan is None:
        raise UsageError(f"{directory} has no plan: nothing was ever run in it")
    if source.plan.shard is not None:
        raise UsageError(f"{directory} is a shard; pack what `vla-shift merge` makes of all shards")
    if not command.strip():
        raise UsageError("a pack needs the command that it was run with")
    merged = merge_rows([source])
    keys = planned_keys(source.plan)
    # A shifted arm is not run where the clean one cannot be: whether that is all, a report tells.
    found = {key: merged.records[key] for key in keys if key in merged.records}
    drawn = {record.where["device"] for record in found.values() if record.where.get("device")}
    pack = Pack(
        source.package,
        command.strip(),
        tuple(sorted(drawn)),
        _placeless(source.plan),
        {key: published(record) for key, record in found.items()},
    )
    check_placeless(pack)
    return Packed(pack, tuple(_notes(len(merged.records) - len(found), merged.notes)))


def _notes(others: int, noted: list[str]) -> Iterator[str]:
    if others:
        yield f"{others} recorded rollouts are outside the run's latest plan and left out."
    yield from noted


def _placeless(plan: SessionPlan) -> SessionPlan:
    args, located = plan.policy.get("args"), plan.policy.get("located")
    if not isinstance(args, dict) or not isinstance(located, list):
        return plan
    kept: dict[str, JSON] = {name: value for name, value in args.items() if name not in located}
    return replace(plan, policy={**plan.policy, "args": kept})


def check_placeless(pack: Pack) -> None:
    """Refuse what should not be published: paths, servers, and this host's and user's names.

    Names are looked for in what people and systems wrote freely: the command, arguments of the
    policy, what drew the pictures, and messages of errors. Paths are looked for everywhere.

    Raises:
        UsageError: something is there; it is quoted, with where it is.
    """
    names = {socket.gethostname(), socket.gethostname().partition(".")[0], _user()}
    own = sorted(name for name in names - ANYBODY if len(name) >= SHORTEST_NAME)
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, own))})(?!\w)") if own else None
    for where, text, free in _texts(pack):
        told = _PLACE.search(text) or (named.search(text) if named is not None and free else None)
        if told is not None:
            start = max(0, told.start() - 40)
            raise UsageError(
                f"{where} names a place on a machine, which must not be published:"
                f" ...{text[start : told.end() + 40]!r}"
            )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""  # of a number without a name


def _texts(pack: Pack) -> Iterator[tuple[str, str, bool]]:
    """Every text of a pack: where it is, it, and whether somebody wrote it freely."""
    yield "the command", pack.command, True
    for name in pack.drawn_with:
        yield "what drew the pictures", name, True
    for name, value in plan_json(pack.plan).items():
        free = name == "policy"
        yield from ((f"the plan's {name}", text, free) for text in _strings(value))
    for record in pack.records.values():
        where = f"the rollout {record.task} e{record.episode:02d} {record.condition}"
        for name, value in record.to_json().items():
            yield from ((f"{where}, {name},", text, name == "error") for text in _strings(value))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
