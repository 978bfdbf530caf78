"""GR00T's messages, byte for byte, and what hostile ones cannot do."""

from __future__ import annotations

import contextlib
import io
import json
import pickle

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.wires.gr00t_codec import (
    MOST_CONTAINERS,
    Arrays,
    CodecError,
    Modality,
    decode,
    encode,
    modality,
)
from tests.fakes.memory import memory_below

ENCODINGS: tuple[Arrays, ...] = ("npy", "msgpack-numpy")

NPY = (
    b"\x81\xa1x\x82\xb1__ndarray_class__\xc3\xa6as_npy\xc4\x88\x93NUMPY\x01\x00v\x00"
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2), }" + b" " * 55 + b"\n" + bytes(8)
)
FIELDS = (
    b"\x92\x81\xa8action.x\x85\xc4\x02nd\xc3\xc4\x04type\xa3<f4\xc4\x04kind\xc4\x00"
    b"\xc4\x05shape\x93\x01\x02\x01\xc4\x04data\xc4\x08\x00\x00\x80?\x00\x00\x80?\x80"
)


def npy(array: object, **more: object) -> bytes:
    """A message with what numpy.save makes of ``array``, whatever it is."""
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)  # type: ignore[arg-type]
    return msgpack.packb({"__ndarray_class__": True, "as_npy": written.getvalue(), **more})  # type: ignore[no-any-return]


def fields(**changed: object) -> bytes:
    """A message with an array of two float32 in msgpack-numpy's fields, some of them changed."""
    whole: dict[str, object] = {
        "nd": True,
        "type": "<f4",
        "kind": b"",
        "shape": [2],
        "data": bytes(8),
        **changed,
    }
    return msgpack.packb({key.encode(): value for key, value in whole.items()})  # type: ignore[no-any-return]


def test_an_array_is_written_in_the_bytes_that_earlier_versions_write() -> None:
    assert encode({"x": np.zeros((1, 1, 2), np.float32)}) == NPY


def test_later_servers_arrays_have_the_bytes_that_they_have() -> None:
    assert encode([{"action.x": np.ones((1, 2, 1), np.float32)}, {}], "msgpack-numpy") == FIELDS


@pytest.mark.parametrize(
    "data, hexadecimal",
    [
        ({"endpoint": "ping"}, "81a8656e64706f696e74a470696e67"),
        (
            {"endpoint": "reset", "data": {"options": None}},
            "82a8656e64706f696e74a57265736574a46461746181a76f7074696f6e73c0",
        ),
    ],
)
def test_requests_have_the_bytes_of_the_official_client(data: object, hexadecimal: str) -> None:
    assert encode(data).hex() == hexadecimal


def test_both_encodings_are_read() -> None:
    first = decode(NPY)
    assert isinstance(first, dict)
    np.testing.assert_array_equal(first["x"], np.zeros((1, 1, 2), np.float32), strict=True)
    second = decode(FIELDS)
    assert isinstance(second, list)
    np.testing.assert_array_equal(
        second[0]["action.x"], np.ones((1, 2, 1), np.float32), strict=True
    )
    assert second[1] == {}


PICTURE = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


@pytest.mark.parametrize("arrays", ENCODINGS)
@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5, np.float32),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.arange(6, dtype=">i4"),
        np.array([1.0, np.nan, np.inf]),
        np.array([0.5], np.float16),
        PICTURE,
        PICTURE[::-1, ::-1],
        PICTURE[None, None, :, ::-1],
        np.asfortranarray(PICTURE),
    ],
    ids=lambda a: f"{a.dtype.str}{list(a.shape)}{'' if a.flags.c_contiguous else 'strided'}",
)
def test_arrays_come_back_as_they_were_and_can_be_written_to(
    array: np.ndarray, arrays: Arrays
) -> None:
    back = decode(encode({"a": array}, arrays))
    assert isinstance(back, dict)
    read = back["a"]
    np.testing.assert_array_equal(read, array)
    assert read.shape == array.shape
    assert read.dtype == array.dtype.newbyteorder("=")
    assert read.flags.c_contiguous
    assert read.flags.writeable
    assert read.flags.owndata


