"""openpi's msgpack: golden bytes, what it refuses, and that nothing hostile costs memory."""

from __future__ import annotations

import struct
from contextlib import suppress

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.wires import bounded_msgpack
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from tests.fakes.memory import memory_below

GOLDEN = (
    "82"
    "a161 84 c40b5f5f6e6461727261795f5f c3 c40464617461 c4020102"
    " c4056474797065 a37c7531 c4057368617065 920102"
    "a173 83 c40d5f5f6e7067656e657269635f5f c3 c40464617461 cb3ff8000000000000"
    " c4056474797065 a33c6634"
)
"""Of ``{"a": uint8 [[1, 2]], "s": float32 1.5}``, written down from openpi's own client."""

MESSAGE = {"a": np.array([[1, 2]], np.uint8), "s": np.float32(1.5)}


def test_golden_bytes_are_written() -> None:
    assert pack(MESSAGE) == bytes.fromhex(GOLDEN)


def test_golden_bytes_are_read() -> None:
    found = read(bytes.fromhex(GOLDEN))
    assert isinstance(found, dict)
    assert list(found) == ["a", "s"]
    assert found["a"].dtype == np.uint8
    assert found["a"].tolist() == [[1, 2]]
    assert type(found["s"]) is np.float32
    assert found["s"] == 1.5


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", ">i4", "f2", "<f4", "f8", "<U3", "S2", "M8[ns]"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_arrays_arrive_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape).astype("i8").astype(dtype)
    found = read(pack({"x": array}))
    assert isinstance(found, dict)
    assert found["x"].dtype == array.dtype
    np.testing.assert_array_equal(found["x"], array)


def test_views_arrive_as_their_copies() -> None:
    picture = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    turned = picture[::-1, ::-1]
    assert pack({"x": turned}) == pack({"x": np.ascontiguousarray(turned)})
    assert pack({"x": picture.T}) == pack({"x": np.ascontiguousarray(picture.T)})


def test_what_is_read_is_read_only() -> None:
    found = read(pack({"x": np.zeros(3)}))
    assert isinstance(found, dict)
    assert not found["x"].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        found["x"][0] = 1.0


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array([1 + 2j]),
        np.complex64(1j),
        np.zeros(1, [("a", "f4")]),
        object(),
        {1, 2},
        2**64,
    ],
)
def test_what_cannot_be_sent_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        pack({"x": value})


def array(dtype: object = "<f4", shape: object = (1,), data: object = b"1234") -> bytes:
    marked = {b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape}
    return bytes(msgpack.packb({"x": marked}))


def scalar(dtype: object, data: object) -> bytes:
    marked = {b"__npgeneric__": True, b"data": data, b"dtype": dtype}
    return bytes(msgpack.packb({"x": marked}))


HOSTILE = {
    "nothing": b"",
    "half": bytes.fromhex(GOLDEN)[:-3],
    "two": bytes.fromhex(GOLDEN) * 2,
    "no msgpack": b"\xc1",
    "objects": array("|O", (1,), b"12345678"),
    "objects with a size": array("|O8", (1,), b"12345678"),
    "void": array("|V4"),
    "a structure": array("<f4,<f4", (1,), b"12345678"),
    "a structure in braces": array("{'names':['a'],'formats':['O']}"),
    "complex": array("<c8", (1,), b"12345678"),
    "no type": array(None),
    "an unknown type": array("<f3", (1,), b"123"),
    "no width": array("<U0", (1 << 40,), b""),
    "no data": array(data=None),
    "data as text": array(data="1234"),
    "data too short": array(shape=(2,)),
    "data too long": array(data=b"12345678"),
    "a negative shape": array(shape=(-1, -1)),
    "a shape of truth": array(shape=(True,)),
    "a shape of numbers with points": array(shape=(1.0,)),
    "no shape": array(shape=None),
    "a shape that overflows": array(shape=(1 << 63, 2, 0), data=b""),
    "too many dimensions": array(shape=(1,) * 65),
    "a huge empty array": array(shape=(0, 1 << 63), data=b""),
    "a scalar of a list": scalar("<f4", [1, 2, 3]),
    "a scalar of an object": scalar("|O8", 1),
    "a scalar of words": scalar("<i4", "many"),
    "a scalar too large": scalar("|u1", 1 << 20),
    "text that is none": b"\x81\xa1x\xa2\xff\xfe",
    "a list for a key": b"\x81\x90\x01",
    "depth": b"\x91" * 100_000,
    "depth of maps": b"\x81\xa1x" * 100_000,
}


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_taken(frame: bytes) -> None:
    with pytest.raises(CodecError):
        read(frame)


BOMBS = {
    "a list of millions of empty lists": b"\xdd" + struct.pack(">I", 8 << 20) + b"\x90" * (8 << 20),
    "lists of lists": (b"\xdc\xff\xff" + b"\x90" * 0xFFFF) * 8,
    "many lists of lists": b"\xdc\x00\x80" + (b"\xdc\xff\xff" + b"\x90" * 0xFFFF) * 128,
    "a map of many": b"\xdf\xff\xff\xff\xff" + b"\xa1x\xc0" * 1000,
    "a list that claims to be long": b"\xdd\xff\xff\xff\xff",
    "bytes that claim to be many": b"\xc6\xff\xff\xff\xff",
}


@pytest.mark.parametrize("frame", BOMBS.values(), ids=BOMBS.keys())
def test_a_small_message_does_not_become_a_large_value(frame: bytes) -> None:
    with memory_below(300 * bounded_msgpack.MOST_ITEMS), pytest.raises(CodecError):
        read(frame)


def test_as_many_items_as_are_allowed_are_read() -> None:
    size = bounded_msgpack.MOST_ITEMS - 1
    found = read(bytes(msgpack.packb([0] * size)))
    assert found == [0] * size
    with pytest.raises(CodecError, match="items"):
        read(bytes(msgpack.packb([[0] * (size - 1)])))


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(frame: bytes) -> None:
    with suppress(CodecError):
        read(frame)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_frame_with_bytes_changed_is_read_or_refused(data: st.DataObject) -> None:
    frame = bytearray(bytes.fromhex(GOLDEN))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CodecError):
        read(bytes(frame))
