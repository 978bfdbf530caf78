"""A run packed to be published: its plan and its records in one compressed file, read strictly.

Layout::

    <name>/pack.json            how it was run, and the digest of what is packed
    <name>/rollouts.jsonl.xz    the plan in the first line, then a line a rollout, in plan's order

The lines are those of a run's store, but for what is informative only: ``timing`` and ``where`` are
empty. So the same rollouts give the same lines, wherever they ran. Actions, frames and videos are
not packed: their digests are in the lines, and the command makes them again.
"""

from __future__ import annotations

import json
import lzma
import stat
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts.manifest import NO_PLAN, SessionPlan, plan_from_json, plan_json
from pytest_vla_shift.rollouts.record import JSON, RolloutRecord
from pytest_vla_shift.rollouts.rows import OtherSchema, line_of, read_row
from pytest_vla_shift.rollouts.storage import writing

SCHEMA = 1
"""Raised whenever a reader of an older pack would misread a new one."""

FACTS = "pack.json"
ROLLOUTS = "rollouts.jsonl.xz"

MOST_FACTS = 2**16
MOST_PACKED = 2**26
MOST_UNPACKED = 2**28
"""Bytes. Fifty times what a whole LIBERO-CTRL takes: what claims more is no pack of ours."""

MOST_MEMORY = 2**25
"""Bytes that the decoder may take; a preset of 6 needs 9 MiB."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A run as it is published.

    Attributes:
        package: the version of this package that ran it.
        command: what it was run with, as its publisher says.
        drawn_with: what the simulators really drew with, sorted; empty if none said.
        plan: of the whole run.
        records: key -> record, in the order of the plan, without ``timing`` and ``where``.
    """

    package: str
    command: str
    drawn_with: tuple[str, ...]
    plan: SessionPlan
    records: Mapping[str, RolloutRecord]

    @property
    def content(self) -> bytes:
        """What is compressed: the same for the same plan and outcomes."""
        rows = [record.to_json() for record in self.records.values()]
        head: dict[str, JSON] = {"kind": "plan", "schema": SCHEMA, **plan_json(self.plan)}
        return b"".join(line_of(row) + b"\n" for row in (head, *rows))


def planned_keys(plan: SessionPlan) -> dict[str, None]:
    """Keys of the rollouts that a plan asks for, in its order."""
    return dict.fromkeys(key for n in plan.nodes for key in (n.clean_key, n.shifted_key))


def published(record: RolloutRecord) -> RolloutRecord:
    """The record without what is of one machine and one day."""
    return replace(record, timing={}, where={})


def is_pack(directory: Path) -> bool:
    """Whether a folder says that it is one."""
    return (directory / FACTS).is_file()


