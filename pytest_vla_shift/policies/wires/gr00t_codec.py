"""The messages of GR00T's servers: msgpack, with arrays in either of two encodings.

``npy`` (N1.5, N1.6, earlier N1.7) has what ``numpy.save`` writes, ``msgpack-numpy`` (later N1.7)
the fields of that package. Both are read. Of the servers that write the latter only the latest
read the former as well, so that each is sent what it writes: its marker of modality
configurations tells which that is.

What is read is not trusted: no pickled array is opened, and a message takes at most some twenty
times its own length of memory, whatever lengths it claims.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgpack
import numpy as np

from pytest_vla_shift.policies.wires.bounded_msgpack import words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = Literal["npy", "msgpack-numpy"]
"""How arrays are written."""

MOST_ITEMS = 4096
"""Of one list or map: a header may claim more than the message could hold, and memory is taken
for what it claims. Arrays have no such bound."""

MOST_CONTAINERS = 20_000
"""Lists and maps of one message: an empty one is a byte on the wire, and sixty in memory."""

MOST_TEXT = 1 << 20
"""Bytes of one text."""

_DTYPE = re.compile(r"[<>|=]?[biuf][1248]")
_CONFIG_MARKERS: Mapping[str, Arrays] = {
    "__ModalityConfig_class__": "npy",
    "__ModalityConfig__": "msgpack-numpy",
}


class CodecError(ValueError):
    """Bytes that are no message, or a message with something in it that is refused."""


@dataclass(frozen=True, slots=True)
class Modality:
    """What a server says of ``video``, ``state``, ``action`` or ``language``.

    Attributes:
        keys: names, with the modality before them (N1.5) or without.
        steps: indices in time relative to now: of what is sent, or of the actions answered.
    """

    keys: tuple[str, ...]
    steps: tuple[int, ...]


def encode(message: object, arrays: Arrays = "npy", *, config_text: bool = False) -> bytes:
    """The bytes of a message of maps, lists, texts, numbers, arrays and :class:`Modality`.

    Args:
        message: what is sent.
        arrays: of which kind the sender is; markers of modality configurations differ as well.
        config_text: whether those have their fields as JSON text, as N1.5 does.

    Raises:
        CodecError: something in it cannot be sent.
    """

    def default(value: object) -> object:
        if isinstance(value, np.ndarray):
            _check_dtype(value.dtype)
            return _npy(value) if arrays == "npy" else _fields(value)
        if isinstance(value, Modality):
            marker = next(m for m, written in _CONFIG_MARKERS.items() if written == arrays)
            fields = {"delta_indices": list(value.steps), "modality_keys": list(value.keys)}
            return {marker: True, "as_json": json.dumps(fields) if config_text else fields}
        raise CodecError(f"a {type(value).__name__} cannot be sent")

    try:
        packed: bytes = msgpack.packb(message, default=default)
    except (TypeError, ValueError, OverflowError) as error:
        raise error if isinstance(error, CodecError) else CodecError(str(error)) from error
    return packed


def decode(data: bytes, seen: set[Arrays] | None = None) -> object:
    """What :func:`encode` and its counterparts elsewhere wrote.

    Arrays are writable, C-contiguous, of the machine's byte order, and of kinds b, i, u and f.

    Args:
        data: one message.
        seen: how whoever wrote it writes arrays is added to this, if it tells.

    Raises:
        CodecError: it cannot be read, or would not be what it says.
    """
    count = 0

    def counted(value: object) -> object:
        nonlocal count
        count += 1
        if count > MOST_CONTAINERS:
            raise CodecError(f"more than {MOST_CONTAINERS} lists and maps in one message")
        return _read(value, seen) if isinstance(value, dict) else value

    try:
        message: object = msgpack.unpackb(
            data,
            raw=False,
            object_hook=counted,
            list_hook=counted,
            ext_hook=_refuse_extension,
            max_str_len=MOST_TEXT,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
            max_ext_len=0,
        )
    except CodecError:
        raise
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise CodecError(f"no msgpack that could be read: {words_of(error)}") from error
    return message


def modality(value: object) -> Modality | None:
    """A modality's configuration; also one that came as a plain map, without its marker.

    Raises:
        CodecError: it is one, and malformed.
    """
    if isinstance(value, Modality):
        return value
    if isinstance(value, Mapping) and "modality_keys" in value:
        return _modality(value)
    return None


def _refuse_extension(code: int, data: bytes) -> object:  # noqa: ARG001
    raise CodecError("an extension type of msgpack")


def _read(found: dict[object, object], seen: set[Arrays] | None) -> object:
    """A map, or what it stands for."""
    seen = set() if seen is None else seen
    if _get(found, "__ndarray_class__") is not None:
        seen.add("npy")
        return _from_npy(_get(found, "as_npy"))
    described = _get(found, "nd")
    if described is not None and _get(found, "data") is not None:
        seen.add("msgpack-numpy")
        return _from_fields(found, array=bool(described))
    for marker, arrays in _CONFIG_MARKERS.items():
        if _get(found, marker) is not None:
            seen.add(arrays)
            content = _get(found, "as_json")
            return _modality(_get(found, "as_dict") if content is None else content)
    return found


def _get(found: dict[object, object], name: str) -> object:
    """Of a key that is text to some and bytes to others."""
    return found[name] if name in found else found.get(name.encode())


def _npy(array: NDArray[np.generic]) -> dict[str, object]:
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": written.getvalue()}


def _fields(array: NDArray[np.generic]) -> dict[bytes, object]:
    return {
        b"nd": True,
        b"type": array.dtype.str,
        b"kind": b"",
        b"shape": list(array.shape),
        b"data": array.tobytes(),
    }


_HEADERS: Mapping[tuple[int, int], Callable[[io.BytesIO], tuple[object, object, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version -> reader of the rest of the header, which is a Python literal and is only parsed. The
third version is for names of fields, which are refused anyway."""