def test_keys_may_be_text_or_bytes_in_either_encoding() -> None:
    array = np.arange(3, dtype=np.float32)
    as_text = {"nd": True, "type": "<f4", "kind": "", "shape": [3], "data": array.tobytes()}
    written = io.BytesIO()
    np.save(written, array)
    as_bytes = {b"__ndarray_class__": True, b"as_npy": written.getvalue()}
    for message in (as_text, as_bytes, {**as_text, "type": b"<f4"}):
        np.testing.assert_array_equal(decode(msgpack.packb(message)), array, strict=True)


def test_a_scalar_of_msgpack_numpy_is_read() -> None:
    scalar = {b"nd": False, b"type": "<f8", b"data": np.float64(2.5).tobytes()}
    assert decode(msgpack.packb(scalar)) == 2.5


def test_a_map_that_only_looks_like_an_array_is_left_alone() -> None:
    assert decode(msgpack.packb({"nd": 3, "x": 1})) == {"nd": 3, "x": 1}


class Hostile:
    ran = False

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return setattr, (Hostile, "ran", True)


@pytest.mark.parametrize("kind", [b"O", "O", b"V", "V"])
def test_an_array_of_objects_is_refused_and_never_opened(kind: object) -> None:
    data = pickle.dumps(Hostile())
    for type_ in ("|O", "<f4", [["a", "<f4"]]):
        with pytest.raises(CodecError, match="refused"):
            decode(fields(kind=kind, type=type_, data=data))
    assert not Hostile.ran


@pytest.mark.parametrize(
    "array",
    [
        np.array([Hostile()], object),
        np.zeros(2, [("a", "<f4")]),
        np.zeros(2, complex),
        np.array(["text"]),
        np.array(["2026-01-01"], "M8[D]"),
    ],
    ids=lambda a: a.dtype.kind,
)
def test_a_saved_array_of_anything_but_numbers_is_refused(array: np.ndarray) -> None:
    with pytest.raises(CodecError, match="array"):
        decode(npy(array))
    assert not Hostile.ran
    with pytest.raises(CodecError, match="refused"):
        encode({"a": array})


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": [3]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [-2, -1]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": None},
        {"shape": 2},
        {"shape": [1] * 40 + [2]},
        {"type": "<f3"},
        {"type": "<c8"},
        {"type": "float32, object"},
        {"type": 4},
        {"data": "text"},
        {"data": bytes(7)},
    ],
    ids=str,
)
def test_an_array_that_is_not_what_it_says_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(CodecError):
        decode(fields(**changed))


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False}",
        "__import__('os').abort()",
        "(" * 500,
    ],
)
def test_a_saved_arrays_header_is_not_believed(header: str) -> None:
    text = header.encode()
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
    message = msgpack.packb({"__ndarray_class__": True, "as_npy": data})
    with pytest.raises(CodecError):
        decode(message)


@pytest.mark.parametrize(
    "data",
    [b"", b"no npy at all", b"\x93NUMPY", b"\x93NUMPY\x03\x00\x02\x00\x00\x00{}", 5, None],
    ids=repr,
)
def test_what_is_no_saved_array_is_refused(data: object) -> None:
    with pytest.raises(CodecError):
        decode(msgpack.packb({"__ndarray_class__": True, "as_npy": data}))


MARKERS = ("__ModalityConfig_class__", "__ModalityConfig__")
CONTENT = {
    "delta_indices": [0, 1, 2],
    "modality_keys": ["x", "gripper"],
    "sin_cos_embedding_keys": None,
    "mean_std_embedding_keys": None,
    "action_configs": [{"rep": "RELATIVE"}, {"rep": "ABSOLUTE"}],
    "something_new": {"a": 1},
}


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("key", ["as_json", "as_dict"])
@pytest.mark.parametrize("text", [True, False], ids=["text", "map"])
def test_modality_configurations_of_every_version_are_read(
    marker: str, key: str, text: bool
) -> None:
    content = json.dumps(CONTENT) if text else CONTENT
    expected = Modality(("x", "gripper"), (0, 1, 2))
    assert decode(msgpack.packb({marker: True, key: content})) == expected
    assert decode(msgpack.packb({marker.encode(): True, key.encode(): content})) == expected


