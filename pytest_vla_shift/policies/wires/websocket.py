"""One websocket connection to a policy's server: frames there and back, each with a deadline.

The wires that use it add what the frames mean. Stock clients of such servers switch compression
and, where they know, pings off: a server that compiles its model answers no ping for minutes. So
does this one. Proxies of the environment are not used, and redirects are not followed: both would
take observations and the token elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vla_shift.policies.addresses import read_address
from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LARGEST = 64 << 20
"""Bytes of the largest message that is taken. Observations of eight 512 x 512 cameras are 6 MiB."""

PARTING_S = 0.5
"""How long a peer may take over its half of a goodbye."""

GLANCE_S = 0.1
"""How often whoever waits looks whether the connection is about to end."""

MOST_BODY = 500
"""Of an HTTP answer that is no handshake, so many bytes are shown."""


def require_websockets(extra: str) -> None:
    """See that the package is there.

    Raises:
        UsageError: it is not; says which extra of ours brings it.
    """
    require(extra, "websockets.sync.client", "websockets.sync.server")


def check_url(url: str) -> str:
    """``url``, if it is one of a websocket: ``ws://host:port`` or ``wss://host:port``.

    Raises:
        UsageError: it is not; says how it is spelled, or that secrets do not belong into it.
    """
    read_address(url, ("ws", "wss"), 8000)
    return url


def check_token(token: str) -> str:
    """``token``, if a header can hold it.

    Raises:
        UsageError: it cannot; the message does not have it.
    """
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(
            "the token of --vla-policy-token is empty, or has characters that no HTTP header holds"
        )
    return token


def quiet_logger() -> logging.Logger:
    """For websockets, whose word on peers that vanish would be a traceback on the terminal."""
    logger = logging.getLogger(f"{__name__}.websockets")
    logger.setLevel(logging.CRITICAL)
    return logger


class Websocket:
    """A connection. Used from one thread; nothing of it outlives :meth:`close` by much.

    Args:
        url: of :func:`check_url`.
        limit_s: for connecting, TLS and the handshake together.
        headers: sent with the handshake.

    Raises:
        Unreachable: nobody listens there.
        NoReply: somebody does and says nothing.
        WireError: it is no websocket's server, or it does not want us; with its words.
    """

    def __init__(self, url: str, limit_s: float, headers: Mapping[str, str] | None = None) -> None:
        from websockets.sync.client import connect

        until = time.monotonic() + limit_s
        raw = _connected(url, until)
        try:
            with _words_of("connecting", limit_s):
                # Entered and never left: leaving waits for the peer. Entering, rather than using
                # what connect returns, works with every release.
                self._connection: ClientConnection = connect(
                    url,
                    sock=raw,
                    compression=None,
                    additional_headers=headers,
                    open_timeout=max(0.0, until - time.monotonic()),
                    ping_interval=None,
                    close_timeout=PARTING_S,
                    max_size=LARGEST,
                    # Frames that are read ahead: none is expected but the one that was asked for.
                    max_queue=1,
                    logger=quiet_logger(),
                ).__enter__()
        except BaseException:
            raw.close()
            raise
        self._open = True

    def send(self, message: bytes | str, until: float) -> None:
        """Send one message, bytes as a binary frame, text as a text frame.

        Args:
            message: all of it.
            until: when to give up, of ``time.monotonic``.

        Raises:
            NoReply: the peer takes nothing for so long.
            WireError: the connection is gone; with the peer's words, if it left any.
        """
        limit_s = max(0.0, until - time.monotonic())
        # A peer that reads nothing, or a byte now and then, would hold a sending socket for ever.
        late = threading.Event()
        timer = threading.Timer(limit_s, self._break, [late])
        timer.daemon = True
        timer.start()
        try:
            with _words_of("sending", limit_s):
                self._connection.send(message)
        except WireError as error:
            if late.is_set():
                raise NoReply(f"the server took no more bytes within {limit_s:.3g} s") from error
            raise
        finally:
            timer.cancel()

    def receive(self, until: float) -> bytes | str:
        """The next message, complete.

        Args:
            until: when to give up, of ``time.monotonic``.

        Raises:
            NoReply: none came, or not all of it.
            WireError: the connection is gone, or what came is too large; with the peer's words.
        """
        limit_s = max(0.0, until - time.monotonic())
        closing_until: float | None = None
        with _words_of("waiting for an answer", limit_s):
            while True:
                now = time.monotonic()
                try:
                    return self._connection.recv(timeout=max(0.0, min(until - now, GLANCE_S)))
                except TimeoutError:
                    if now >= until:
                        raise
                # Nothing more comes once either side has said goodbye, but websockets waits until
                # the server has closed its socket, which one that is broken may never do.
                if self._connection.protocol.state.name == "CLOSING":
                    closing_until = closing_until or now + PARTING_S
                    if now >= closing_until:
                        self._shut()

    def expect_silence(self) -> None:
        """See that nothing waits to be read: without numbers on questions and answers, a message
        too many would be taken for the answer to the next question.

        Raises:
            WireError: something does, or the connection is gone.
        """
        try:
            self.receive(time.monotonic())
        except NoReply:
            return
        raise WireError("the server sent a message that nothing had asked for")

    def close(self) -> None:
        """Hang up. Idempotent; never raises; the goodbye is said by a thread of its own."""
        if self._open:
            self._open = False
            threading.Thread(target=self._part, name="vla-websocket-goodbye", daemon=True).start()

    def _part(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
        with contextlib.suppress(Exception):
            self._connection.socket.close()

    def _break(self, late: threading.Event) -> None:
        """From a timer: let whoever sends fail."""
        late.set()
        self._shut()

    def _shut(self) -> None:
        """Cut the connection: whoever waits on it is told."""
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)


def _connected(url: str, until: float) -> socket.socket:
    """A TCP connection to the host of ``url``, whichever of its addresses takes it first."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    where = f"{host} port {port}"
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{where}: {error}") from error
    first: OSError | None = None
    for family, kind, number, _, address in addresses:
        raw = socket.socket(family, kind, number)
        try:
            raw.settimeout(max(0.001, until - time.monotonic()))
            raw.connect(address)
            raw.settimeout(None)
            return raw
        except OSError as error:
            raw.close()
            first = first or error
        except BaseException:
            raw.close()
            raise
    raise Unreachable(f"{where}: {first or 'has no address'}") from first