def _from_npy(data: object) -> NDArray[np.generic]:
    if not isinstance(data, bytes):
        raise CodecError("an array without its bytes")
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise CodecError(f"an array of .npy version {version}")
        shape, fortran, dtype = _HEADERS[version](stream)
    except CodecError:
        raise
    except Exception as error:  # a literal may be malformed in many ways
        raise CodecError(f"an array whose .npy header cannot be read: {error}") from error
    _check_dtype(dtype)
    return _array(data[stream.tell() :], dtype, shape, order="F" if fortran else "C")


def _from_fields(found: dict[object, object], *, array: bool) -> NDArray[np.generic] | np.generic:
    kind, text, data = _get(found, "kind"), _get(found, "type"), _get(found, "data")
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    if kind not in (None, b"", "") or not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise CodecError(f"an array of type {str(text)[:40]!r}, kind {str(kind)[:10]!r}: refused")
    if not isinstance(data, bytes):
        raise CodecError("an array without its bytes")
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise CodecError(f"an array of type {text!r}") from error
    shape = _get(found, "shape") if array else ()
    read = _array(data, dtype, shape)
    return read if array else read[()]


def _array(
    data: bytes, dtype: np.dtype, shape: object, order: Literal["C", "F"] = "C"
) -> NDArray[np.generic]:
    if (
        not isinstance(shape, tuple | list)
        or len(shape) > 8
        or not all(type(n) is int and 0 <= n < 1 << 32 for n in shape)
        or math.prod(shape) * dtype.itemsize != len(data)
    ):
        raise CodecError(f"{len(data)} bytes for an array {dtype.str}{str(shape)[:60]}")
    try:
        read = np.frombuffer(data, dtype).reshape(tuple(shape), order=order)
    except ValueError as error:
        raise CodecError(f"an array that cannot be: {error}") from error
    return np.array(read, dtype.newbyteorder("="), order="C")


def _check_dtype(dtype: np.dtype) -> None:
    if _DTYPE.fullmatch(dtype.str) is None:
        raise CodecError(f"an array of type {dtype.str[:40]!r}, kind {dtype.kind!r}: refused")


def _modality(content: object) -> Modality:
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise CodecError(f"a modality configuration that is no JSON: {error}") from error
    if not isinstance(content, Mapping):
        raise CodecError("a modality configuration without its fields")
    keys, steps = content.get("modality_keys"), content.get("delta_indices")
    if isinstance(steps, np.ndarray):
        steps = steps.tolist()
    if (
        not isinstance(keys, list)
        or not all(isinstance(key, str) for key in keys)
        or not isinstance(steps, list)
        or not all(type(step) is int for step in steps)
    ):
        raise CodecError("a modality configuration without modality_keys and delta_indices")
    return Modality(tuple(keys), tuple(steps))
