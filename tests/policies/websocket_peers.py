"""Servers that misbehave below the level of messages: a handshake by hand, then any bytes."""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

AMPLE_S = 10.0
"""A limit that is not to run out."""

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, TEXT, CLOSE = 2, 1, 8

Script = Callable[[socket.socket], None]
"""What a server does with a connection; when it returns, the connection is cut."""


def within(limit_s: float) -> float:
    """A deadline."""
    return time.monotonic() + limit_s


def frame(payload: bytes, opcode: int = BINARY, *, claimed: int | None = None) -> bytes:
    """A server's frame; with ``claimed``, one that says it is so long and is not."""
    size = len(payload) if claimed is None else claimed
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([size])
    elif size < 1 << 16:
        head += bytes([126]) + struct.pack(">H", size)
    else:
        head += bytes([127]) + struct.pack(">Q", size)
    return head + payload


def close_frame(code: int, reason: str = "") -> bytes:
    return frame(struct.pack(">H", code) + reason.encode(), CLOSE)


def shake_hands(peer: socket.socket) -> bytes:
    """The server's half of the handshake; the request."""
    request = b""
    while b"\r\n\r\n" not in request:
        part = peer.recv(4096)
        if not part:
            raise ConnectionError("the client hung up")
        request += part
    keys = [
        line.split(b":", 1)[1].strip()
        for line in request.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key:")
    ]
    if not keys:
        raise ConnectionError("the client asks for a page")
    (key,) = keys
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    return request


def read_frame(peer: socket.socket) -> bytes:
    """The payload of the client's next frame, which is masked."""

    def exactly(size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            part = peer.recv(size - len(got))
            if not part:
                raise ConnectionError("the client hung up")
            got += part
        return bytes(got)

    size = exactly(2)[1] & 0x7F
    if size == 126:
        (size,) = struct.unpack(">H", exactly(2))
    elif size == 127:
        (size,) = struct.unpack(">Q", exactly(8))
    mask, data = exactly(4), np.frombuffer(exactly(size), np.uint8)
    return (data ^ np.resize(np.frombuffer(mask, np.uint8), size)).tobytes()


@contextmanager
def serving(*scripts: Script) -> Iterator[str]:
    """The URL of a server that treats its n-th connection by the n-th script, then by the last."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    peers: list[socket.socket] = []

    def treat(peer: socket.socket, script: Script) -> None:
        with peer, suppress(OSError):
            script(peer)

    def accept() -> None:
        count = 0
        while not over.is_set():
            with suppress(TimeoutError):
                peer, _ = listening.accept()
                peer.settimeout(None)
                peers.append(peer)
                script = scripts[min(count, len(scripts) - 1)]
                count += 1
                threading.Thread(target=treat, args=(peer, script), daemon=True).start()

    listening.settimeout(0.05)
    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        thread.join()
        listening.close()
        for peer in peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
