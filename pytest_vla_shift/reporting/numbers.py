"""How numbers are printed, the same in the terminal, in Markdown and in Allure."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from pytest_vla_shift.statistics.aggregate import ConditionAggregate
from pytest_vla_shift.statistics.floor import FloorContrast

NONE = "-"


def half_up(value: float, digits: int) -> str:
    """``value`` with ``digits`` decimals; halves away from zero, as papers print them.

    Rates are ratios of small integers, so a half is common: 41/80 is printed 0.513, where
    ``format`` would give 0.512.
    """
    step = Decimal(1).scaleb(-digits)
    # 12 decimals first: 0.1 + 0.2 is meant as 0.3.
    return str(Decimal(f"{value:.12f}").quantize(step, ROUND_HALF_UP))


def rate(value: float | None) -> str:
    """Four characters: ``.738``, ``1.00``, ``.000``; a dash for None."""
    if value is None:
        return NONE
    text = half_up(value, 3)
    return text[1:] if text.startswith("0") else half_up(value, 2)


def signed(value: float | None) -> str:
    """Five characters with a sign: ``+.188``, ``-1.00``; a dash for None. Zero is ``+.000``."""
    if value is None:
        return NONE
    text = rate(abs(value))
    return ("-" if value < 0 and text != ".000" else "+") + text


def interval(bounds: tuple[float, float] | None) -> str:
    """``[+.087,+.287]``, or nothing for None."""
    return "" if bounds is None else f"[{signed(bounds[0])},{signed(bounds[1])}]"


def percent(value: float | None) -> str:
    """``36%``; a dash for None."""
    return NONE if value is None else f"{half_up(100 * value, 0)}%"


def p_value(value: float | None) -> str:
    """Two significant digits; a dash for None."""
    return NONE if value is None else f"{value:.2g}"


def degradation(item: ConditionAggregate) -> str:
    """dSR with its interval. A star marks Tango's, where the bootstrap's has no width."""
    bounds = item.tango if item.degenerate else item.interval
    star = "*" if item.degenerate else ""
    return f"{signed(item.dsr)} {interval(bounds)}{star}".rstrip()


def floor(item: ConditionAggregate, contrast: FloorContrast | None) -> str:
    """Pairs of the same episodes that changed under null: ``2``, or ``2/5`` where not every
    episode of ``item`` has a null pair; a dash without a null arm."""
    if item.is_null:
        return str(item.changed)
    if contrast is None or not contrast.pairs:
        return NONE
    of = "" if contrast.pairs == item.pairs else f"/{contrast.pairs}"
    return f"{contrast.floor}{of}"


def label(item: ConditionAggregate, width: int | None = None) -> str:
    """The condition for people: ``camera L2``, ``null (floor)``; ``language L1=`` for an identity.

    Args:
        item: the condition.
        width: if given, the axis is cut (marked ``~``) so that the level stays readable.
    """
    if item.is_null:
        name, tail = item.condition, " (floor)"
    elif item.axis is not None and item.level is not None:
        name, tail = item.axis, f" {item.level}" + ("=" if item.is_identity else "")
    else:
        name, tail = item.condition, ""
    if item.replicate:
        tail += f" r{item.replicate}"
    if width is not None and len(name) + len(tail) > width:
        name = name[: max(1, width - len(tail) - 1)] + "~"
    return name + tail


def kinds(counts: tuple[tuple[str, int], ...]) -> str:
    """``policy 3, worker lost 12``."""
    return ", ".join(f"{kind} {count}" for kind, count in counts)


def plural(count: int, noun: str) -> str:
    """``1 pair``, ``2 pairs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
