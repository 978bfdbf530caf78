"""The server's end of a websocket: clients that err harm neither it nor each other."""

from __future__ import annotations

import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from pytest_vla_shift.policies.serving import websocket
from pytest_vla_shift.policies.serving.websocket import Client, Gone, WebsocketService
from pytest_vla_shift.policies.wires.protocol import WireError
from pytest_vla_shift.policies.wires.websocket import Websocket
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.services import answering
from tests.policies.websocket_peers import AMPLE_S, within


def echo(client: Client) -> None:
    while True:
        client.send(client.receive())


@contextmanager
def serving(talk: Callable[[Client], None] = echo) -> Iterator[WebsocketService]:
    pages = {"/health": ("application/json", '{"status": "ok"}')}
    service = WebsocketService(talk, "127.0.0.1", 0, extra="openpi", pages=pages.get)
    with answering(service):
        yield service


def address(service: WebsocketService) -> tuple[str, int]:
    return "127.0.0.1", int(service.url.rpartition(":")[2])


def assert_it_answers(service: WebsocketService) -> None:
    connection = Websocket(service.url, AMPLE_S)
    connection.send(b"still there?", within(AMPLE_S))
    assert connection.receive(within(AMPLE_S)) == b"still there?"
    connection.close()


def test_pages_are_answered_beside_websockets() -> None:
    with serving() as service:
        plain = service.url.replace("ws:", "http:")
        with urllib.request.urlopen(f"{plain}/health", timeout=AMPLE_S) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.read() == b'{"status": "ok"}'
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{plain}/nothing", timeout=AMPLE_S)
        caught.value.close()
        assert_it_answers(service)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\x00\x01\x02\x03\r\n\r\n", b"POST /act HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"GET "],
    ids=["nothing", "bytes", "POST", "half a request"],
)
def test_who_speaks_something_else_is_dropped(sent: bytes) -> None:
    with serving() as service:
        with socket.create_connection(address(service), timeout=AMPLE_S) as other:
            other.sendall(sent)
        assert_it_answers(service)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"mask",
        b"\xff\xff\xff",
        b"\x82\x05plain",
        b"\x82\xfe\x10",
    ],
    ids=["a huge message", "garbage", "not masked", "half a frame"],
)
def test_a_client_that_breaks_the_protocol_is_gone(sent: bytes) -> None:
    gone: list[BaseException] = []

    def talk(client: Client) -> None:
        try:
            echo(client)
        except Gone as error:
            gone.append(error)
            raise

    with serving(talk) as service:
        connection = Websocket(service.url, AMPLE_S)
        raw = connection._connection.socket
        with suppress(OSError):  # it may be gone before all is sent
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
        until = within(AMPLE_S)
        while not gone and time.monotonic() < until:
            time.sleep(0.01)
        assert gone
        connection.close()
        assert_it_answers(service)


def test_a_handler_that_raises_closes_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def talk(client: Client) -> None:
        message = client.receive()
        if message == b"raise":
            raise RuntimeError("a fault of ours")
        client.send(message)
        echo(client)

    with serving(talk) as service, caplog.at_level(logging.ERROR):
        well, broken = (Websocket(service.url, AMPLE_S) for _ in range(2))
        broken.send(b"raise", within(AMPLE_S))
        with pytest.raises(WireError, match="code 1011"):
            broken.receive(within(AMPLE_S))
        well.send(b"well", within(AMPLE_S))
        assert well.receive(within(AMPLE_S)) == b"well"
        well.close()
        broken.close()
    assert "a fault of ours" in caplog.text


def test_a_handler_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "HANDLERS_S", 0.2)
    over = threading.Event()

    def hang(client: Client) -> None:
        over.wait(AMPLE_S)

    with serving(hang) as service:
        Websocket(service.url, AMPLE_S)
        time.sleep(0.05)
        began = time.monotonic()
        service.close()
        assert time.monotonic() - began < 2.0
    over.set()


def test_clients_are_answered_side_by_side() -> None:
    together = threading.Barrier(4)

    def talk(client: Client) -> None:
        together.wait(AMPLE_S)  # passed by four at once or by none
        echo(client)

    with serving(talk) as service:
        connections = [Websocket(service.url, AMPLE_S) for _ in range(4)]
        for number, connection in enumerate(connections):
            connection.send(bytes([number]), within(AMPLE_S))
        for number, connection in enumerate(connections):
            assert connection.receive(within(AMPLE_S)) == bytes([number])
            connection.close()


def test_an_ipv6_address_is_bracketed() -> None:
    try:
        service = WebsocketService(echo, "::1", 0, extra="openpi")
    except UsageError:
        pytest.skip("this machine has no IPv6")
    assert service.url.startswith("ws://[::1]:")
    service.close()
