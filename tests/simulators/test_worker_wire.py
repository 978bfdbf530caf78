"""Frames come back as they went, and whatever is no frame is refused without being run."""

from __future__ import annotations

import json
import pickle
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_vla_shift.simulators import wire
from pytest_vla_shift.simulators.wire import ChannelClosed, Frame, WireError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
any_array = arrays.arrays(
    st.sampled_from([np.dtype(np.float64), np.dtype(np.bool_)]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def through(frame: Frame) -> Frame:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(ours, frame)
        return wire.receive(theirs, time.monotonic() + 5)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4), st.lists(any_array, max_size=4))
def test_a_frame_comes_back_as_it_went(
    body: dict[str, object], sent: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]
) -> None:
    got = through(Frame(3, "step", body, sent))
    assert (got.seq, got.op, got.body) == (3, "step", body)
    assert [(a.dtype, a.shape, a.tobytes()) for a in got.arrays] == [
        (a.dtype, a.shape, a.tobytes()) for a in sent
    ]


def test_a_view_with_negative_strides_travels_as_its_values() -> None:
    view = np.arange(12.0).reshape(3, 4)[::-1, ::-1]
    (got,) = through(Frame(1, "step", {}, [view])).arrays
    assert np.array_equal(got, view)
    assert got.flags.c_contiguous
    assert got.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128, object])
def test_other_dtypes_do_not_travel(dtype: type) -> None:
    with pytest.raises(WireError, match="may not travel"):
        wire.encode(Frame(1, "step", {}, [np.zeros(3, dtype=dtype)]))


def written(header: object, payload: bytes = b"", magic: bytes = wire.MAGIC) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return wire.PREFIX.pack(magic, len(text), len(payload)) + text + payload


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(pickle.dumps({"op": "step"}) + b"." * 20, id="a pickle"),
        pytest.param(written([1, "ok", {}, []], magic=b"HTTP"), id="wrong magic"),
        pytest.param(written(b"{not json"), id="no json"),
        pytest.param(written(b"\xff\xfe\xfd"), id="no utf-8"),
        pytest.param(written({"seq": 1}), id="an object"),
        pytest.param(written([1, "ok", {}]), id="three parts"),
        pytest.param(written(["1", "ok", {}, []]), id="text as number"),
        pytest.param(written([1, "ok", {}, [["|O8", [1]]]], b"12345678"), id="object dtype"),
        pytest.param(written([1, "ok", {}, [["<f8", [2]]]], b"12345678"), id="too short"),
        pytest.param(written([1, "ok", {}, []], b"12345678"), id="too long"),
        pytest.param(written([1, "ok", {}, [["<f8", [-1]]]], b"12345678"), id="negative"),
        pytest.param(written([1, "ok", {}, [["<f8", [1.0]]]], b"12345678"), id="float size"),
        pytest.param(written([1, "ok", {}, [["<f8", [1] * 5]]], b"12345678"), id="5-d"),
        pytest.param(written([1, "ok", {}, [["<f8", [10**30]]]], b"12345678"), id="huge"),
        pytest.param(written([1, "ok", {}, [["|b1", [2]]]], b"\x01\x02"), id="no truth value"),
        pytest.param(wire.PREFIX.pack(wire.MAGIC, 2**31, 0), id="huge header"),
        pytest.param(wire.PREFIX.pack(wire.MAGIC, 2, 2**31), id="huge payload"),
    ],
)
def test_what_is_no_frame_is_refused(
    channel: tuple[socket.socket, socket.socket], data: bytes
) -> None:
    ours, theirs = channel
    ours.sendall(data)
    with pytest.raises(WireError) as caught:
        wire.receive(theirs, time.monotonic() + 5)
    assert not isinstance(caught.value, ChannelClosed)


@pytest.mark.parametrize("part", [0, 5, 20])
def test_an_end_within_or_before_a_frame_is_a_closed_channel(
    channel: tuple[socket.socket, socket.socket], part: int
) -> None:
    ours, theirs = channel
    ours.sendall(wire.encode(Frame(1, "ok", {"instruction": "pick up the ketchup"}))[:part])
    ours.close()
    with pytest.raises(ChannelClosed):
        wire.receive(theirs, time.monotonic() + 5)


def test_half_a_frame_times_out_at_the_deadline(
    channel: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = channel
    ours.sendall(wire.encode(Frame(1, "ok", {}))[:-2])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        wire.receive(theirs, began + 0.2)
    assert 0.15 < time.monotonic() - began < 2


def test_a_reader_that_is_gone_is_a_closed_channel(
    channel: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = channel
    theirs.close()
    with pytest.raises(ChannelClosed):
        wire.send(ours, Frame(1, "ok", {"filler": "x" * 2**20}))
