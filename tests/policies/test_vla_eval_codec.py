"""vla-eval's messages, byte for byte, and what hostile ones cannot do."""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any

import msgpack
import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from tests.fakes.memory import memory_below

OBSERVATION = bytes.fromhex(
    "84 a474797065 ab6f62736572766174696f6e a77061796c6f6164 81 a6737461746573"
    " 84 ab5f5f6e6461727261795f5f c3 a464617461 c408 0000803f00000040 a56474797065 a33c6634"
    " a57368617065 9102 a3736571 03 a974696d657374616d70 cb3ff0000000000000"
)


def frame(payload: object = None, /, **changed: object) -> bytes:
    """A message with ``payload``, some of its fields changed, or left out for None."""
    whole: dict[str, object] = {"type": "action", "payload": payload or {}, "seq": 1}
    whole = {**whole, "timestamp": 0.5, **changed}
    return msgpack.packb({k: v for k, v in whole.items() if v is not None})  # type: ignore[no-any-return]


def array(**changed: object) -> dict[str, object]:
    """The map of two float32, some of it changed."""
    return {"__ndarray__": True, "data": bytes(8), "dtype": "<f4", "shape": [2], **changed}


def picture(image: PIL.Image.Image, form: str, **changed: object) -> dict[str, object]:
    """The map of a compressed picture."""
    written = io.BytesIO()
    image.save(written, form.upper())
    width, height = image.size
    shape = [height, width, len(image.getbands())]
    return {
        "__image__": True,
        "format": form,
        "data": written.getvalue(),
        "shape": shape,
        **changed,
    }


def test_an_observation_has_the_bytes_that_the_harness_sends() -> None:
    states = np.array([1.0, 2.0], "<f4")
    assert pack(Message("observation", {"states": states}, 3, 1.0)) == OBSERVATION


def test_what_was_packed_reads_back() -> None:
    message = read(OBSERVATION)
    assert (message.kind, message.seq, message.timestamp) == ("observation", 3, 1.0)
    states: Any = message.payload["states"]
    np.testing.assert_array_equal(states, np.array([1.0, 2.0], "<f4"))
    states += 1  # what comes in can be written to


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["|b1", "|i1", "|u1", "<u2", ">i4", "<i8", "<f2", "<f4", ">f8"]),
    st.lists(st.integers(0, 4), max_size=4),
    st.booleans(),
)
def test_arrays_of_every_kind_come_back_as_they_went(
    dtype: str, shape: list[int], turned: bool
) -> None:
    numbers = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if turned and shape:
        numbers = numbers[tuple(slice(None, None, -1) for _ in shape)].T
    back: Any = read(pack(Message("action", {"x": numbers}, 1, 0.0))).payload["x"]
    assert back.dtype == numbers.dtype
    np.testing.assert_array_equal(back, numbers)


def test_a_mirrored_picture_goes_as_its_contiguous_copy() -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 4, 3), dtype=np.uint8)
    turned = image[::-1, ::-1]
    assert pack(Message("action", {"x": turned}, 1, 0.0)) == pack(
        Message("action", {"x": turned.copy()}, 1, 0.0)
    )


def test_numpy_scalars_go_as_plain_numbers() -> None:
    payload = {"a": np.float32(1.5), "b": np.int64(3), "c": np.bool_(True)}
    assert read(pack(Message("hello", payload, 1, 0.0))).payload == {"a": 1.5, "b": 3, "c": True}


@pytest.mark.parametrize(
    "value",
    [np.array([object()]), np.zeros(1, complex), np.zeros(1, "V4"), np.array(["a"]), object(), {1}],
)
def test_what_the_format_does_not_have_is_not_sent(value: object) -> None:
    with pytest.raises(CodecError, match="not sent"):
        pack(Message("observation", {"x": value}, 1, 0.0))


