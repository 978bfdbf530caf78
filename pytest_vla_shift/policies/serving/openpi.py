"""A policy of ours behind openpi's wire: openpi's own client, and ours, can ask it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.serving.host import PATIENCE_S
from pytest_vla_shift.policies.serving.websocket import Client, Gone, WebsocketService
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.openpi import PORT, credential
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.policies.wires.websocket import check_token

if TYPE_CHECKING:
    from pytest_vla_shift.policies.serving.host import Host, Service, Visit

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
    visit: Visit | None = None
    try:
        visit = host.visit(PATIENCE_S)
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
        client.close(1011, REASON)
    finally:
        if visit is not None:
            visit.close()


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
