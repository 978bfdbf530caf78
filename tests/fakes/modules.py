"""Modules that a test writes, for ``module:attr``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


@contextmanager
def importable(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, source: str
) -> Iterator[str]:
    """The name of a module in ``folder``, which is the working directory; forgotten at the end."""
    (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    try:
        yield name
    finally:
        sys.modules.pop(name, None)
