"""Where an audit's findings go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.summary import replace_file

if TYPE_CHECKING:
    from pytest_vla_shift.rollouts.record import JSON


def write_json(path: Path, found: Mapping[str, JSON]) -> None:
    """Write ``found``, replacing an older file in one step.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error
