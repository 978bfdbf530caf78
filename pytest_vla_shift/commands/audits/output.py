"""Where an audit's findings go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.record import JSON


def write_json(path: Path, found: Mapping[str, JSON]) -> None:
    """Write ``found``, replacing an older file in one step.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error
