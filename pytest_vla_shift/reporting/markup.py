"""GitHub-flavoured Markdown: tables, and names that stay what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers to the right."""
    lines = [
        _line([escape(name) for name in header]),
        _line(["---"] + ["--:" if _numeric(name) else "---" for name in header[1:]]),
    ]
    lines.extend(_line([escape(cell) for cell in row]) for row in rows)
    return "\n".join(lines)


def _numeric(name: str) -> bool:
    return name not in (
        "task",
        "first incomplete milestone",
        "version",
        "condition",
        "reference",
        "rate",
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Names as they are: no Markdown in them, and no line or column broken by them."""
    flat = re.sub(r"([\\`*<>|])", r"\\\1", " ".join(text.split()))
    # Within a word an underscore is only an underscore; a bracket only starts a link before "(".
    return re.sub(r"((?<!\w)_|_(?!\w)|\](?=\())", r"\\\1", flat)


def code(text: str) -> str:
    """Text as a code span."""
    return f"`{' '.join(text.split()).replace('`', ' ')}`"
