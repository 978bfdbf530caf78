"""A long table written as CSV, as :mod:`.table` reads it."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.statistics.table import OPTIONAL, REQUIRED, LongRow


def write_table(path: Path, rows: Iterable[LongRow]) -> None:
    """Write rows to a new file.

    Raises:
        UsageError: it is there already, or cannot be written.
    """
    names = (*REQUIRED, *OPTIONAL)
    try:
        with path.open("x", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(names)
            for row in rows:
                writer.writerow([_cell(getattr(row, name)) for name in names])
    except FileExistsError as error:
        raise UsageError(f"{path} is there already, and is not written over") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def _cell(value: str | int | None) -> str | int:
    if value is None:
        return ""
    return int(value) if isinstance(value, bool) else value
