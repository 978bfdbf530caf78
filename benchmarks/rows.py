"""One measured figure beside its target: what a benchmark with a target hands out.

A module of this folder with a function ``rows() -> Iterator[Row]`` is run by ``python -m
benchmarks``; one with ``long_rows()`` too, where minutes are allowed (``--long``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the report.

    Attributes:
        name: what was measured.
        value: the figure, in ``unit``.
        unit: for example ``ms``, ``s``, ``MB`` or ``x``.
        target: in ``unit``.
        at_least: whether the value must reach the target; else it must not pass it.
    """

    name: str
    value: float
    unit: str
    target: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Whether the target is met; a value that is no number meets none."""
        if math.isnan(self.value):
            return False
        return self.value >= self.target if self.at_least else self.value <= self.target

    def line(self) -> str:
        """Name, value, target and verdict."""
        sense = "at least" if self.at_least else "at most"
        verdict = "ok" if self.ok else "short"
        return (
            f"{self.name:<72} {_figure(self.value):>9} {self.unit:<8}"
            f" {sense:>8} {_figure(self.target):>7}  {verdict}"
        )


def _figure(value: float) -> str:
    """Three significant digits, never in powers of ten."""
    if not math.isfinite(value) or value == 0:
        return str(value)
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"
