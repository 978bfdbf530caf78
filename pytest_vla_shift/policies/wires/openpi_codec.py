"""openpi's msgpack: arrays and numpy scalars as maps with marked keys, which are bytes.

What :func:`pack` gives equals what openpi's own client sends, byte for byte.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.wires import bounded_msgpack
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError, dtype_of, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Value = NDArray[np.generic] | np.generic | str | bytes | float | int | bool | None

_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"
_DATA, _DTYPE, _SHAPE = b"data", b"dtype", b"shape"

# Plain numbers, texts and times: neither objects, which are pickles, nor structures nor complex
# numbers, which openpi does not take either.
_PLAIN = re.compile(r"[<>|=]?[biufUSmM]\d{1,6}(\[\d{0,6}[A-Za-z]{1,2}\])?")
_REFUSED = "VOc"


def pack(message: object) -> bytes:
    """One frame.

    Args:
        message: maps with text keys, lists, numbers, texts, arrays and numpy scalars.

    Raises:
        CodecError: something in it cannot be sent.
    """
    return bounded_msgpack.pack(message, _packed)


def read(frame: bytes) -> object:
    """What a frame holds. Arrays in it are read-only: they share its memory.

    Raises:
        CodecError: it is not openpi's format, or holds what is not taken.
    """
    return unpack(frame, _read_map)


def _packed(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _REFUSED:
        raise CodecError(f"arrays of type {value.dtype} are not sent")
    # The order of the keys is part of the format, as far as bytes are to be equal.
    if isinstance(value, np.ndarray):
        return {
            _ARRAY: True,
            _DATA: value.tobytes(),
            _DTYPE: value.dtype.str,
            _SHAPE: value.shape,
        }
    if isinstance(value, np.generic):
        return {_SCALAR: True, _DATA: value.item(), _DTYPE: value.dtype.str}
    raise CodecError(f"a {type(value).__name__} is not sent")


def _read_map(value: dict[str | bytes, object]) -> object:
    if _ARRAY in value:
        return _array(value)
    if _SCALAR in value:
        return _scalar(value)
    return value


def _array(value: dict[str | bytes, object]) -> NDArray[np.generic]:
    data, shape = value.get(_DATA), value.get(_SHAPE)
    dtype = dtype_of(value.get(_DTYPE), _PLAIN)
    if (
        not isinstance(data, bytes)
        or not isinstance(shape, list)
        or len(shape) > 32
        or not all(type(n) is int and n >= 0 for n in shape)
        or math.prod(shape) * dtype.itemsize != len(data)
    ):
        size = len(data) if isinstance(data, bytes) else type(data).__name__
        raise CodecError(f"an array of {dtype} and shape {shape!r:.100} with {size} bytes")
    try:
        return np.ndarray(shape, dtype, buffer=data)
    except (ValueError, TypeError, OverflowError) as error:
        raise CodecError(f"an array of {dtype} and shape {shape}: {error}") from error


def _scalar(value: dict[str | bytes, object]) -> np.generic:
    dtype, data = dtype_of(value.get(_DTYPE), _PLAIN), value.get(_DATA)
    if not isinstance(data, bool | int | float | str | bytes):
        raise CodecError(f"a {dtype} made of a {type(data).__name__}")
    try:
        return dtype.type(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise CodecError(f"a {dtype} made of {data!r:.100}: {error}") from error
