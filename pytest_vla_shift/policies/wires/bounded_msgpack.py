"""msgpack, and reading somebody else's message without giving them the machine's memory.

A message of 64 MiB can hold 64 million empty lists, which take 4 GiB. So values are counted while
they are made. Depth is bounded by msgpack itself, at about a thousand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import numpy as np

MOST_ITEMS = 1 << 18
"""Of all lists and maps of a message together; messages of policies have some dozens."""


class CodecError(ValueError):
    """These bytes are not what this format has, or hold what is not taken."""


_SILENT = {"StackError": "nested too deeply", "FormatError": "a byte that begins nothing"}
"""msgpack's errors without words -> what they are."""


def words_of(error: BaseException) -> str:
    """What a library's error says; also where it says nothing."""
    name, words = type(error).__name__, str(error)
    return f"{name}: {words}" if words else _SILENT.get(name, name)


class _Budget:
    """How many items a message may still have."""

    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def spend(self, container: list[object] | dict[str | bytes, object]) -> None:
        self._left -= 1 + len(container)
        if self._left < 0:
            raise CodecError(f"more than {MOST_ITEMS} items in one message")


def pack(message: object, default: Callable[[object], object]) -> bytes:
    """One message.

    Args:
        message: maps, lists, numbers, texts, bytes, and what ``default`` turns into such.
        default: called with everything else; raises a :class:`CodecError` for what is not sent.

    Raises:
        CodecError: something in it cannot be sent.
    """
    import msgpack

    try:
        return cast("bytes", msgpack.packb(message, default=default))
    except CodecError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CodecError(f"cannot be sent: {error}") from error


def dtype_of(value: object, plain: re.Pattern[str]) -> np.dtype[np.generic]:
    """The type of arrays that a message names.

    Args:
        value: as it came.
        plain: what names may look like: of types without objects, which are pickles.

    Raises:
        CodecError: it is not taken.
    """
    if not isinstance(value, str) or plain.fullmatch(value) is None:
        raise CodecError(f"arrays of type {value!r:.100} are not taken")
    try:
        dtype = np.dtype(value)
    except TypeError as error:
        raise CodecError(f"{value!r} is no type of arrays") from error
    if dtype.itemsize == 0 or dtype.hasobject:
        raise CodecError(f"arrays of type {value!r} are not taken")
    return dtype


def unpack(data: bytes, hook: Callable[[dict[str | bytes, object]], object]) -> object:
    """The value that ``data`` holds, and nothing behind it.

    Args:
        data: one message, which somebody has bounded.
        hook: called with every map, innermost first; what it returns takes its place.

    Raises:
        CodecError: it is none, or has too many items; or the hook's.
    """
    import msgpack

    budget = _Budget()

    def of_map(value: dict[str | bytes, object]) -> object:
        budget.spend(value)
        return hook(value)

    def of_list(value: list[object]) -> object:
        budget.spend(value)
        return value

    try:
        return cast(
            "object",
            msgpack.unpackb(
                data,
                object_hook=of_map,
                list_hook=of_list,
                max_array_len=MOST_ITEMS,
                max_map_len=MOST_ITEMS,
            ),
        )
    except CodecError:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise CodecError(f"not a msgpack message: {words_of(error)}") from error
