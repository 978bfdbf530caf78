"""Whether a module imports, tried in a process of its own: an import may crash, hang or ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

SECONDS = 60.0
"""Far more than a cold import takes; a hang must end."""


def import_complaint(
    code: str, environment: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> str | None:
    """Run import statements elsewhere.

    Args:
        code: Python, for example ``import av, PIL``.
        environment: variables over ours.
        seconds: after this the imports count as hung.

    Returns:
        None if they ended well, else what went wrong, in one line.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                **(environment or {}),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the import does not end within {seconds:.0f} s"
    if ended.returncode == 0:
        return None
    if ended.returncode < 0:
        return f"the import ended with signal {-ended.returncode}"
    return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
