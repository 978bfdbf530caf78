"""A websocket server with a thread for each connection; the wires add what the frames mean."""

from __future__ import annotations

import contextlib
import hmac
import http
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.wires.websocket import (
    LARGEST,
    PARTING_S,
    quiet_logger,
    require_websockets,
)
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection

    Pages = Callable[[str], tuple[str, str] | None]
    """Path of a GET -> content type and text of the answer; None where a websocket begins."""

POLL_S = 0.2
HANDLERS_S = 5.0
"""How long :meth:`WebsocketService.close` lets handlers end that are in the middle of an answer."""

_LOG = logging.getLogger(__name__)


class Gone(Exception):
    """The client has hung up, or broke the protocol."""


class Client:
    """The server's end of one connection."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def receive(self) -> bytes | str:
        """The next message.

        Raises:
            Gone: there is none any more.
        """
        try:
            return self._connection.recv()
        except Exception as error:  # whatever websockets finds to say about it
            raise Gone(str(error)) from error

    def send(self, message: bytes | str) -> None:
        """Send bytes as a binary frame, text as a text frame.

        Raises:
            Gone: nobody takes it.
        """
        try:
            self._connection.send(message)
        except Exception as error:  # whatever websockets finds to say about it
            raise Gone(str(error)) from error

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye, and wait shortly for the client's. Idempotent; never raises."""
        with contextlib.suppress(Exception):
            self._connection.close(code, reason)


class WebsocketService:
    """A server that listens; :class:`~pytest_vla_shift.policies.serving.host.Service`.

    Args:
        talk: called for each connection, in a thread of its own; when it returns, the connection
            is closed with 1000, and with 1011 if it raises anything but :class:`Gone`.
        address: of the interface to listen on.
        port: to listen on; 0 for a free one.
        extra: which extra of ours brings what this takes.
        pages: answers to plain HTTP requests, such as a readiness probe. They need no token.
        credential: what the header ``Authorization`` of a handshake must be; None for anything.

    Raises:
        UsageError: the port is taken or the address is not ours, or websockets is not installed.
    """

    def __init__(
        self,
        talk: Callable[[Client], None],
        address: str,
        port: int,
        *,
        extra: str,
        pages: Pages = lambda _: None,
        credential: str | None = None,
    ) -> None:
        require_websockets(extra)
        from websockets.sync.server import serve

        self._talk = talk
        self._pages = pages
        self._credential = credential
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._listening = socket.create_server((address, port), family=family)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen on {address} port {port}: {error}") from error
        self._listening.settimeout(POLL_S)
        host, self._port = self._listening.getsockname()[:2]
        self._host = f"[{host}]" if ":" in host else host
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._clients: dict[threading.Thread, Client | None] = {}
        self._server = serve(
            self._handle,
            sock=self._listening,
            compression=None,
            process_request=self._answer_request,
            ping_interval=None,
            close_timeout=PARTING_S,
            max_size=LARGEST,
            max_queue=1,
            logger=quiet_logger(),
        )

    @property
    def url(self) -> str:
        """What a client is given."""
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(self._host, self._host)
        return f"ws://{host}:{self._port}"

    def serve(self) -> None:
        """Answer until :meth:`close`."""
        # Not serve_forever: its threads keep the process alive as long as a policy hangs, and its
        # shutdown waits for them without end, or for a loop that never began.
        while not self._closing.is_set():
            try:
                raw, peer = self._listening.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._closing.is_set():
                    return
                time.sleep(POLL_S)  # too many open files, say: others may close theirs
                continue
            raw.settimeout(None)
            thread = threading.Thread(
                target=self._run, args=(raw, peer), name="vla-websocket", daemon=True
            )
            with self._lock:
                self._clients[thread] = None
            thread.start()

    def close(self) -> None:
        """Stop listening, say goodbye to every client. Idempotent."""
        with self._lock:
            first, clients = not self._closing.is_set(), dict(self._clients)
            self._closing.set()
        if first:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
            self._listening.close()
            # What the server's own shutdown, which is not called, would close. Sockets, and in
            # older releases plain descriptors.
            for name in ("shutdown_watcher", "shutdown_notifier"):
                end = getattr(self._server, name, None)
                if isinstance(end, int):
                    os.close(end)
                elif end is not None:
                    end.close()
        for client in clients.values():
            if client is not None:
                client.close(1001, "the server stops")
        until = time.monotonic() + HANDLERS_S
        for thread in clients:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _run(self, raw: socket.socket, peer: object) -> None:
        try:
            self._server.handler(raw, peer)
        finally:
            with self._lock:
                self._clients.pop(threading.current_thread(), None)

    def _handle(self, connection: ServerConnection) -> None:
        client = Client(connection)
        with self._lock:
            self._clients[threading.current_thread()] = client
        if self._closing.is_set():
            client.close(1001, "the server stops")
            return
        try:
            self._talk(client)
        except Gone:
            pass
        except Exception:
            _LOG.exception("a client's connection was given up")
            client.close(1011, "Internal server error.")

    def _answer_request(self, connection: ServerConnection, request: Request) -> Response | None:
        page = self._pages(request.path)
        if page is not None:
            kind, text = page
            response = connection.respond(http.HTTPStatus.OK, text)
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = kind
            return response
        if self._credential is not None:
            given = request.headers.get_all("Authorization")
            if len(given) != 1 or not hmac.compare_digest(
                given[0].encode(errors="replace"), self._credential.encode()
            ):
                return connection.respond(http.HTTPStatus.UNAUTHORIZED, "a token is needed\n")
        return None
