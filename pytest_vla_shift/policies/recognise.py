"""Which kind of policy's server listens somewhere, for the message that it is not the right one."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vla_shift.policies.addresses import SECURE
from pytest_vla_shift.policies.wires.protocol import NoReply, WireError
from pytest_vla_shift.policies.wires.timed_http import Address, HttpConnection

if TYPE_CHECKING:
    from pytest_vla_shift.policies.wires.timed_http import Reply

LOOK_S = 1.0
"""For each question; a server that is as slow as that is not recognised."""

PEEK_S = 0.3
"""How soon a ZeroMQ server greets whoever connects."""

MOST_BODY = 1 << 12

PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "tcp": 5555}

SCHEMES = {"gr00t": "tcp", "openpi": "ws", "vla-eval": "ws", "openvla": "http"}
"""Wire -> how its URLs begin, where the connection is not encrypted."""


def with_hint(words: str, url: str, wire: str) -> str:
    """``words``, and a sentence if the server at ``url`` is one of another wire than ``wire``.

    It is asked no more than how it is: no observation and no token is sent.

    Args:
        words: why it could not be used. If they name a policy already, nothing is added.
        url: where it listens.
        wire: that it was asked in.
    """
    found = None if "--vla-policy=" in words else kind_at(url)
    if found in (None, wire):
        return words
    parts = urlsplit(url)
    scheme = SCHEMES[found] + ("s" if parts.scheme in SECURE else "")
    return (
        f"{words}. It looks like a server for --vla-policy={found}"
        f" --vla-policy-url={scheme}://{parts.netloc}"
    )


def kind_at(url: str) -> str | None:
    """The wire of the server at ``url``, if it is one that can be told. Never raises.

    GR00T's speak ZeroMQ, which sends a signature first. openpi's and vla-eval's have pages that say
    that they are well, at different paths. OpenVLA's have a page that takes nothing but ``POST``.
    """
    # Whoever does not answer one page in time has no other.
    with contextlib.suppress(ValueError, OSError, NoReply):
        parts = urlsplit(url)
        secure, host = parts.scheme in SECURE, parts.hostname or ""
        port = parts.port or PORTS.get(parts.scheme, 0)
        if not secure and _greets_in_zeromq(host, port):
            return "gr00t"
        for wire, path, fits in _PAGES:
            connection = HttpConnection(Address(secure, host, port, path), MOST_BODY)
            try:
                reply = connection.exchange("GET", path, None, {}, LOOK_S)
            except NoReply:
                raise
            except WireError:
                continue
            if fits(reply):
                return wire
    return None


def _greets_in_zeromq(host: str, port: int) -> bool:
    """The first byte of a ZMTP greeting is 255, its tenth 127."""
    with socket.create_connection((host, port), timeout=PEEK_S) as raw:
        raw.settimeout(PEEK_S)
        try:
            said = raw.recv(10)
        except TimeoutError:
            return False
    return said[:1] == b"\xff" and said[9:10] in (b"", b"\x7f")


def _openpi(reply: Reply) -> bool:
    return reply.status == 200 and reply.body.strip() == b"OK"


def _vla_eval(reply: Reply) -> bool:
    try:
        said = json.loads(reply.body)
    except (ValueError, RecursionError):
        return False
    return reply.status == 200 and isinstance(said, Mapping) and said.get("status") == "ok"


def _openvla(reply: Reply) -> bool:
    return reply.status == 405


_PAGES: tuple[tuple[str, str, Callable[[Reply], bool]], ...] = (
    ("openpi", "/healthz", _openpi),
    ("vla-eval", "/health", _vla_eval),
    ("openvla", "/act", _openvla),
)
