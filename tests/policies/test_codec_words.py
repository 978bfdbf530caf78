"""What is wrong with bytes is said by every codec, whatever the library says or does not say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_vla_shift.policies.wires import (
    gr00t_codec,
    json_numpy,
    openpi_codec,
    vla_eval_codec,
)

Reader = Callable[[bytes], object]
MSGPACK: dict[str, Reader] = {
    "gr00t": gr00t_codec.decode,
    "openpi": openpi_codec.read,
    "vla-eval": vla_eval_codec.read,
}


@pytest.mark.parametrize("wire", MSGPACK)
@pytest.mark.parametrize(
    "data, words",
    [
        (b"\x91" * 5000, "nested too deeply"),
        (b"\x81\xa1x" * 5000, "nested too deeply"),
        (b"\xc1", "a byte that begins nothing"),
        (b"", "incomplete input"),
        (b"\x91", "incomplete input"),
        (b"\x01\x02", "extra data"),
        (b"\xa1\xff", "UnicodeDecodeError: .*invalid start byte"),
    ],
    ids=["lists", "maps", "no type", "nothing", "half", "more", "text"],
)
def test_bytes_that_are_no_message_are_described(wire: str, data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        MSGPACK[wire](data)
    assert not str(refused.value).rstrip().endswith(":")


def test_json_that_is_nested_too_deeply_is_described() -> None:
    with pytest.raises(json_numpy.CodecError, match=r"not JSON: .*recursion"):
        json_numpy.decode(b"[" * 50_000)
