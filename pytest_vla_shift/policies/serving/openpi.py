"""A policy of ours behind openpi's wire: openpi's own client, and ours, can ask it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.serving.host import PATIENCE_S, HostBusy
from pytest_vla_shift.policies.serving.websocket import Client, Gone, WebsocketService
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.openpi import PORT, credential
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.policies.wires.websocket import check_token

if TYPE_CHECKING:
    from pytest_vla_shift.policies.serving.host import Host, Service, Visit

TRY_LATER, BROKEN = 1013, 1011
"""Codes of a websocket's end."""

BUSY = "the policy keeps state and offers no sessions: it serves one client at a time"

LONGEST_REASON = 123
"""Bytes that a websocket's goodbye has for words."""

REASON = "Internal server error. Traceback included in previous frame."

_LOG = logging.getLogger(__name__)


def open_service(
    host: Host, address: str = "127.0.0.1", port: int = PORT, token: str | None = None
) -> Service:
    """A server of ``host`` that listens.

    Args:
        host: the policy, with a profile of this wire.
        address, port: where; port 0 for a free one.
        token: what clients must send as ``Authorization: Api-Key``; None for nothing.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    require("openpi", "msgpack")
    return WebsocketService(
        lambda client: _talk(host, client),
        address,
        port,
        extra="openpi",
        pages=lambda path: ("text/plain; charset=utf-8", "OK\n") if path == "/healthz" else None,
        credential=None if token is None else credential(check_token(token)),
    )


def _talk(host: Host, client: Client) -> None:
    """Metadata; then an answer to every observation, until something goes wrong."""
    try:
        visit = host.visit(PATIENCE_S)
    except Exception as error:
        # The first frame is the metadata, and openpi's own client takes whatever comes for it: a
        # text would be its TypeError. The words of a goodbye are shown by its library.
        _LOG.warning("%s: %s", type(error).__name__, error)
        busy = isinstance(error, HostBusy)
        words = BUSY if busy else f"{type(error).__name__}: {error}"
        client.close(TRY_LATER if busy else BROKEN, shortened(words, LONGEST_REASON))
        return
    try:
        client.send(pack({extension.KEY: host.announcement()}))
        while True:
            client.send(_answer(visit, client.receive()))
    except Gone:
        raise
    except Exception as error:
        # As openpi's server does: text for a traceback, and the end. Of ours the last line is sent:
        # a path of this machine's is nobody's business.
        _LOG.warning("%s: %s", type(error).__name__, error)
        client.send(f"Traceback, its last line:\n{type(error).__name__}: {error}")
        client.close(BROKEN, REASON)
    finally:
        visit.close()


def shortened(text: str, most: int) -> str:
    """``text``, or as much of its beginning as ``most`` bytes of UTF-8 hold."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _answer(visit: Visit, frame: bytes | str) -> bytes:
    """What an observation is answered with."""
    if isinstance(frame, str):
        raise CodecError("a text frame, where an observation was expected")
    began = time.monotonic()
    sent = read(frame)
    if not isinstance(sent, Mapping):
        raise CodecError(f"a {type(sent).__name__}, where an observation was expected")
    beside = sent.get(extension.KEY)
    if isinstance(beside, Mapping) and "begin" in beside:
        visit.begin(beside["begin"])
    answer: dict[str, object] = dict(visit.act(sent, beside))
    answer["server_timing"] = {"infer_ms": 1000.0 * (time.monotonic() - began)}
    return pack(answer)
