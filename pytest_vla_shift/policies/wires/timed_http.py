"""HTTP exchanges that end in time, whatever the peer sends and however slowly.

The standard library's client limits each read of a socket; a peer that sends a byte now and then
holds it for ever. Here all reads and writes of an exchange share one limit.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.addresses import read_address
from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where an HTTP server listens.

    Attributes:
        secure: whether it is ``https``.
        host, port: of the URL.
        path: of the URL.
    """

    secure: bool
    host: str
    port: int
    path: str


def address_of(url: str, path: str) -> Address:
    """The parts of ``http(s)://HOST[:PORT][/PATH]``.

    Args:
        url: what was given.
        path: of a URL that has none.

    Raises:
        UsageError: it is not like that.
    """
    parts = read_address(url, ("http", "https"), 8000)
    if parts.query:
        raise UsageError(f"--vla-policy-url: {url!r} has a query, which is not sent")
    secure = parts.scheme == "https"
    found = parts.path if parts.path not in ("", "/") else path
    return Address(secure, parts.hostname or "", parts.port or (443 if secure else 80), found)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        status: the HTTP code.
        reason: its words.
        server: the header ``Server``; empty if there is none.
        body: all of it.
    """

    status: int
    reason: str
    server: str
    body: bytes

    @property
    def words(self) -> str:
        """For people: ``HTTP 500 Internal Server Error: ...`` with the body as text."""
        text = self.body.decode("utf-8", "replace").strip()
        return f"HTTP {self.status} {self.reason}: {text}" if text else f"HTTP {self.status}"


class HttpConnection:
    """Exchanges with one server, over one connection or a connection each.

    Args:
        address: of the server.
        most: bytes that the body of an answer may have.
    """

    def __init__(self, address: Address, most: int) -> None:
        self._address = address
        self._most = most
        self._kept: _Connection | None = None

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        limit_s: float,
        *,
        keep: bool = False,
    ) -> Reply:
        """The answer to one request.

        Args:
            method, path, body, headers: of the request.
            limit_s: for all of it, with the connection.
            keep: go on with the connection of the last exchange that was kept, or keep this one.

        Raises:
            Unreachable: nobody listens there.
            NoReply: there was no whole answer in time.
            WireError: the connection broke, or what came is no HTTP or too long.
        """
        until = time.monotonic() + limit_s
        connection, self._kept = (self._kept if keep else None), None
        if connection is None:
            connection = _Connection(self._address)
        connection.until = until
        try:
            connection.open()
            more = {} if keep else {"Connection": "close"}
            connection.request(method, path, body, {**headers, **more})
            found = self._read(connection)
        except TimeoutError as error:
            connection.close()
            raise NoReply(f"no whole answer within {limit_s:.3g} s") from error
        except http.client.HTTPException as error:
            connection.close()
            raise WireError(f"no answer in HTTP: {_said(error)}") from error
        except OSError as error:
            connection.close()
            raise WireError(f"the connection broke: {_said(error)}") from error
        except BaseException:
            connection.close()
            raise
        if keep and connection.sock is not None:
            self._kept = connection
        else:
            connection.close()
        return found

    def close(self) -> None:
        """Hang up. Idempotent."""
        connection, self._kept = self._kept, None
        if connection is not None:
            connection.close()

    def _read(self, connection: _Connection) -> Reply:
        answer = connection.getresponse()
        pieces: list[bytes] = []
        size = 0
        while piece := answer.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > self._most:
                raise WireError(f"an answer of more than {self._most} bytes")
        if answer.length:
            raise WireError(f"the answer broke off, {answer.length} bytes before its end")
        server = (answer.headers.get("Server") or "").strip()[:80]
        return Reply(answer.status, answer.reason[:200], server, b"".join(pieces))


class _Connection(http.client.HTTPConnection):
    """With one time limit, ``until``, for whatever is done with it."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.host, address.port)
        self._secure = address.secure
        if address.secure:
            self.default_port = http.client.HTTPS_PORT
        self.until = 0.0
        self._timed: _TimedSocket | None = None

    def open(self) -> None:
        """Connect, unless that is done.

        Raises:
            Unreachable: it cannot be.
        """
        if self.sock is not None and self._timed is not None:
            self._timed.until = self.until
            return
        try:
            plain = self._plain()
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            raise Unreachable(_said(error)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._secure:
                context = ssl.create_default_context()
                plain.settimeout(_left(self.until))
                plain = context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self.sock = self._timed = _TimedSocket(plain, self.until)  # as much of one as is used

    def connect(self) -> None:
        """Never reconnect by itself: an answer would be waited for on a connection that is new."""
        raise ConnectionResetError("the server closed the connection")

    def _plain(self) -> socket.socket:
        error: OSError | None = None
        for family, kind, proto, _, where in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, proto)
            try:
                made.settimeout(_left(self.until))
                made.connect(where)
                return made
            except OSError as failed:
                made.close()
                error = failed
        raise error or OSError(f"{self.host} has no address")


class _TimedSocket:
    """As much of a socket as the standard library's HTTP client uses."""

    def __init__(self, plain: socket.socket, until: float) -> None:
        self._plain = plain
        self.until = until

    def sendall(self, data: bytes) -> None:
        self._plain.settimeout(_left(self.until))
        self._plain.sendall(data)

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._plain))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._plain.close()


class _TimedReader(io.RawIOBase):
    """Reads a socket until its owner's limit."""

    def __init__(self, owner: _TimedSocket, plain: socket.socket) -> None:
        super().__init__()
        self._owner = owner
        self._plain = plain
        # It counts as a user of the socket: closed before the last answer is read, the socket
        # stays open until this is closed as well.
        self._raw = cast("io.RawIOBase", plain.makefile("rb", buffering=0))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._plain.settimeout(_left(self._owner.until))
        try:
            return self._plain.recv_into(buffer)
        except ssl.SSLEOFError:
            return 0

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                self._raw.close()
        super().close()


def _left(until: float) -> float:
    """Seconds until then.

    Raises:
        TimeoutError: there are none.
    """
    left = until - time.monotonic()
    if left <= 0.0:
        raise TimeoutError("timed out")
    return left


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
