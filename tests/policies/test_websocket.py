"""The client's end of a websocket: whatever the peer does, an answer or an error in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError
from pytest_vla_shift.policies.wires.websocket import Websocket, check_token, check_url
from pytest_vla_shift.protocol.errors import UsageError
from tests.policies.websocket_peers import (
    AMPLE_S,
    TEXT,
    close_frame,
    closed_port,
    frame,
    read_frame,
    serving,
    shake_hands,
    within,
)

SHORT_S = 0.3
"""A limit that is to run out."""

T = TypeVar("T")


def in_time(work: Callable[[], T], limit_s: float = SHORT_S) -> T:
    """What ``work`` gives, which must not take much more than ``limit_s``."""
    began = time.monotonic()
    try:
        return work()
    finally:
        assert time.monotonic() - began < limit_s + 1.0


def after_handshake(*parts: bytes, pause_s: float = 0.0) -> Callable[[socket.socket], None]:
    """Sends ``parts`` and then waits until the client has gone."""

    def script(peer: socket.socket) -> None:
        shake_hands(peer)
        for part in parts:
            peer.sendall(part)
            time.sleep(pause_s)
        while peer.recv(65536):
            pass

    return script


def test_a_message_goes_there_and_back_whole() -> None:
    def echo(peer: socket.socket) -> None:
        shake_hands(peer)
        peer.sendall(frame(read_frame(peer)))
        peer.sendall(frame(read_frame(peer), TEXT))

    message = bytes(range(256)) * 1200
    with serving(echo) as url:
        connection = Websocket(url, AMPLE_S)
        connection.send(message, within(AMPLE_S))
        assert connection.receive(within(AMPLE_S)) == message
        connection.send("words", within(AMPLE_S))
        assert connection.receive(within(AMPLE_S)) == "words"
        connection.close()


def test_headers_are_sent_and_compression_is_not_offered() -> None:
    requests: list[bytes] = []

    def listen(peer: socket.socket) -> None:
        requests.append(shake_hands(peer))

    with serving(listen) as url:
        Websocket(url, AMPLE_S, {"Authorization": "Api-Key s3cret"}).close()
    assert b"Authorization: Api-Key s3cret\r\n" in requests[0]
    assert b"Sec-WebSocket-Extensions" not in requests[0]


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(after_handshake(frame(b"hello"))) as url:
        connection = Websocket(url, AMPLE_S)
        assert connection.receive(within(AMPLE_S)) == b"hello"
        connection.close()


def test_nobody_listens() -> None:
    port = closed_port()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1 port {port}: .*refused"):
        Websocket(f"ws://127.0.0.1:{port}", AMPLE_S)


def test_no_such_host() -> None:
    with pytest.raises(Unreachable, match=r"no-such-host\.invalid port 80"):
        Websocket("ws://no-such-host.invalid", AMPLE_S)


def test_no_handshake_comes() -> None:
    with (
        serving(lambda peer: time.sleep(2 * SHORT_S)) as url,
        pytest.raises(NoReply, match=r"within 0\.\d+ s of connecting"),
    ):
        in_time(lambda: Websocket(url, SHORT_S))


def test_a_handshake_that_dribbles() -> None:
    def dribble(peer: socket.socket) -> None:
        for byte in b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" * 20:
            peer.sendall(bytes([byte]))
            time.sleep(0.02)

    with serving(dribble) as url, pytest.raises(NoReply):
        in_time(lambda: Websocket(url, SHORT_S))


def test_an_http_server_that_is_none_of_websockets_is_quoted() -> None:
    def refuse(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 19\r\n\r\nstill loading model"
        )

    with (
        serving(refuse) as url,
        pytest.raises(WireError, match=r"HTTP 503 Service Unavailable: still loading model"),
    ):
        Websocket(url, AMPLE_S)


def test_a_server_that_is_none_of_http() -> None:
    def babble(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(b"\x83\xa6status\xa2ok\r\n\r\n")

    with serving(babble) as url, pytest.raises(WireError, match=r"connecting: Invalid"):
        Websocket(url, AMPLE_S)


def test_a_redirect_is_not_followed_with_the_token() -> None:
    asked: list[bytes] = []

    def elsewhere(peer: socket.socket) -> None:
        asked.append(peer.recv(4096))

    with serving(elsewhere) as other:

        def redirect(peer: socket.socket) -> None:
            peer.recv(4096)
            peer.sendall(
                f"HTTP/1.1 302 Found\r\nLocation: {other}/\r\nContent-Length: 0\r\n\r\n".encode()
            )

        with serving(redirect) as url, pytest.raises(WireError):
            Websocket(url, AMPLE_S, {"Authorization": "Api-Key s3cret"})
    assert asked == []


def test_no_answer_comes() -> None:
    with serving(after_handshake()) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(NoReply, match="waiting for an answer"):
            in_time(lambda: connection.receive(within(SHORT_S)))
        connection.close()


def test_half_a_frame_and_then_nothing() -> None:
    with serving(after_handshake(frame(b"x" * 10, claimed=1000))) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(NoReply):
            in_time(lambda: connection.receive(within(SHORT_S)))
        connection.close()


def test_half_a_frame_and_then_the_end() -> None:
    def cut(peer: socket.socket) -> None:
        shake_hands(peer)
        peer.sendall(frame(b"x" * 10, claimed=1000))

    with serving(cut) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError, match="broke the connection off without a goodbye"):
            connection.receive(within(AMPLE_S))
        connection.close()


def test_an_answer_that_dribbles_is_given_up_when_the_time_is_over() -> None:
    message = frame(b"x" * 100)
    parts = [message[at : at + 1] for at in range(len(message))]
    with serving(after_handshake(*parts, pause_s=0.02)) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(NoReply):
            in_time(lambda: connection.receive(within(SHORT_S)))
        connection.close()


def test_endless_fragments_are_given_up_when_the_time_is_over() -> None:
    def endless(peer: socket.socket) -> None:
        shake_hands(peer)
        peer.sendall(b"\x02\x01x")  # the first of a binary message, not the last
        while True:
            peer.sendall(b"\x00\x01x")
            time.sleep(0.01)

    with serving(endless) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError):
            in_time(lambda: connection.receive(within(SHORT_S)))
        connection.close()


def test_a_message_that_claims_to_be_huge_is_refused_before_it_comes() -> None:
    with serving(after_handshake(frame(b"", claimed=1 << 40))) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError, match="code 1009"):
            in_time(lambda: connection.receive(within(AMPLE_S)))
        connection.close()


def test_garbage_for_a_frame() -> None:
    with serving(after_handshake(b"\xff\xff\xff\xff\xff")) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError, match="code 1002"):
            in_time(lambda: connection.receive(within(AMPLE_S)))
        connection.close()


def test_text_that_is_none() -> None:
    with serving(after_handshake(frame(b"\xff\xfe", TEXT))) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError):
            in_time(lambda: connection.receive(within(AMPLE_S)))
        connection.close()


def test_a_goodbye_is_quoted() -> None:
    with serving(after_handshake(close_frame(1011, "Internal server error."))) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(WireError, match=r"code 1011: Internal server error\."):
            in_time(lambda: connection.receive(within(AMPLE_S)))
        connection.close()


def test_a_peer_that_reads_nothing_does_not_hold_a_sender() -> None:
    def deaf(peer: socket.socket) -> None:
        shake_hands(peer)
        time.sleep(3 * SHORT_S)

    with serving(deaf) as url:
        connection = Websocket(url, AMPLE_S)
        with pytest.raises(NoReply, match=r"took no more bytes within 0\.3"):
            in_time(lambda: connection.send(bytes(32 << 20), within(SHORT_S)))
        in_time(connection.close, 0.0)


def test_a_message_that_nobody_asked_for_is_noticed() -> None:
    with serving(after_handshake(frame(b"one"), frame(b"two"))) as url:
        connection = Websocket(url, AMPLE_S)
        assert connection.receive(within(AMPLE_S)) == b"one"
        time.sleep(0.05)
        with pytest.raises(WireError, match="nothing had asked for"):
            connection.expect_silence()
        connection.close()


def test_silence_is_silence() -> None:
    with serving(after_handshake(frame(b"one"))) as url:
        connection = Websocket(url, AMPLE_S)
        assert connection.receive(within(AMPLE_S)) == b"one"
        connection.expect_silence()
        connection.close()


def test_pings_are_answered_while_nothing_is_asked() -> None:
    """Servers of websockets ping every 20 s, and hang up if no pong comes: simulators take longer
    than that between two questions."""
    pongs: list[bytes] = []
    answered = threading.Event()

    def ping(peer: socket.socket) -> None:
        shake_hands(peer)
        peer.sendall(frame(b"mark", 9))
        pongs.append(read_frame(peer))
        answered.set()

    with serving(ping) as url:
        connection = Websocket(url, AMPLE_S)
        assert answered.wait(AMPLE_S)
        connection.close()
    assert pongs == [b"mark"]


def test_closing_waits_for_nobody_and_leaves_no_thread() -> None:
    def ours() -> list[threading.Thread]:
        return [t for t in threading.enumerate() if "goodbye" in t.name or "recv_ev" in t.name]

    with serving(after_handshake()) as url:  # says no goodbye of its own
        connection = Websocket(url, AMPLE_S)
        assert ours()
        in_time(connection.close, -0.8)
        connection.close()
        until = within(AMPLE_S)
        while ours() and time.monotonic() < until:
            time.sleep(0.02)
        assert not ours()


def test_a_goodbye_is_said() -> None:
    frames: list[bytes] = []
    heard = threading.Event()

    def listen(peer: socket.socket) -> None:
        shake_hands(peer)
        frames.append(read_frame(peer))
        heard.set()

    with serving(listen) as url:
        Websocket(url, AMPLE_S).close()
        assert heard.wait(AMPLE_S)
    assert frames == [(1000).to_bytes(2, "big")]


@pytest.mark.parametrize("url", ["ws://127.0.0.1:8000", "wss://host/path", "ws://[::1]:1"])
def test_urls_that_are_right(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url, words",
    [
        ("127.0.0.1:8000", "write ws://127.0.0.1:8000"),
        ("gpu-box:8000", "write ws://gpu-box:8000"),
        ("http://gpu-box:8000", "write ws://gpu-box:8000"),
        ("https://gpu-box", "write wss://gpu-box"),
        ("tcp://127.0.0.1:5555", "write ws://127.0.0.1:5555"),
        ("ws://", "names no host"),
        ("ws://host:99999", "out of range"),
        ("ws://user:s3cret@host:1", "--vla-policy-token"),
    ],
)
def test_urls_that_are_wrong_are_spelled_right(url: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_url(url)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a\r\nX-Evil: 1", "gehe\u00efm", "tab\there"])
def test_tokens_that_no_header_holds_are_refused_and_not_shown(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_token(token)
    assert not token or token not in str(caught.value)
