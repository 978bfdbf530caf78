"""vla-eval's messages as bytes: msgpack, arrays as maps with marked keys, which are text.

Arrays go out as ``__ndarray__`` maps, pictures too: vla-eval's servers take both forms, and this
one needs no PNG encoder. What comes in may be an ``__image__`` map as well, which vla-eval's own
client sends.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla_shift.policies.wires import bounded_msgpack
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError, dtype_of, unpack, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("hello", "observation", "action", "episode_start", "episode_end", "error")
"""What a message may be."""

_ARRAY, _IMAGE = "__ndarray__", "__image__"
_PLAIN = re.compile(r"[<>|=]?[biuf]\d{1,2}")
_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
MOST_PIXELS = 1 << 24
"""Of a compressed picture: 4096 x 4096. A few bytes of PNG can claim as many as they like."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of either side.

    Attributes:
        kind: of :data:`KINDS`; ``type`` on the wire.
        payload: maps with text keys, lists, numbers, texts, bytes and arrays.
        seq: the sender's number; an answer has that of the question.
        timestamp: seconds since 1970.
    """

    kind: str
    payload: Mapping[str, object]
    seq: int
    timestamp: float


def pack(message: Message) -> bytes:
    """One frame.

    Raises:
        CodecError: something in it cannot be sent.
    """
    raw = {
        "type": message.kind,
        "payload": dict(message.payload),
        "seq": message.seq,
        "timestamp": message.timestamp,
    }
    return bounded_msgpack.pack(raw, _packed)


def read(frame: bytes | str) -> Message:
    """What a frame holds. Arrays in it are writable and their own.

    Raises:
        CodecError: it is no message of vla-eval's, or holds what is not taken.
    """
    if isinstance(frame, str):
        raise CodecError(f"a text frame, where vla-eval sends bytes: {frame:.500}")
    raw = unpack(frame, _read_map)
    if not isinstance(raw, dict):
        raise CodecError(f"a message is a map, not a {type(raw).__name__}")
    kind, payload = raw.get("type"), raw.get("payload")
    seq, timestamp = raw.get("seq"), raw.get("timestamp")
    if (
        kind not in KINDS
        or not isinstance(payload, dict)
        or not all(isinstance(key, str) for key in payload)
        or type(seq) is not int
        or type(timestamp) not in (int, float)
    ):
        keys = ", ".join(map(repr, raw)) or "nothing"
        raise CodecError(
            f"a message has a type of {', '.join(KINDS)}, a payload, a seq and a timestamp; this"
            f" one has {keys:.200} and the type {kind!r:.50}"
        )
    return Message(cast("str", kind), payload, seq, float(cast("float", timestamp)))


def _packed(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise CodecError(f"arrays of type {value.dtype} are not sent")
        # The order of the keys is part of the format, as far as bytes are to be equal.
        return {
            _ARRAY: True,
            "data": value.tobytes(),
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    raise CodecError(f"a {type(value).__name__} is not sent")


def _read_map(value: dict[str | bytes, object]) -> object:
    if _IMAGE in value:
        return _image(value)
    if _ARRAY in value:
        return _array(value)
    return value


def _array(value: Mapping[str | bytes, object]) -> NDArray[np.generic]:
    dtype, data = dtype_of(value.get("dtype"), _PLAIN), value.get("data")
    shape = _shape(value.get("shape"))
    if not isinstance(data, bytes) or math.prod(shape) * dtype.itemsize != len(data):
        size = len(data) if isinstance(data, bytes) else type(data).__name__
        raise CodecError(f"an array of {dtype} and shape {shape} with {size} bytes")
    try:
        return np.frombuffer(data, dtype).reshape(shape).copy()
    except ValueError as error:
        raise CodecError(f"an array of {dtype} and shape {shape}: {error}") from error


def _image(value: Mapping[str | bytes, object]) -> NDArray[np.generic]:
    form = value.get("format")
    if form == "raw":
        return _array(value)
    if form not in ("png", "jpeg"):
        raise CodecError(f"a picture of the format {form!r:.50}, not raw, png or jpeg")
    data, shape = value.get("data"), _shape(value.get("shape"))
    if not isinstance(data, bytes) or len(shape) != 3 or math.prod(shape[:2]) > MOST_PIXELS:
        raise CodecError(f"a picture of shape {shape} and {type(data).__name__}")
    try:
        import PIL.Image
    except ImportError as error:
        raise CodecError(
            f"a picture came as {form}, which takes pillow to read: pip install pillow"
        ) from error
    try:
        with PIL.Image.open(io.BytesIO(data), formats=(form.upper(),)) as picture:
            height, width, channels = shape
            # Nothing is decompressed before its size is known to be the one that was said.
            if picture.size != (width, height) or _CHANNELS.get(picture.mode) != channels:
                raise CodecError(
                    f"a picture of {picture.size[1]} x {picture.size[0]} pixels, {picture.mode},"
                    f" whose sender says {shape}"
                )
            return np.array(picture).reshape(shape)
    except CodecError:
        raise
    except Exception as error:  # pillow raises a dozen kinds for broken files
        raise CodecError(f"a picture that is no {form}: {words_of(error)}") from error


def _shape(value: object) -> list[int]:
    if not isinstance(value, list) or len(value) > 32:
        raise CodecError(f"an array of shape {value!r:.100}")
    sizes = [size for size in value if type(size) is int and size >= 0]
    if len(sizes) != len(value):
        raise CodecError(f"an array of shape {value!r:.100}")
    return sizes