def write_pack(directory: Path, pack: Pack) -> None:
    """Write a pack into a new folder, which has its name only when it is whole.

    Raises:
        UsageError: the folder is there already.
        StorageError: it cannot be written.
    """
    if directory.exists():
        raise UsageError(f"{directory} is there already; choose another folder, or remove it")
    content = pack.content
    facts: dict[str, JSON] = {
        "kind": "pack",
        "schema": SCHEMA,
        "pytest_vla_shift": pack.package,
        "command": pack.command,
        "drawn_with": list(pack.drawn_with),
        "rollouts": len(pack.records),
        "sha256": sha256(content).hexdigest(),
    }
    part = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
    with writing(directory):
        part.mkdir(parents=True)
        try:
            (part / FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
            # No name, no time of day and no thread count goes into this format.
            packed = lzma.compress(content, preset=6 | lzma.PRESET_EXTREME)
            (part / ROLLOUTS).write_bytes(packed)
            part.rename(directory)
        except BaseException:
            rmtree(part, ignore_errors=True)
            raise


def read_pack(directory: Path) -> Pack:
    """Read a pack and check that it is whole and one: nothing of it is guessed at.

    Raises:
        UsageError: it is damaged, changed, of another schema, or larger than any of ours. No more
            than :data:`MOST_UNPACKED` is ever unpacked, and nothing in it is executed.
    """
    where = directory / FACTS
    try:
        facts = _facts(_bounded(where, MOST_FACTS))
        where = directory / ROLLOUTS
        content = _unpack(_bounded(where, MOST_PACKED))
        if sha256(content).hexdigest() != facts["sha256"]:
            raise ValueError(f"it is not what {FACTS} is about: another digest")
        plan, records = _content(content)
    except (OSError, EOFError, lzma.LZMAError, *NO_PLAN) as error:
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(f"{where} cannot be read: {told[:MOST_TOLD]}") from error
    drawn = facts["drawn_with"]
    assert isinstance(drawn, list)  # of texts: _facts has looked
    return Pack(
        str(facts["pytest_vla_shift"]),
        str(facts["command"]),
        tuple(str(name) for name in drawn),
        plan,
        records,
    )


MOST_TOLD = 300
"""Characters of what is said of a damaged file: it may quote the garbage that it is made of."""


def _bounded(path: Path, most: int) -> bytes:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a file")
    if found.st_size > most:
        raise ValueError(f"{found.st_size} bytes, where a pack has at most {most}")
    with path.open("rb") as file:
        return file.read(most)


def _facts(data: bytes) -> dict[str, JSON]:
    facts = json.loads(data.decode())
    if not isinstance(facts, dict) or facts.get("kind") != "pack":
        raise ValueError("it does not say that this is a pack")
    if facts.get("schema") != SCHEMA:
        raise ValueError(f"schema {facts.get('schema')!r}; this version reads {SCHEMA}")
    names = facts.get("drawn_with")
    texts = [facts.get(name) for name in ("pytest_vla_shift", "command", "sha256")]
    texts += names if isinstance(names, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a field is missing, or is not a text")
    return facts


def _unpack(data: bytes) -> bytes:
    """One stream of xz, to its end, in bounded memory."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
    parts: list[bytes] = []
    room = MOST_UNPACKED
    while not decoder.eof:
        # One byte more than there is room for, so that what does not fit is seen and not cut.
        part = decoder.decompress(data, max_length=room + 1)
        parts.append(part)
        room -= len(part)
        data = b""
        if room < 0:
            raise ValueError(f"more than {MOST_UNPACKED} bytes are packed in it")
        if not part and decoder.needs_input and not decoder.eof:
            raise ValueError("it is cut off")
    if decoder.unused_data:
        raise ValueError("something follows its end")
    return b"".join(parts)


def _content(content: bytes) -> tuple[SessionPlan, dict[str, RolloutRecord]]:
    head, *lines = content.split(b"\n")
    if not lines or lines.pop():
        raise ValueError("its last line has no end")
    plan = _plan(head)
    wanted = planned_keys(plan)
    records: dict[str, RolloutRecord] = {}
    for number, line in enumerate(lines, 2):
        try:
            record = read_row(line)
        except OtherSchema as other:
            raise ValueError(f"line {number}: a rollout of {other}") from None
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        if record is None or record.key not in wanted:
            raise ValueError(f"line {number}: no rollout that the plan asks for")
        if record.key in records:
            raise ValueError(f"line {number}: rollout {record.key} is there twice")
        records[record.key] = record
    return plan, records


_POLICY = {"name": str, "revision": str, "privileged": bool, "seeded": bool}
"""What a report reads of a plan's policy, and what it must be."""


def _plan(line: bytes) -> SessionPlan:
    raw = json.loads(line.decode())
    if not isinstance(raw, dict) or (raw.get("kind"), raw.get("schema")) != ("plan", SCHEMA):
        raise ValueError("line 1: no plan of this schema")
    plan = plan_from_json(raw)
    texts: Iterable[Mapping[str, JSON]] = (
        plan.versions,
        plan.renderers,
        plan.protocols,
        plan.suites,
    )
    wrong = [name for name, kind in _POLICY.items() if type(plan.policy.get(name)) is not kind]
    if wrong or not all(isinstance(value, str) for pairs in texts for value in pairs.values()):
        raise ValueError(f"line 1: no plan ({', '.join(wrong) or 'a text is something else'})")
    if plan.shard is not None or plan.others:
        raise ValueError("line 1: the plan of a shard")
    return plan
