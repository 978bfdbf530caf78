"""Long tables of rollouts from anywhere, read strictly: one row a rollout.

What a row says is checked here, what the rows say together in :mod:`.table_grid`. Nothing is
guessed: a table that is not quite right is refused with the line and what is wrong with it.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from pytest_vla_shift.protocol.conditions import CLEAN, NOMINAL, NULL, RESERVED, SIMULTANEOUS
from pytest_vla_shift.protocol.errors import UsageError

Format = Literal["csv", "jsonl"]
FORMATS: Mapping[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

REQUIRED = ("suite", "task", "episode", "axis", "level", "success")
OPTIONAL = ("milestones_done", "milestones", "error", "policy", "replicate")
_NEVER_EMPTY = ("suite", "task", "episode", "axis")
"""What a JSON row must have: it may leave out what is empty, as a CSV row cannot."""

UNSHIFTED = frozenset({CLEAN.name, NULL.name, NOMINAL.name})
"""Conditions without a level."""

MOST_ROWS = 1_000_000
LONGEST_LINE = 100_000
"""Characters. A longer one is no row: the file is of another kind."""

_WHOLE = re.compile(r"([0-9]{1,9})(\.0*)?")
_LEVEL = re.compile(r"L?([1-9])(\.0*)?")
_AXIS = re.compile(r"[a-z0-9_]+")
"""As in a suite. Capitals are read as small letters: no two axes differ by them alone."""
_SUCCESS = re.compile(r"(1(?:\.0*)?|true)|(?:0(?:\.0*)?|false)")

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class LongRow:
    """One rollout.

    Attributes:
        line: where it stands in the file, from 1.
        suite, task, episode: the initial state.
        axis: ``clean``, ``null``, ``nominal``, an axis, ``simultaneous`` or ``camera+lighting``.
        level: ``L1`` ...; None for the first three.
        success: None where an infrastructure error took its place.
        error: its kind, or None.
        milestones_done, milestones: latched, and how many the task has; None where not known.
        policy: empty if the table does not say.
        replicate: 0, or 1 ... with another policy seed.
    """

    line: int
    suite: str
    task: str
    episode: int
    axis: str
    level: str | None
    success: bool | None
    error: str | None = None
    milestones_done: int | None = None
    milestones: int | None = None
    policy: str = ""
    replicate: int = 0

    @property
    def condition(self) -> str:
        """``clean``, ``camera-L2``."""
        return self.axis if self.level is None else f"{self.axis}-{self.level}"

    @property
    def cell(self) -> str:
        """The cell for people: suite, task, episode and condition."""
        again = f" replicate {self.replicate}" if self.replicate else ""
        who = f"{self.policy}: " if self.policy else ""
        return f"{who}{self.suite} {self.task} e{self.episode:02} {self.condition}{again}"


def read_table(path: Path, kind: Format | None = None) -> tuple[LongRow, ...]:
    """Read a CSV or JSON-lines table.

    Args:
        path: UTF-8 text, with or without a byte-order mark.
        kind: its format; by the file's suffix if None.

    Returns:
        Its rows, in the file's order: at least one.

    Raises:
        UsageError: it cannot be read, a column is unknown, missing or doubled, or a row says what
            cannot be. The message names the line.
    """
    found = kind if kind is not None else FORMATS.get(path.suffix.lower())
    if found is None:
        raise UsageError(
            f"{path}: is this a CSV or a JSON-lines table? Name it .csv or .jsonl, or say"
            " --format csv or --format jsonl"
        )
    rows: list[LongRow] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            source = _csv(stream, path) if found == "csv" else _jsonl(stream, path)
            for line, cells in source:
                rows.append(_row(cells, line, f"{path}, line {line}"))
                if len(rows) > MOST_ROWS:
                    raise UsageError(f"{path}: more than {MOST_ROWS:,} rows; split it by policy")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not rows:
        raise UsageError(f"{path}: no row")
    return tuple(rows)


def _lines(stream: IO[str], path: Path) -> Iterator[str]:
    """The lines of a file, without ever holding one of a file that has no lines."""
    number = 0
    while text := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(text) > LONGEST_LINE:
            raise UsageError(f"{path}, line {number}: longer than {LONGEST_LINE:,} characters")
        yield text


def _csv(stream: IO[str], path: Path) -> Iterator[tuple[int, dict[str, Cell]]]:
    reader = csv.reader(_lines(stream, path), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if header:
            _check_columns(header, REQUIRED, f"{path}, line 1")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise UsageError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells under"
                    f" {len(header)} columns"
                )
            yield reader.line_num, {k: v.strip() for k, v in zip(header, cells, strict=True)}
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: no CSV: {error}") from error


def _jsonl(stream: IO[str], path: Path) -> Iterator[tuple[int, dict[str, Cell]]]:
    for line, text in enumerate(_lines(stream, path), 1):
        if not text.strip():
            continue
        where = f"{path}, line {line}"
        try:
            found = json.loads(text, object_pairs_hook=list, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}: no JSON: {error}") from error
        if not isinstance(found, list) or not all(isinstance(pair, tuple) for pair in found):
            raise UsageError(f"{where}: not a JSON object, which has a name for every value")
        _check_columns([name for name, _ in found], _NEVER_EMPTY, where)
        for name, value in found:
            if not isinstance(value, str | int | float | bool | None):
                raise UsageError(f"{where}: {name!r} is neither text nor a number")
        yield line, {k: v.strip() if isinstance(v, str) else v for k, v in found}


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _check_columns(names: Sequence[str], required: Sequence[str], where: str) -> None:
    unknown = [name for name in names if name not in REQUIRED and name not in OPTIONAL]
    if "" in unknown:
        raise UsageError(f"{where}: a column without a name; pandas needs to_csv(index=False)")
    if unknown:
        raise UsageError(
            f"{where}: unknown column {unknown[0]!r}; there are {', '.join((*REQUIRED, *OPTIONAL))}"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"{where}: column {twice[0]!r} is there twice")
    missing = [name for name in required if name not in names]
    if missing:
        raise UsageError(f"{where}: no column {missing[0]!r}")


def _row(cells: Mapping[str, Cell], line: int, where: str) -> LongRow:
    suite, task = (_text(cells, name, where) for name in ("suite", "task"))
    axis = _axis(cells, where)
    episode = _whole(cells, "episode", where)
    if episode is None:
        raise UsageError(f"{where}: 'episode' is empty")
    error = _optional_text(cells, "error", where)
    done = _whole(cells, "milestones_done", where)
    milestones = _whole(cells, "milestones", where)
    row = LongRow(
        line=line,
        suite=suite,
        task=task,
        episode=episode,
        axis=axis,
        level=_level(cells, axis, where),
        success=_success(cells, where),
        error=error or None,
        milestones_done=done,
        milestones=milestones,
        policy=_optional_text(cells, "policy", where),
        replicate=_whole(cells, "replicate", where) or 0,
    )
    here = f"{where} ({row.cell})"
    if row.error is not None and row.success is not None:
        raise UsageError(f"{here}: an error and a success; a rollout with an error has none")
    if row.error is None and row.success is None:
        raise UsageError(f"{here}: no success, and no error that says why")
    if (done is None) != (milestones is None):
        raise UsageError(f"{here}: 'milestones_done' and 'milestones' go together")
    if done is not None and milestones is not None and done > milestones:
        raise UsageError(f"{here}: {done} milestones done of {milestones}")
    return row


def _success(cells: Mapping[str, Cell], where: str) -> bool | None:
    value = cells.get("success")
    if value is None or value == "":
        return None
    # Tables that hold an empty cell are often written with 1.0, or with True, for 1.
    match = _SUCCESS.fullmatch(str(value).lower())
    if match is None:
        raise UsageError(f"{where}: success is {value!r}, neither 0 nor 1")
    return match[1] is not None


def _axis(cells: Mapping[str, Cell], where: str) -> str:
    """The axis in small letters; the names of a compound in sorted order."""
    text = _optional_text(cells, "axis", where)
    if not text:
        raise UsageError(
            f"{where}: 'axis' is empty; pandas reads the word null as nothing, unless it is told"
            " keep_default_na=False"
        )
    names = [name.strip().lower() for name in text.split("+")]
    if len(set(names)) != len(names) or "" in names:
        raise UsageError(f"{where}: {text!r} is no compound of different axes")
    if len(names) > 1 and not UNSHIFTED.isdisjoint(names):
        raise UsageError(f"{where}: {text!r}: clean, null and nominal are no axes")
    if len(names) > 1 and SIMULTANEOUS in names:
        raise UsageError(f"{where}: {text!r}: {SIMULTANEOUS} is a compound itself")
    for name in names:
        if name in RESERVED - UNSHIFTED - {SIMULTANEOUS}:
            raise UsageError(
                f"{where}: no axis can be called {name!r}; all at once: {SIMULTANEOUS}"
            )
        if _AXIS.fullmatch(name) is None:
            raise UsageError(
                f"{where}: {name!r} is no name of an axis: letters, digits and _; several axes at"
                " once are joined with +"
            )
    return sys.intern("+".join(sorted(names)))


def _level(cells: Mapping[str, Cell], axis: str, where: str) -> str | None:
    value = cells.get("level")
    text = "" if value is None else str(value)
    if axis in UNSHIFTED:
        if text:
            raise UsageError(f"{where}: {axis!r} has no level, not {text!r}")
        return None
    if not text:
        names = ", ".join(sorted(UNSHIFTED))
        raise UsageError(f"{where}: no level for axis {axis!r}; only {names} have none")
    match = _LEVEL.fullmatch(text)
    if match is None or isinstance(value, bool):
        raise UsageError(f"{where}: level is {value!r}, not L1 ... L9")
    return f"L{match[1]}"


def _text(cells: Mapping[str, Cell], name: str, where: str) -> str:
    text = _optional_text(cells, name, where)
    if not text:
        raise UsageError(f"{where}: {name!r} is empty")
    return text


def _optional_text(cells: Mapping[str, Cell], name: str, where: str) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, bool | float):
        raise UsageError(f"{where}: {name!r} is {value!r}, which is no name")
    value = str(value)
    if not value.isprintable():
        raise UsageError(f"{where}: {name!r} holds what cannot be printed: {value!r}")
    return sys.intern(value)  # a name stands in thousands of rows


def _whole(cells: Mapping[str, Cell], name: str, where: str) -> int | None:
    value = cells.get(name)
    if value is None or value == "":
        return None
    match = None if isinstance(value, bool) else _WHOLE.fullmatch(str(value))
    if match is None:
        raise UsageError(f"{where}: {name!r} is {value!r}, not a whole number from 0 on")
    return int(match[1])
