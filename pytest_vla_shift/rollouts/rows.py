"""Lines of the store: written, and read strictly, so that what is no record is never guessed at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_vla_shift.rollouts.record import JSON, SCHEMA, RolloutRecord


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that could not be read: it is named and its rollout runs again.

    Attributes:
        file: the file's name.
        line: counted from 1; 0 for the file as a whole.
        reason: what is wrong with it.
    """

    file: str
    line: int
    reason: str

    @property
    def where(self) -> str:
        """The place, for people."""
        return f"{self.file}, line {self.line}" if self.line else self.file


class OtherSchema(Exception):
    """A row that another version of this package wrote.

    Attributes:
        schema: of that version.
    """

    def __init__(self, schema: int) -> None:
        super().__init__(f"schema {schema}")
        self.schema = schema


# Made once: json.dumps with options makes a new encoder for every call.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def line_of(row: Mapping[str, JSON]) -> bytes:
    """A row as a line, without its newline.

    Raises:
        ValueError: a number in it is not finite.
    """
    return _ENCODER.encode(row).encode()


def read_row(line: bytes) -> RolloutRecord | None:
    """The record of a line, or None of a line that only says that a rollout began.

    Args:
        line: without its newline.

    Raises:
        OtherSchema: it is a rollout's row of another version.
        ValueError: it is no row; the message says why.
    """
    try:
        row = json.loads(
            line.decode(),  # not left to json, which would take UTF-16 and lone surrogates
            object_pairs_hook=_object,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
        if not isinstance(row, dict):
            raise ValueError("not an object")
        kind, schema = row.get("kind"), row.get("schema")
        whole = isinstance(row.get("identity"), dict)
        if kind == "rollout" and whole and type(schema) is int and schema != SCHEMA:
            raise OtherSchema(schema)
        if kind == "started":
            return None
        record = RolloutRecord.from_json(row)
        if b"\\ud" in line.lower():
            # An escape may stand for half a character, which no file could be given again.
            json.dumps(row, ensure_ascii=False).encode()
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    return record


def _object(pairs: Sequence[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def _no_constant(text: str) -> object:
    """NaN and the infinities are not JSON, and no measured value of ours."""
    raise ValueError(f"{text} is not a value of a record")
