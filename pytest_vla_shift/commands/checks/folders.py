"""Where runs write: whether they may, and whether there is room."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pytest_vla_shift.commands.findings import Finding, missing, note, ok

ROOM_BYTES = 2 * 2**30
"""Below this a run with videos may fill the disk."""


def check(reports: Path) -> list[Finding]:
    """The reports folder: written to, for a moment. It is not made if it is not there."""
    target = reports.absolute()
    there = next(folder for folder in (target, *target.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"?")
    except OSError as error:
        return [
            missing(
                f"the reports folder {target} cannot be written: {error.strerror or error}",
                "give pytest another one: --vla-reports=DIR",
            )
        ]
    free = shutil.disk_usage(there).free
    found = [ok(f"the reports folder {target} can be written, {free / 2**30:.0f} GiB free")]
    if free < ROOM_BYTES:
        found.append(note("little room: a run keeps actions, pictures and videos"))
    return found
