"""Frames between the parent and a simulator worker: a JSON header, then raw arrays.

A frame is ``MAGIC``, the header's length, the payload's length, the header, the payload. The header
is one JSON object; arrays travel behind it as their C-order bytes, with dtype and shape from a
short list. Nothing is ever unpickled. A frame that breaks a rule raises :class:`WireError`, and
whoever reads it must close the channel: there is no way back into step.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64] | NDArray[np.bool_]

VERSION = 1
"""Raised whenever an older worker would misread a frame."""

MAGIC = b"vls1"
PREFIX = struct.Struct("<4sII")
MAX_HEADER = 4 * 2**20
MAX_PAYLOAD = 64 * 2**20
ITEM_SIZES = {"<f8": 8, "|b1": 1}
"""The dtypes that may travel."""

MAX_DIMENSIONS = 4


class WireError(Exception):
    """The other side wrote something that is no frame of ours."""


class ChannelClosed(WireError):
    """The other side closed the channel, or died."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message.

    Attributes:
        seq: the request's number; a reply carries that of its request.
        op: the operation, or ``ok`` or ``error`` in a reply.
        body: JSON-able.
        arrays: dtypes of :data:`ITEM_SIZES` only; ``body`` refers to them by their index.
    """

    seq: int
    op: str
    body: Mapping[str, object] = field(default_factory=dict)
    arrays: Sequence[Array] = ()


def encode(frame: Frame) -> bytes:
    """The frame's bytes.

    Raises:
        WireError: an array's dtype is not on the list, or the frame is too large.
    """
    blobs: list[bytes] = []
    described: list[list[object]] = []
    for array in frame.arrays:
        code = array.dtype.str
        if code not in ITEM_SIZES or array.ndim > MAX_DIMENSIONS:
            raise WireError(f"an array of dtype {code} and shape {array.shape} may not travel")
        described.append([code, list(array.shape)])
        blobs.append(array.tobytes())
    header = json.dumps(
        [frame.seq, frame.op, frame.body, described], separators=(",", ":")
    ).encode()
    size = sum(map(len, blobs))
    _check_sizes(len(header), size)
    return b"".join((PREFIX.pack(MAGIC, len(header), size), header, *blobs))


def send(channel: socket.socket, frame: Frame, deadline: float = math.inf) -> None:
    """Write one frame.

    Raises:
        TimeoutError: ``deadline`` (of ``time.monotonic``) passed.
        ChannelClosed: nobody reads any more.
        WireError: the frame may not travel; nothing was written.
    """
    data = encode(frame)
    try:
        _limit(channel, deadline)
        channel.sendall(data)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ChannelClosed("the channel is closed") from error


def receive(channel: socket.socket, deadline: float = math.inf) -> Frame:
    """Read one frame; its arrays own their memory and are writable.

    Raises:
        TimeoutError: ``deadline`` (of ``time.monotonic``) passed.
        ChannelClosed: end of file, within a frame or before one.
        WireError: what came is no frame.
    """
    magic, header_size, payload_size = PREFIX.unpack(_read(channel, PREFIX.size, deadline))
    if magic != MAGIC:
        raise WireError(f"a frame begins with {MAGIC!r}, not with {magic!r}")
    _check_sizes(header_size, payload_size)
    header = _read(channel, header_size, deadline)
    return _decode(header, _read(channel, payload_size, deadline))


def _decode(header: bytearray, payload: bytearray) -> Frame:
    try:
        parts: object = json.loads(header)
    except ValueError as error:
        raise WireError(f"the header is no JSON: {error}") from error
    match parts:
        case [int() as seq, str() as op, dict() as body, list() as described]:
            return Frame(seq, op, body, _arrays(described, payload))
    raise WireError("the header is not [seq, op, body, arrays]")


def _arrays(described: list[object], payload: bytearray) -> list[Array]:
    arrays: list[Array] = []
    start = 0
    for item in described:
        match item:
            case [str() as code, list() as shape] if code in ITEM_SIZES:
                sizes = [size for size in shape if type(size) is int and size >= 0]
            case _:
                raise WireError(f"no array that may travel: {item!r}")
        if len(sizes) != len(shape) or len(sizes) > MAX_DIMENSIONS:
            raise WireError(f"no shape of an array: {shape!r}")
        end = start + math.prod(sizes) * ITEM_SIZES[code]
        if end > len(payload):
            raise WireError("the arrays are longer than the payload")
        blob = payload[start:end]
        if code == "<f8":
            arrays.append(np.frombuffer(blob, np.float64).reshape(sizes))
        else:
            if blob.strip(b"\0\1"):
                raise WireError("a truth value that is neither 0 nor 1")
            arrays.append(np.frombuffer(blob, np.bool_).reshape(sizes))
        start = end
    if start != len(payload):
        raise WireError("the arrays are shorter than the payload")
    return arrays


def _check_sizes(header: int, payload: int) -> None:
    if header > MAX_HEADER or payload > MAX_PAYLOAD:
        raise WireError(f"a frame of {header} + {payload} bytes is too large")


def _read(channel: socket.socket, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        _limit(channel, deadline)
        try:
            got = channel.recv_into(view)
        except ConnectionResetError as error:
            raise ChannelClosed("the channel was reset") from error
        if got == 0:
            raise ChannelClosed("the channel is closed")
        view = view[got:]
    return data


def _limit(channel: socket.socket, deadline: float) -> None:
    if deadline == math.inf:
        channel.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    channel.settimeout(left)