@pytest.mark.parametrize("form", ["png", "jpeg"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_compressed_pictures_are_read(form: str, mode: str) -> None:
    image = PIL.Image.new(mode, (8, 6), 77 if mode == "L" else (10, 120, 240))
    found: Any = read(frame({"x": picture(image, form)})).payload["x"]
    assert found.shape == (6, 8, len(image.getbands()))
    assert found.dtype == np.uint8
    assert abs(found.astype(int)[..., 0] - (77 if mode == "L" else 10)).max() <= 3


def test_raw_pictures_are_read() -> None:
    raw = {
        "__image__": True,
        "format": "raw",
        "data": bytes(12),
        "dtype": "|u1",
        "shape": [2, 2, 3],
    }
    found: Any = read(frame({"x": raw})).payload["x"]
    assert found.shape == (2, 2, 3)


RGB = PIL.Image.new("RGB", (8, 6))


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"shape": [6, 9, 3]}, "whose sender says"),
        ({"shape": [6, 8, 4]}, "whose sender says"),
        ({"shape": [100_000, 100_000, 3]}, "shape"),
        ({"shape": None}, "shape None"),
        ({"data": b"no picture"}, "no png"),
        ({"data": "text"}, "str"),
        ({"format": "jpeg"}, "no jpeg"),
        ({"format": "bmp"}, "not raw, png or jpeg"),
        ({"format": None}, "not raw, png or jpeg"),
    ],
)
def test_a_picture_that_is_not_what_it_says_is_refused(
    changed: dict[str, object], says: str
) -> None:
    with pytest.raises(CodecError, match=says):
        read(frame({"x": picture(RGB, "png", **changed)}))


def test_a_png_that_claims_a_quarter_of_a_gigabyte_takes_none_of_it() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        )

    # Not so large that pillow itself refuses or warns.
    header = (9_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    bomb += chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    with memory_below(8 << 20):
        for shape in ([8, 8, 3], [9_000, 9_000, 3]):
            sent = {"__image__": True, "format": "png", "data": bomb, "shape": shape}
            with pytest.raises(CodecError, match=r"of shape|whose sender says"):
                read(frame({"x": sent}))


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": "|O"},
        {"dtype": "|V8"},
        {"dtype": "<c8"},
        {"dtype": "<M8[s]"},
        {"dtype": "<U2"},
        {"dtype": "f4,f4"},
        {"dtype": "float32"},
        {"dtype": "<f3"},
        {"dtype": None},
        {"shape": [3]},
        {"shape": [-1]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": "2"},
        {"shape": [1] * 40 + [2]},
        {"shape": [1 << 62, 4]},
        {"data": "text"},
        {"data": bytes(9)},
    ],
)
def test_an_array_that_is_not_what_it_says_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(CodecError):
        read(frame({"x": array(**changed)}))


def test_nothing_is_unpickled() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return pytest.fail, ("it was unpickled",)

    data = pickle.dumps(np.array([Bomb()]))
    for dtype in ("|O", "O", "object"):
        with pytest.raises(CodecError, match="not taken"):
            read(frame({"x": array(data=data, dtype=dtype, shape=[1])}))


@pytest.mark.parametrize("field", ["type", "payload", "seq", "timestamp"])
def test_all_four_fields_are_needed(field: str) -> None:
    with pytest.raises(CodecError, match="a message has"):
        read(frame(**{field: None}))


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "goodbye"},
        {"type": 3},
        {"payload": [1]},
        {"payload": {b"actions": 1}},
        {"seq": "1"},
        {"seq": 1.0},
        {"seq": True},
        {"timestamp": "now"},
    ],
)
def test_fields_have_their_types(changed: dict[str, object]) -> None:
    with pytest.raises(CodecError, match="a message has"):
        read(frame(**changed))


def test_an_openpi_servers_metadata_is_no_message() -> None:
    with pytest.raises(CodecError, match="has nothing and the type None"):
        read(b"\x80")


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", frame()[:-1], frame() + b"\x00", b"\x91" * 2000, b"\xa1\xff", b"\x01"]
)
def test_broken_frames_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        read(data)


def test_text_is_quoted() -> None:
    with pytest.raises(CodecError, match=r"a text frame.*Traceback"):
        read("Traceback (most recent call last)")
