"""What ``vla-shift doctor`` says: one finding a line, and the line that mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        status: ``missing`` keeps the main job from running; ``note`` does not.
        text: what was found.
        mend: the line that mends it, or None if there is nothing to mend.
    """

    status: Status
    text: str
    mend: str | None = None


def ok(text: str) -> Finding:
    """It is there, and it works."""
    return Finding("ok", text)


def missing(text: str, mend: str | None) -> Finding:
    """Without it the main job cannot run."""
    return Finding("missing", text, mend)


def note(text: str, mend: str | None = None) -> Finding:
    """Worth knowing; the main job runs without it."""
    return Finding("note", text, mend)


def lines(title: str, findings: Iterable[Finding]) -> list[str]:
    """A section of the report."""
    out = [title]
    for finding in findings:
        first, *rest = finding.text.splitlines() or [""]
        out.append(f"  {finding.status:<8} {first}")
        out += [f"           {line}" for line in rest]
        if finding.mend is not None:
            out.append(f"           -> {finding.mend}")
    return out
