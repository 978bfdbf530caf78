"""Arrays in JSON, as the json-numpy package writes them and OpenVLA's servers read them.

An array is ``{"__numpy__": base64 of its bytes in C order, "dtype": "|u1", "shape": [2, 3]}``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import cast

import numpy as np

MARK = "__numpy__"

MOST_ITEMS = 100_000
"""In a long text: observations have some dozens. Each takes many times its text's memory."""

LONG = 1 << 20
"""Of bytes: what is shorter cannot take much."""

_DTYPE = re.compile(r"[<>|=]?(?:[biu]1|[iuf][248])")


class CodecError(ValueError):
    """Not JSON, or an array in it that is none."""


def encode(value: object) -> str:
    """JSON text, the same that ``json_numpy.dumps`` gives.

    Args:
        value: of maps, lists, texts, numbers, and arrays of numbers or booleans.

    Raises:
        CodecError: it has something else in it, a bare NaN for one.
    """
    try:
        return json.dumps(value, default=_marked, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CodecError(f"cannot be sent as JSON: {error}") from error


def decode(text: str | bytes) -> object:
    """What ``text`` says; arrays are writable and of their own memory.

    Its size is the caller's to bound.

    Raises:
        CodecError: it is no JSON, is nested too deeply, has an array of another kind, or is long
            and has more than :data:`MOST_ITEMS` items.
    """
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if len(raw) > LONG and sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MOST_ITEMS:
        raise CodecError(f"JSON of more than {MOST_ITEMS} items")
    try:
        return json.loads(text, object_hook=_unmarked)
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error


def _marked(value: object) -> dict[str, object]:
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__} is neither JSON nor an array of numbers")
    return {
        MARK: base64.b64encode(value.tobytes()).decode("ascii"),
        "dtype": value.dtype.str,
        "shape": list(value.shape),
    }


def _unmarked(found: dict[str, object]) -> object:
    if MARK not in found:
        return found
    data, dtype, shape = found[MARK], found.get("dtype"), found.get("shape")
    if not isinstance(dtype, str) or _DTYPE.fullmatch(dtype) is None:
        raise CodecError(f"an array of dtype {str(dtype)[:80]!r}, which is not taken")
    if (
        not isinstance(shape, list)
        or not all(type(length) is int and length >= 0 for length in shape)
        or len(shape) > 8
        or not isinstance(data, str)
    ):
        raise CodecError("an array without its bytes or its shape")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CodecError(f"an array whose bytes are no base64: {error}") from error
    kind = np.dtype(dtype)
    if len(raw) != math.prod(cast("list[int]", shape)) * kind.itemsize:
        raise CodecError(f"an array {dtype}{shape} of {len(raw)} bytes")
    return np.frombuffer(raw, kind).reshape(shape).copy()
