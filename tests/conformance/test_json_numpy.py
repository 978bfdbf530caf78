"""Our JSON against json-numpy 2.1.1, which OpenVLA's servers and clients use; both ways."""

from __future__ import annotations

import json

import json_numpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_vla_shift.policies import mapping
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.wires.json_numpy import CodecError, decode, encode

DTYPES = st.sampled_from(
    ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f8"]
)


@given(arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
@settings(max_examples=60, deadline=None)
def test_arrays_are_written_and_read_as_the_package_does(array: np.ndarray) -> None:
    text = encode({"x": array})
    assert text == json_numpy.dumps({"x": array})
    found = decode(text)
    assert isinstance(found, dict)
    np.testing.assert_array_equal(found["x"], array)
    assert found["x"].dtype == array.dtype
    if array.ndim and array.size:
        np.testing.assert_array_equal(found["x"], json_numpy.loads(text)["x"])


@pytest.mark.parametrize("name", ["libero", "oft-libero"])
def test_a_whole_observation_has_the_packages_bytes(name: str) -> None:
    profile = find_profile(name, "openvla")
    payload = mapping.payload(profile, probe_observation(profile))
    assert encode(payload).encode() == json_numpy.dumps(payload).encode()


def test_the_reference_vector() -> None:
    picture = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    expected = '{"a": {"__numpy__": "AAECAwQF", "dtype": "|u1", "shape": [1, 2, 3]}}'
    assert encode({"a": picture}) == json_numpy.dumps({"a": picture}) == expected


def test_a_view_turned_round_equals_its_copy() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    turned = picture[::-1, ::-1]
    assert encode(turned) == encode(turned.copy()) == json_numpy.dumps(turned)


def test_arrays_that_were_read_can_be_written_to() -> None:
    found = decode(json_numpy.dumps(np.zeros(3)))
    assert isinstance(found, np.ndarray)
    found[0] = 1.0


def test_a_chunk_as_the_servers_send_it_is_read() -> None:
    chunk = [np.arange(7) / 10 for _ in range(8)]
    sent = json_numpy.dumps(chunk, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    found = decode(sent)
    assert isinstance(found, list)
    np.testing.assert_array_equal(found, chunk)


def test_what_the_package_would_take_and_we_do_not() -> None:
    records = np.zeros(1, dtype=[("a", "<f4")])
    for array in (records, np.array(["a"]), np.zeros(1, "<c8")):
        with pytest.raises(CodecError):
            decode(json_numpy.dumps(array))
        with pytest.raises(CodecError):
            encode(array)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), b"bytes"])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(CodecError, match="cannot be sent as JSON"):
        encode({"x": value})
    assert json.loads(encode({"x": 1.5})) == {"x": 1.5}
