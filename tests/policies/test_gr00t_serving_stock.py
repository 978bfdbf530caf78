"""A policy of ours as a GR00T server, for stock clients and for bad ones."""

from __future__ import annotations

import numpy as np
import pytest
import zmq

from pytest_vla_shift.policies.wires.gr00t_codec import Arrays, Modality, decode, encode
from pytest_vla_shift.policies.wires.gr00t_layout import flat, nested, unbatched
from tests.fakes.gr00t_peers import array
from tests.fakes.gr00t_served import PROFILE, SENT, Raw, serving
from tests.fakes.noting_policies import Recording


@pytest.mark.parametrize("layout", ["flat", "nested"])
@pytest.mark.parametrize("arrays", ["npy", "msgpack-numpy"])
def test_a_stock_client_is_answered_as_stock_servers_do(layout: str, arrays: Arrays) -> None:
    policy = Recording()
    sent = flat(SENT) if layout == "flat" else nested(SENT)
    with serving(policy, arrays=arrays) as url, Raw(url) as client:
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}
        assert client.call("reset", {"options": {"seed": 5}}) == {}
        answer = client.call("get_action", {"observation": sent, "options": None})
    assert isinstance(answer, list)
    actions, information = answer
    assert information == {}
    assert list(actions) == [
        key if layout == "flat" else key.removeprefix("action.") for key in PROFILE.action_widths
    ]
    for action in actions.values():
        assert action.shape == (1, 4, 1)
        assert action.dtype == np.float32
    gripper = actions["action.gripper" if layout == "flat" else "gripper"]
    np.testing.assert_array_equal(gripper[0, :, 0], [0.0, 1.0, 1.0, 0.0])  # 0 closes
    assert policy.begun[0][0].instruction == SENT[PROFILE.instruction]
    assert policy.begun[0][1] == 5


def test_a_stock_client_may_write_arrays_either_way_and_is_answered_in_its_own() -> None:
    request = {"data": {"observation": flat(SENT)}}  # without an endpoint
    with serving(Recording()) as url, Raw(url) as client:
        markers: dict[Arrays, bytes] = {"npy": b"as_npy", "msgpack-numpy": b"\xc4\x02nd\xc3"}
        for arrays, marker in markers.items():
            client.socket.send(encode(request, arrays))
            reply = client.socket.recv()
            assert marker in reply
            answer = decode(reply)
            assert isinstance(answer, list)
            assert array(answer[0], "action.x").shape == (1, 4, 1)


@pytest.mark.parametrize("batched", [False, True])
def test_a_stock_n15_client_is_answered_as_n15_does(batched: bool) -> None:
    sent = flat(SENT) if batched else unbatched(SENT)
    with serving(Recording(), api="n1.5") as url, Raw(url) as client:
        assert client.call("reset", {"options": None}) == {"error": "Unknown endpoint: reset"}
        config = client.call("get_modality_config")
        answer = client.call("get_action", sent)
    assert isinstance(config, dict)
    assert config["action"] == Modality(tuple(PROFILE.action_widths), (0, 1, 2, 3))
    assert config["video"].keys == ("video.image", "video.wrist_image")
    assert "vla_shift" not in config
    assert array(answer, "action.x").shape == ((1, 4, 1) if batched else (4,))


def test_the_configuration_is_the_profiles() -> None:
    with serving(Recording()) as url, Raw(url) as client:
        config = client.call("get_modality_config")
    assert isinstance(config, dict)
    assert config["video"] == Modality(("image", "wrist_image"), (0,))
    assert config["state"] == Modality(("x", "y", "z", "roll", "pitch", "yaw", "gripper"), (0,))
    assert config["action"] == Modality(
        ("x", "y", "z", "roll", "pitch", "yaw", "gripper"), (0, 1, 2, 3)
    )
    assert config["language"] == Modality((PROFILE.instruction,), (0,))


def changed(key: str, value: object) -> dict[str, object]:
    return {"observation": {**flat(SENT), key: value}, "options": None}


