"""What may listen where a GR00T server is expected: well, ill, or something else.

``Stub`` answers with what a test says, over the real transport: it is no GR00T server, and its
answers are those that NVIDIA's have (their words were read in its source).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import zmq

from pytest_vla_shift.policies.wires.gr00t_codec import Arrays, Modality, decode, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import Profile

    Reply = bytes | list[bytes] | None
    Behaviour = Callable[[str, object], object]
    """Endpoint and data -> the answer: bytes as they are, None for no answer, else encoded."""

PING = {"status": "ok", "message": "Server is running"}


class Stub:
    """A socket in a thread; what it was asked, and how the arrays of that were written."""

    def __init__(self, behaviour: Behaviour, port: int = 0) -> None:
        self.behaviour = behaviour
        self.asked: list[tuple[str, object]] = []
        self.tokens: list[object] = []
        self.arrays: set[Arrays] = set()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        until = time.monotonic() + 5
        while True:
            try:
                self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
                break
            except zmq.ZMQError:  # ZeroMQ lets go of a port some time after it is told to
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        self.url = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT)).rstrip("\0")
        self.port = int(self.url.rpartition(":")[2])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def endpoints(self) -> list[str]:
        return [endpoint for endpoint, _ in self.asked]

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._closing.is_set():
                if not self._socket.poll(5):
                    continue
                *envelope, data = self._socket.recv_multipart()
                request = decode(data, self.arrays)
                assert isinstance(request, dict)
                self.tokens.append(request.get("api_token"))
                self.asked.append((str(request["endpoint"]), request.get("data")))
                answer = self.behaviour(*self.asked[-1])
                if answer is not None:
                    frames = answer if isinstance(answer, Frames) else [_bytes(answer)]
                    self._socket.send_multipart([*envelope, *frames])
        finally:
            self._socket.close(0)


class Frames(list[bytes]):
    """An answer of several frames."""


def _bytes(answer: object) -> bytes:
    return answer if isinstance(answer, bytes) else encode(answer)


def config(profile: Profile, **changed: Modality) -> dict[str, object]:
    """What a stock server since N1.6 says of itself that fits ``profile``."""

    def said(keys: list[str], steps: int = 1) -> Modality:
        return Modality(tuple(key.partition(".")[2] for key in keys), tuple(range(steps)))

    return {
        "video": said([image.key for image in profile.images]),
        "state": said([state.key for state in profile.states]),
        "action": said(list(profile.action_widths), profile.chunk),
        "language": Modality((profile.instruction,), (0,)),
        **changed,
    }


def action_map(profile: Profile, chunk: int = 16, value: float = 0.25) -> dict[str, object]:
    """(1, T, W) float32 of one value, as a stock server behind the simulation wrapper gives it."""
    return {
        key: np.full((1, chunk, width), value, np.float32)
        for key, width in profile.action_widths.items()
    }


def stock(profile: Profile, **endpoints: object) -> Behaviour:
    """A server since N1.6 with the simulation wrapper: answers, or functions of the data."""
    answers: Mapping[str, object] = {
        "ping": PING,
        "get_modality_config": config(profile),
        "reset": {},
        "get_action": lambda _: [action_map(profile), {}],
        **endpoints,
    }

    def behave(endpoint: str, data: object) -> object:
        if endpoint not in answers:
            return {"error": f"Unknown endpoint: {endpoint}"}
        answer = answers[endpoint]
        return answer(data) if callable(answer) else answer

    return behave


@contextlib.contextmanager
def running(behaviour: Behaviour, port: int = 0) -> Iterator[Stub]:
    stub = Stub(behaviour, port)
    try:
        yield stub
    finally:
        stub.close()


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A plain TCP server, its port; ``talk`` has each connection, and hangs up by returning."""
    listening = socket.create_server(("127.0.0.1", 0))
    closing = threading.Event()

    def serve() -> None:
        while not closing.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    port = int(listening.getsockname()[1])
    try:
        yield port
    finally:
        closing.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        thread.join()
        listening.close()


def array(message: object, *path: str) -> NDArray[np.generic]:
    """The array at the end of a path of keys."""
    for key in path:
        assert isinstance(message, Mapping)
        message = message[key]
    assert isinstance(message, np.ndarray)
    return message


class Framed:
    """The server's end of a ZeroMQ connection, byte by byte: ZMTP 3.0 without a library.

    Args:
        connection: just accepted; the greetings are exchanged.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(5)
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31))
        self._read(64)
        connection.sendall(b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REP")
        self.frame()  # the client's READY

    def frame(self) -> bytes:
        """One frame of the client."""
        flags, size = self._read(1)[0], 0
        size = int.from_bytes(self._read(8 if flags & 2 else 1), "big")
        return self._read(size)

    def request(self) -> bytes:
        """What must stand in front of an answer: the request's number, and an empty frame."""
        number, empty, _ = self.frame(), self.frame(), self.frame()
        assert empty == b""
        return b"\x01" + bytes([len(number)]) + number + b"\x01\x00"

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            if not more:
                raise OSError("the client hung up")
            data += more
        return data