@contextlib.contextmanager
def _words_of(what: str, limit_s: float) -> Iterator[None]:
    """Whatever websockets and sockets raise, as errors of wires that say what happened."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    try:
        yield
    except TimeoutError as error:
        raise NoReply(f"nothing complete came within {limit_s:.3g} s of {what}") from error
    except ConnectionClosed as error:
        raise WireError(_goodbye(error)) from error
    except InvalidStatus as error:
        response = error.response
        body = bytes(response.body or b"")[:MOST_BODY].decode("utf-8", "replace").strip()
        said = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        raise WireError(f"the server answers {said}" + (f": {body}" if body else "")) from error
    except Exception as error:
        # Not only websockets' own: a peer that hangs up while the library still writes trips its
        # assertions.
        cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
        raise WireError(f"{what}: {type(error).__name__}: {error}{cause}") from error


def _goodbye(error: Exception) -> str:
    """How a connection ended, in the words of whoever ended it."""
    received, sent = getattr(error, "rcvd", None), getattr(error, "sent", None)
    if received is not None and getattr(error, "rcvd_then_sent", True) is not False:
        reason = f": {received.reason}" if received.reason else ""
        return f"the server closed the connection with code {received.code}{reason}"
    if sent is not None:
        # Websockets found something that it must not take, and said so in its own close frame.
        return f"the connection was given up with code {sent.code}: {sent.reason or 'no reason'}"
    cause = f": {error.__cause__}" if error.__cause__ is not None else ""
    return f"the server broke the connection off without a goodbye{cause}"
