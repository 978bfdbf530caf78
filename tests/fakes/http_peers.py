"""Peers that speak HTTP badly: what they answer is written out, byte by byte."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

Answer = Callable[[socket.socket, int], None]
"""Called with the connection, after a whole request was read from it, and the request's number
among those for ``/act``."""

ACTION = b"[0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class Peer:
    """A server at a free port; what asks for its page gets 404, as at a stock server.

    Args:
        answer: to the requests for ``/act``.
        about: the answer to ``GET``.
    """

    def __init__(self, answer: Answer, about: bytes = NOT_FOUND) -> None:
        self._answer = answer
        self._about = about
        self._asked = 0
        self._ended = False
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            if self._ended:
                connection.close()
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The client may be gone at any time.
        with contextlib.suppress(OSError), connection:
            while head := read_request(connection):
                if head.startswith(b"GET"):
                    connection.sendall(self._about)
                else:
                    self._asked += 1
                    self._answer(connection, self._asked)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listening.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def read_request(connection: socket.socket) -> bytes:
    """The head of the next request, when all of it is read; empty at the end."""
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(65536)
        if not part:
            return b""
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        part = connection.recv(65536)
        if not part:
            return b""
        body += part
    return head


def reply(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    """A whole answer."""
    length = f"Content-Length: {len(body)}\r\n".encode()
    return b"HTTP/1.1 " + status + b"\r\n" + more + length + b"\r\n" + body


def saying(answer: bytes, then_close: bool = False) -> Answer:
    """Send these bytes, whatever was asked."""

    def say(connection: socket.socket, number: int) -> None:
        connection.sendall(answer)
        if then_close:
            connection.shutdown(socket.SHUT_RDWR)

    return say


def after_trial(answer: Answer) -> Answer:
    """An action to the first request, and then ``answer``."""

    def say(connection: socket.socket, number: int) -> None:
        if number == 1:
            connection.sendall(reply(ACTION))
        else:
            answer(connection, number)

    return say


def dribbling(answer: bytes, every_s: float) -> Answer:
    """A byte now and then."""

    def say(connection: socket.socket, number: int) -> None:
        for byte in answer:
            connection.sendall(bytes([byte]))
            time.sleep(every_s)

    return say


def endless(connection: socket.socket, number: int) -> None:
    """A body that does not stop, as fast as it is taken."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    while True:
        connection.sendall(piece)


def silent(connection: socket.socket, number: int) -> None:
    """Nothing, and the connection stays."""
    with contextlib.suppress(OSError):
        connection.recv(1)
