"""Exact and score methods for one table of paired binary outcomes.

They serve where the percentile bootstrap cannot: without discordant pairs it collapses to
[0, 0], and at n = 50 with P(S>F) = 2 % such an interval covers 62 % instead of 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist


def mcnemar_p(b: int, c: int) -> float:
    """Two-sided exact McNemar p: are S>F and F>S equally likely?

    The discordant pairs are binomial(b + c, 1/2) under the null hypothesis. The sum is taken in
    integers, so it stays exact; without discordant pairs p is 1.

    Args:
        b: pairs S>F.
        c: pairs F>S.

    Raises:
        ValueError: a count is negative.
    """
    if b < 0 or c < 0:
        raise ValueError(f"counts must not be negative: {b}, {c}")
    n = b + c
    tail = sum(math.comb(n, k) for k in range(min(b, c) + 1))
    return min(1.0, 2 * tail / (1 << n))


def tango_interval(b: int, c: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Tango's score interval for a paired difference of proportions, (b - c) / n.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, Statistics in Medicine 17 (1998) 891-908.

    Args:
        b: pairs S>F; a positive difference is a degradation.
        c: pairs F>S.
        n: all pairs.
        confidence: between 0 and 1.

    Returns:
        Lower and upper bound, within [-1, 1].

    Raises:
        ValueError: n is not positive, or the counts do not fit into it.
    """
    if n <= 0 or b < 0 or c < 0 or b + c > n:
        raise ValueError(f"counts do not fit: b={b}, c={c}, n={n}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    estimate = (b - c) / n

    def score(delta: float) -> float:
        # The restricted maximum-likelihood estimate of P(F>S) given the difference delta.
        linear = -b - c + (2 * n - b + c) * delta
        constant = -c * delta * (1 - delta)
        root = math.sqrt(max(0.0, linear * linear - 8 * n * constant))
        nuisance = max(0.0, (root - linear) / (4 * n))
        variance = n * (2 * nuisance + delta * (1 - delta))
        return (b - c - n * delta) / math.sqrt(max(variance, 1e-300))

    lower = -1.0 if c == n else _bisect(lambda d: score(d) - z, -1.0, estimate)
    upper = 1.0 if b == n else _bisect(lambda d: score(d) + z, estimate, 1.0)
    return lower, upper


def _bisect(decreasing: Callable[[float], float], low: float, high: float) -> float:
    """The root of a decreasing function in (low, high), to machine precision."""
    for _ in range(60):
        middle = (low + high) / 2
        if decreasing(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
