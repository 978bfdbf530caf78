"""Where a policy's server will listen, from its URL and the command that starts it."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from pytest_vla_shift.policies.addresses import refuse_secrets
from pytest_vla_shift.protocol.errors import UsageError

PORT = "{port}"
"""In the URL and in the command: a port that is free."""

PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
"""Of URLs that may leave it out."""

CONNECT_S = 2.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, and its port as long as it is kept free.

    Attributes:
        url: complete.
        host, port: its parts.
        held: a socket that is bound to the port and does not listen, so that nobody else takes it.
    """

    url: str
    host: str
    port: int
    held: socket.socket | None = None

    def accepts(self) -> bool:
        """Whether somebody listens there."""
        try:
            socket.create_connection((self.host, self.port), timeout=CONNECT_S).close()
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let the server have the port. Idempotent."""
        if self.held is not None:
            self.held.close()


def settle(url: str | None, command: str) -> tuple[Endpoint, list[str]]:
    """The endpoint, and the command in words, with one port in both.

    Raises:
        UsageError: one of them is missing or malformed, they do not fit, or no port is free.
    """
    if url is None:
        raise UsageError(
            "--vla-policy-command needs --vla-policy-url, where the server will listen:"
            f" tcp://127.0.0.1:{PORT} takes a free port, for the command as well"
        )
    refuse_secrets(url)
    if (PORT in url) != (PORT in command):
        has, lacks = ("url", "command") if PORT in url else ("command", "url")
        raise UsageError(f"--vla-policy-{has} has {PORT}, but --vla-policy-{lacks} does not")
    words = _split(command)
    if PORT not in url:
        return Endpoint(url, *_host_and_port(url)), words
    host, _ = _host_and_port(url.replace(PORT, "1"))
    held, port = _reserve(host)
    found = Endpoint(url.replace(PORT, str(port)), host, port, held)
    return found, [word.replace(PORT, str(port)) for word in words]


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--vla-policy-command: {command!r}: {error}") from error
    if not words:
        raise UsageError("--vla-policy-command is empty")
    return words


def _host_and_port(url: str) -> tuple[str, int]:
    wrong = UsageError(
        f"--vla-policy-url: {url!r} is not like tcp://HOST:PORT, which is waited for"
    )
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError as error:
        raise wrong from error
    if not parts.scheme or not parts.hostname or port is None:
        raise wrong
    return parts.hostname, port


def _reserve(host: str) -> tuple[socket.socket, int]:
    """A socket that holds a free port of ``host``, bound and not listening, and the port."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        held = socket.socket(family, kind, proto)
    except OSError as error:
        raise UsageError(f"--vla-policy-url: {host!r}: {error}") from error
    try:
        held.bind(address)
    except OSError as error:
        held.close()
        raise UsageError(f"--vla-policy-url: no port of {host!r} is free here: {error}") from error
    return held, int(held.getsockname()[1])
