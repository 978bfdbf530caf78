"""GR00T's second array encoding against the package that defines it, msgpack-numpy 0.4.8.

NVIDIA's own server cannot be installed here: it comes with the model, on CUDA. What its code does
beyond this package (requests, endpoints, words of errors) was read in its source, and is what
``tests/fakes/gr00t_peers.py`` answers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import msgpack
import msgpack_numpy
import numpy as np
import pytest
import zmq

from pytest_vla_shift.policies.baselines import Random
from pytest_vla_shift.policies.gr00t import gr00t
from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.serving.gr00t import open_service
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, decode, encode
from pytest_vla_shift.policies.wires.gr00t_layout import flat
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.gr00t_peers import PING, action_map
from tests.fakes.services import answering

PROFILE = find_profile("libero", "gr00t")
ARRAYS = [
    np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)[::-1, ::-1],
    np.array([[0.5, -1.0]], np.float32),
    np.arange(3, dtype=np.int64),
    np.array([True, False]),
    np.zeros((0, 7)),
    np.arange(3, dtype=">f8"),
]


def pack(message: object) -> bytes:
    return msgpack.packb(message, default=msgpack_numpy.encode)  # type: ignore[no-any-return]


def unpack(data: bytes) -> object:
    return msgpack.unpackb(data, object_hook=msgpack_numpy.decode, raw=False)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str}{list(a.shape)}")
def test_what_the_package_writes_is_read_and_what_is_written_it_reads(array: np.ndarray) -> None:
    read = decode(pack({"a": array}))
    assert isinstance(read, dict)
    np.testing.assert_array_equal(read["a"], array)
    assert read["a"].dtype == array.dtype.newbyteorder("=")
    back = unpack(encode({"a": array}, "msgpack-numpy"))
    assert isinstance(back, dict)
    np.testing.assert_array_equal(back["a"], array)
    assert back["a"].dtype == array.dtype


def test_the_bytes_are_the_packages_own() -> None:
    action = [action_map(PROFILE), {}]
    assert encode(action, "msgpack-numpy") == pack(action)


def test_its_scalars_are_read() -> None:
    assert decode(pack({"a": np.float32(0.5), "b": np.int64(3)})) == {"a": 0.5, "b": 3}


def test_what_it_would_unpickle_is_refused() -> None:
    for array in (np.array([{}, None], object), np.zeros(2, [("a", "<f4")])):
        with pytest.raises(CodecError, match="refused"):
            decode(pack({"a": array}))


@contextlib.contextmanager
def msgpack_numpy_server() -> Iterator[str]:
    """Answers like a server of N1.7's middle, its arrays read and written by msgpack-numpy alone.

    The latest also read what the earliest wrote; those between do not.
    """
    replies = {
        "ping": PING,
        "reset": {},
        "get_modality_config": {
            "video": {
                "__ModalityConfig__": True,
                "as_json": {"delta_indices": [0], "modality_keys": ["image", "wrist_image"]},
            }
        },
        "get_action": [action_map(PROFILE, 16, 0.25), {}],
    }

    def reply(endpoint: str, data: object) -> object:
        if endpoint == "get_action":
            assert isinstance(data, dict)
            image = data["observation"]["video.image"]
            if not isinstance(image, np.ndarray):
                return {"error": f"'image' must be a numpy array. Got {type(image)}"}
        return replies[endpoint]

    server: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REP)
    server.setsockopt(zmq.LINGER, 0)
    port = server.bind_to_random_port("tcp://127.0.0.1")
    closing = threading.Event()

    def serve() -> None:
        while not closing.is_set():
            if server.poll(5):
                request = unpack(server.recv())
                assert isinstance(request, dict)
                server.send(pack(reply(request["endpoint"], request.get("data"))))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        closing.set()
        thread.join()
        server.close(0)


def test_a_server_that_reads_nothing_else_drives_our_client() -> None:
    with (
        msgpack_numpy_server() as url,
        contextlib.closing(gr00t(settings=PolicySettings(url=url, timeout_s=5))) as policy,
    ):
        policy.reset(EPISODE, 1)
        actions = policy.act(probe_observation(PROFILE))
    np.testing.assert_array_equal(actions[:, :6], np.full((16, 6), 0.25))
    np.testing.assert_array_equal(actions[:, 6], np.ones(16))


def test_it_refuses_the_earlier_encoding_which_is_why_it_is_asked_in_its_own() -> None:
    with msgpack_numpy_server() as url, pytest.raises(UsageError, match="Got <class 'dict'>"):
        gr00t(settings=PolicySettings(url=url, timeout_s=5), arrays="npy")


def test_a_client_that_speaks_it_is_answered_by_our_server() -> None:
    client: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    client.setsockopt(zmq.LINGER, 0)
    client.setsockopt(zmq.RCVTIMEO, 5000)
    with client, answering(open_service(Host(Random(), PROFILE), port=0)) as service:
        client.connect(service.url)
        observation = flat(payload(PROFILE, probe_observation(PROFILE)))
        data = {"observation": observation, "options": {}}
        client.send(pack({"endpoint": "get_action", "data": data}))
        answer = unpack(client.recv())
    assert isinstance(answer, list)
    actions, _ = answer
    assert actions["action.x"].shape == (1, 8, 1)
    assert actions["action.x"].dtype == np.float32
