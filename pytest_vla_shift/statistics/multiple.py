"""p values read together: Holm for one family, Benjamini-Hochberg for an exploratory grid.

Holm keeps the chance of a single false finding in the family below alpha, whatever the dependence
between its tests: it is for the axes of one gate. Benjamini and Hochberg keep the expected share
of false ones among the findings below alpha, for independent or positively dependent tests: that
is for looking over a grid. Compare either adjusted p with alpha itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjusted p values, in the order given.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979) 65-70.

    Raises:
        ValueError: a p is not between 0 and 1.
    """
    ordered = _ordered(p_values)
    adjusted = [0.0] * len(ordered)
    running = 0.0
    for rank, k in enumerate(ordered):
        running = max(running, min(1.0, (len(ordered) - rank) * p_values[k]))
        adjusted[k] = running
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Benjamini and Hochberg's step-up adjusted p values, in the order given.

    Source: Y. Benjamini, Y. Hochberg, Controlling the false discovery rate, Journal of the Royal
    Statistical Society B 57 (1995) 289-300.

    Raises:
        ValueError: a p is not between 0 and 1.
    """
    ordered = _ordered(p_values)
    adjusted = [0.0] * len(ordered)
    running = 1.0
    for rank in range(len(ordered), 0, -1):
        k = ordered[rank - 1]
        running = min(running, p_values[k] * len(ordered) / rank)
        adjusted[k] = running
    return tuple(adjusted)


def _ordered(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if math.isnan(p) or not 0 <= p <= 1:
            raise ValueError(f"{p} is no p value")
    return sorted(range(len(p_values)), key=lambda k: p_values[k])
