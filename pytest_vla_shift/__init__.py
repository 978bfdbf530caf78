"""Robustness of vision-language-action policies, as pytest tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vla_shift.pair import Pair

__all__ = ["Pair", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The plugin is imported by every pytest run, so the public names load what they need late.
    if name == "Pair":
        from pytest_vla_shift.pair import Pair

        return Pair
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
