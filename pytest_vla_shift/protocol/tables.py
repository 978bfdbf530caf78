"""A strict reader of one TOML table: every value typed, every key known, every error placed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pytest_vla_shift.protocol.errors import UsageError


class Table:
    """One table of a TOML file. ``finish`` refuses keys that nobody read.

    Args:
        values: the parsed table.
        where: what messages call it: a file, or ``file: [table]``.
    """

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self.where = where
        self._values = dict(values)
        self._read: set[str] = set()

    def names(self) -> tuple[str, ...]:
        """Keys that were not read yet, sorted."""
        return tuple(sorted(set(self._values) - self._read))

    def raw(self, key: str) -> object:
        """The value of ``key``, whatever it is; UsageError if it is missing."""
        if key not in self._values:
            raise UsageError(f"{self.where}: {key!r} is missing")
        self._read.add(key)
        return self._values[key]

    def text(self, key: str, default: str | None = None) -> str:
        """A non-empty string."""
        if default is not None and key not in self._values:
            return default
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "a non-empty string")
        return value

    def integer(
        self,
        key: str,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
        default: int | None = None,
    ) -> int:
        """An integer, at least ``minimum`` and at most ``maximum``."""
        if default is not None and key not in self._values:
            return default
        value = self.raw(key)
        bounds = [f"of at least {minimum}"] if minimum is not None else []
        bounds += [f"of at most {maximum}"] if maximum is not None else []
        if (
            type(value) is not int
            or (minimum is not None and value < minimum)
            or (maximum is not None and value > maximum)
        ):
            raise self._wrong(key, value, " ".join(["an integer", " and ".join(bounds)]).strip())
        return value

    def number(self, key: str, *, minimum: float | None = None) -> float:
        """A finite number, at least ``minimum``."""
        value = self.raw(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        if not math.isfinite(value) or (minimum is not None and value < minimum):
            least = "" if minimum is None else f" of at least {minimum}"
            raise self._wrong(key, value, f"a finite number{least}")
        return float(value)

    def boolean(self, key: str, *, default: bool | None = None) -> bool:
        """true or false."""
        if default is not None and key not in self._values:
            return default
        value = self.raw(key)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of distinct, non-empty strings, at least one."""
        value = self.raw(key)
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise self._wrong(key, value, "a list of strings")
        if not value:
            raise self._wrong(key, value, "a list with something in it")
        if len(set(value)) != len(value):
            raise self._wrong(key, value, "a list without repetition")
        return tuple(value)

    def texts_or_text(self, key: str) -> tuple[str, ...] | str:
        """A list of strings, or one string."""
        return self.text(key) if isinstance(self._values.get(key), str) else self.texts(key)

    def table(self, key: str, *, optional: bool = False) -> Table:
        """A sub-table; an empty one if it is ``optional`` and missing."""
        if optional and key not in self._values:
            return Table({}, f"{self.where}: [{key}]")
        value = self.raw(key)
        if not isinstance(value, dict):
            raise self._wrong(key, value, "a table")
        return Table(value, f"{self.where}: [{key}]")

    def tables(self, key: str) -> list[Table]:
        """An array of tables; empty if missing."""
        if key not in self._values:
            return []
        value = self.raw(key)
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise self._wrong(key, value, "an array of tables")
        return [Table(v, f"{self.where}: [[{key}]] no. {n}") for n, v in enumerate(value, 1)]

    def finish(self) -> None:
        """Refuse what nobody read: a misspelt key must not become a silent default."""
        left = self.names()
        if left:
            raise UsageError(f"{self.where}: unknown key {left[0]!r}")

    def _wrong(self, key: str, value: object, wanted: str) -> UsageError:
        return UsageError(f"{self.where}: {key!r} must be {wanted}, not {value!r}")