def test_a_plain_map_is_read_as_a_modality_configuration_where_one_is_expected() -> None:
    assert modality(CONTENT) == Modality(("x", "gripper"), (0, 1, 2))
    indices = {**CONTENT, "delta_indices": np.arange(3)}
    assert modality(decode(encode(indices))) == Modality(("x", "gripper"), (0, 1, 2))
    assert modality({"version": 1}) is None
    assert modality(None) is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "no JSON",
        "[" * 100_000,
        '"text"',
        {"delta_indices": [0]},
        {"modality_keys": ["x"]},
        {"modality_keys": "x", "delta_indices": [0]},
        {"modality_keys": ["x"], "delta_indices": ["0"]},
        {"modality_keys": [1], "delta_indices": [0]},
    ],
    ids=lambda content: str(content)[:30],
)
def test_a_malformed_modality_configuration_is_refused(content: object) -> None:
    with pytest.raises(CodecError):
        decode(msgpack.packb({MARKERS[0]: True, "as_json": content}))


@pytest.mark.parametrize(
    "arrays, text, expected",
    [
        ("npy", False, {"__ModalityConfig_class__": True, "as_json": {}}),
        ("npy", True, {"__ModalityConfig_class__": True, "as_json": ""}),
        ("msgpack-numpy", False, {"__ModalityConfig__": True, "as_json": {}}),
    ],
)
def test_a_server_of_ours_writes_configurations_as_the_version_does(
    arrays: Arrays, text: bool, expected: dict[str, object]
) -> None:
    sent = msgpack.unpackb(encode(Modality(("x",), (0,)), arrays, config_text=text))
    assert sent.keys() == expected.keys()
    assert type(sent["as_json"]) is type(expected["as_json"])
    assert decode(msgpack.packb(sent)) == Modality(("x",), (0,))


@pytest.mark.parametrize("message", [NPY, FIELDS], ids=ENCODINGS)
def test_no_part_of_a_message_is_taken_for_one(message: bytes) -> None:
    for cut in range(len(message)):
        with pytest.raises(CodecError):
            decode(message[:cut])
    with pytest.raises(CodecError):
        decode(message + b"\x00")


@pytest.mark.parametrize(
    "message",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\x7f\xff\xff\xff" + bytes(1000),
        b"\xdf\x7f\xff\xff\xff" + bytes(1000),
        b"\xdb\x7f\xff\xff\xff" + bytes(1000),
        b"\xc6\x7f\xff\xff\xff" + bytes(1000),
        b"\xdd\x00\x00\xff\xff" * 500,
        b"\x91" * 100_000,
        b"\xdc\x0f\xff" * 1000,
        b"\xdd\x00\x01\x5f\x90" * 20_000,  # each claims 90,000 items, less than there are bytes
        b"\x81\xa1a" * 100_000,
        b"\xdc\x0f\xff" + (b"\xdc\x0f\xff" + b"\x80" * 4095) * 100,
        b"\xc7\x08\x05" + bytes(8),
        b"\xd6\xff" + bytes(4),
        b"\x81\x01\x02",
        b"\x81\xc3\x02",
        b"\xa2\xff\xfe",
        b"\xc1",
    ],
    ids=lambda message: message[:8].hex(),
)
def test_garbage_is_refused_before_it_takes_memory(message: bytes) -> None:
    with memory_below(64 << 20), pytest.raises(CodecError):
        decode(message)


def test_as_many_lists_and_maps_as_any_server_sends_are_read() -> None:
    many: list[object] = [{}] * 1000
    assert decode(msgpack.packb(many)) == many
    assert len(many) * 10 < MOST_CONTAINERS


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_whatever_bytes_come_nothing_else_is_raised(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        decode(data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([NPY, FIELDS]), st.integers(0, 160), st.integers(0, 255))
def test_one_wrong_byte_raises_nothing_else(message: bytes, at: int, byte: int) -> None:
    wrong = bytearray(message)
    wrong[at % len(wrong)] = byte
    with contextlib.suppress(CodecError):
        decode(bytes(wrong))


def test_what_no_message_can_hold_is_not_sent() -> None:
    for value in (1 << 70, object(), {1, 2}, 2j):
        with pytest.raises(CodecError):
            encode({"a": value})