BAD: list[tuple[bytes, str]] = [
    (b"\xc1", "msgpack"),
    (b"", "msgpack"),
    (encode([]), "a request is a map"),
    (encode({"endpoint": "nope"}), "Unknown endpoint: nope"),
    (encode({"endpoint": "kill"}), "Unknown endpoint: kill"),
    (encode({"endpoint": 5}), "Unknown endpoint: 5"),
    (encode({"endpoint": "get_action"}), "'video.image' must be in observation"),
    (encode({"endpoint": "get_action", "data": [1]}), "'data' is a map"),
    (encode({"endpoint": "reset", "data": {"options": 5}}), "'options' is a map"),
    (encode({"endpoint": "reset", "data": {"options": {"seed": "x"}}}), "a seed is"),
    (
        encode({"endpoint": "reset", "data": {"options": {"vla_shift": {"episode": 5}}}}),
        "'episode' must be list",
    ),
    *(
        (encode({"endpoint": "get_action", "data": data}), words)
        for data, words in [
            (changed("video.image", np.zeros((1, 1, 8, 8, 3), np.float32)), "expected uint8"),
            (changed("video.image", np.zeros((1, 8, 8, 3), np.uint8)), "5 dimensions"),
            (changed("video.image", np.zeros((5, 1, 8, 8, 3), np.uint8)), "one observation"),
            (changed("video.image", "text"), "is a str"),
            (changed("state.x", np.zeros((1, 1, 1))), "float64[1, 1, 1]; expected float32"),
            (changed("state.x", np.zeros((1, 1, 2), np.float32)), "expected [1]"),
            (changed("state.x", np.zeros((1, 2, 1), np.float32)), "of one moment"),
            (changed(PROFILE.instruction, ["a", "b"]), "one sentence"),
            (changed(PROFILE.instruction, 5), "one sentence"),
        ]
    ),
]


def test_no_request_ends_the_server_and_each_is_told_what_is_wrong() -> None:
    with serving(Recording()) as url, Raw(url) as client:
        for request, words in BAD:
            answer = client.send(request)
            assert isinstance(answer, dict)
            assert list(answer) == ["error"]
            assert words in answer["error"]
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}


def test_a_frame_too_many_is_an_error_and_nothing_more() -> None:
    with serving(Recording()) as url, Raw(url, zmq.DEALER) as client:
        for frames in (
            [b"", b"\x80", b"\x80"],
            [b"", encode({"endpoint": "ping"}), b""],
            [b""],
        ):
            client.socket.send_multipart(frames)
        client.socket.send_multipart([b"way", b"back", b"", encode({"endpoint": "ping"})])
        while (reply := client.socket.recv_multipart())[:3] != [b"way", b"back", b""]:
            assert "error" in decode(reply[-1])  # type: ignore[operator]
        assert decode(reply[3]) == {"status": "ok", "message": "Server is running"}


def test_a_client_without_an_envelope_is_answered_without_one() -> None:
    with serving(Recording()) as url, Raw(url, zmq.DEALER) as client:
        assert client.call("ping") == {"status": "ok", "message": "Server is running"}


def test_a_stock_client_that_tells_no_beginning_begins_with_each_sentence() -> None:
    policy = Recording()
    other = {**flat(SENT), PROFILE.instruction: ["open the drawer"]}
    with serving(policy) as url, Raw(url) as client:
        for observation in (flat(SENT), flat(SENT), other):
            client.call("get_action", {"observation": observation})
    assert [info.instruction for info, _ in policy.begun] == [
        SENT[PROFILE.instruction],
        "open the drawer",
    ]


def test_a_reset_without_a_seed_begins_with_the_servers() -> None:
    policy = Recording()
    with serving(policy, seed=77) as url, Raw(url) as client:
        for options in (None, {}, {"seed": 3}):
            client.call("reset", {"options": options})
            client.call("get_action", {"observation": flat(SENT)})
    assert [seed for _, seed in policy.begun] == [77, 77, 3]
