"""A server for clients of OpenVLA and OpenVLA-OFT: ``POST /act``, with any policy of ours.

Stock clients are answered as their own servers do: one action, or a list of them for a profile
with chunks, and ``"error"`` with HTTP 200 for whatever goes wrong. They begin no rollouts and may
make a new connection for each call, so that those of one host cannot be told apart: they share one
visit, and a policy with state must have one such client a host at a time.

Clients of ours keep a connection, which is their visit, and are told errors.
"""

from __future__ import annotations

import contextlib
import hmac
import http.server
import logging
import socket
import socketserver
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_vla_shift.policies.extension import KEY
from pytest_vla_shift.policies.serving.host import PATIENCE_S, Host, Visit
from pytest_vla_shift.policies.wires.json_numpy import CodecError, decode, encode
from pytest_vla_shift.policies.wires.openvla import ABOUT
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PORT = 8000
"""That of OpenVLA's own server; OpenVLA-OFT's has 8777."""

MOST_BYTES = 1 << 25
"""Of a request: two pictures of 256 x 256 take half a megabyte."""

STANDSTILL_S = 30.0
"""How long a request that has begun may stand still."""

LOOK_S = 0.1

_log = logging.getLogger(__name__)


def open_service(
    host: Host, address: str = "127.0.0.1", port: int = PORT, token: str | None = None
) -> OpenVlaService:
    """A server that listens.

    Args:
        host: whose policy answers.
        address: where to listen.
        port: 0 for a free one.
        token: what clients must send as ``Authorization: Bearer``; None for any client.

    Raises:
        UsageError: it cannot listen there.
    """
    try:
        return OpenVlaService(host, address, port, token)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen at {address}:{port}: {error}") from error


class OpenVlaService:
    """See :func:`open_service`."""

    def __init__(self, host: Host, address: str, port: int, token: str | None) -> None:
        self.host = host
        self.token = token
        self._closed = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._lock = threading.Lock()
        self._visits: dict[str, Visit] = {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._server = _Server((address, port), family, self)
        shown = f"[{address}]" if family == socket.AF_INET6 else address
        self.url = f"http://{shown}:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answer until :meth:`close`."""
        self._idle.clear()
        try:
            while not self._closed.is_set():
                self._server.handle_request()
        finally:
            self._idle.set()

    def close(self) -> None:
        """Stop, free the port, and hang up on every client. Idempotent."""
        self._closed.set()
        self._idle.wait(10 * LOOK_S)
        self._server.server_close()
        self._server.hang_up()

    def stock_visit(self, client: str) -> Visit:
        """The visit that all stock clients of one host share."""
        with self._lock:
            if client not in self._visits:
                self._visits[client] = self.host.visit(PATIENCE_S)
            return self._visits[client]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    timeout = LOOK_S

    def __init__(
        self, address: tuple[str, int], family: socket.AddressFamily, service: OpenVlaService
    ) -> None:
        self.address_family = family
        self.service = service
        self._clients: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks up the host's name.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: object, client_address: object) -> None:
        self._clients.add(cast("socket.socket", request))
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def shutdown_request(self, request: object) -> None:
        self._clients.discard(cast("socket.socket", request))
        super().shutdown_request(request)  # type: ignore[arg-type]

    def hang_up(self) -> None:
        for client in list(self._clients):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that breaks off is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "vla-shift"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Server
    visit: Visit | None = None

    def do_GET(self) -> None:
        """What a server of ours says of itself."""
        if not self._welcome():
            return
        if self.path == "/act":  # as FastAPI answers, which tells such a server from others
            self._answer(405, {"detail": "Method Not Allowed"})
            return
        if self.path != ABOUT:
            self._answer(404, {"detail": "Not Found"})
            return
        host = self.server.service.host
        profile = f"{host.profile.name} {host.profile.digest}"
        self._answer(200, {KEY: host.announcement(), "profile": profile})

    def do_POST(self) -> None:
        """One observation."""
        if not self._welcome():
            return
        body = self._body()
        if body is None:
            return
        if self.path != "/act":
            self._answer(404, {"detail": "Not Found"})
            return
        ours = False
        try:
            sent, encoded = _payload(body)
            ours = KEY in sent
            answer = self._act(sent)
        except Exception as error:  # a policy may raise anything, and the server goes on
            words = f"{type(error).__name__}: {error}"
            _log.warning("%s: %s", self.client_address[0], " ".join(words.split()))
            self._answer(*((500, {"detail": words}) if ours else (200, "error")))
            return
        self._answer(200, encode(answer) if encoded else answer)

    def finish(self) -> None:
        """The client is gone, and its visit is over."""
        try:
            super().finish()
        finally:
            if self.visit is not None:
                self.visit.close()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing of what went well."""

    def _act(self, sent: Mapping[str, object]) -> object:
        service = self.server.service
        observation = cast("Mapping[str, NDArray[np.generic] | str]", sent)
        if KEY in sent:
            beside = sent[KEY]
            if self.visit is None:
                self.visit = service.host.visit(PATIENCE_S)
            if isinstance(beside, dict) and "begin" in beside:
                self.visit.begin(beside["begin"])
            found = self.visit.act(observation, beside)
        else:
            found = service.stock_visit(self.client_address[0]).act(observation)
        (actions,) = found.values()
        if service.host.profile.chunk > 1:
            return list(actions)
        if len(actions) > 1 and KEY not in sent:
            raise ValueError(
                f"the policy gave {len(actions)} actions, and an answer of this kind has one: serve"
                " it as openvla-oft"
            )
        return list(actions) if KEY in sent else actions[0]

    def _welcome(self) -> bool:
        token = self.server.service.token
        given = self.headers.get("Authorization", "")
        if token is None or hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return True
        self.close_connection = True
        self._answer(401, {"detail": "Unauthorized: no token, or another one"})
        return False

    def _body(self) -> bytes | None:
        """All of the request; None if it was refused, or broke off."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            self._answer(411, {"detail": "Length Required"})
            return None
        if len(length) > 12 or int(length) > MOST_BYTES:
            self.close_connection = True
            self._answer(413, {"detail": f"a request of more than {MOST_BYTES} bytes"})
            return None
        self.connection.settimeout(STANDSTILL_S)
        try:
            body = self.rfile.read(int(length))
        except OSError:
            body = b""
        self.connection.settimeout(None)
        if len(body) < int(length):
            self.close_connection = True
            return None
        return body

    def _answer(self, status: int, value: object) -> None:
        body = encode(value).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _payload(body: bytes) -> tuple[dict[str, object], bool]:
    """What was sent, and whether it was encoded twice.

    Raises:
        CodecError: it is no map.
    """
    sent = decode(body)
    encoded = isinstance(sent, dict) and set(sent) == {"encoded"}
    if encoded:
        text = cast("dict[str, object]", sent)["encoded"]
        if not isinstance(text, str):
            raise CodecError("'encoded' must be text")
        sent = decode(text)
    if not isinstance(sent, dict):
        raise CodecError("the payload is no map")
    return sent, encoded
