"""Packages that only some policies need, and the extras of ours that bring them."""

from __future__ import annotations

import importlib

from pytest_vla_shift.protocol.errors import UsageError


def require(extra: str, *modules: str) -> None:
    """See that ``modules`` can be imported.

    Raises:
        UsageError: one cannot; says which extra brings it.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"this takes the package {module.partition('.')[0]}:"
                f" pip install 'pytest-vla-shift[{extra}]' ({error})"
            ) from error
