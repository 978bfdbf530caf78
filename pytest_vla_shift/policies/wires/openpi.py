"""openpi's wire: a websocket on which the server speaks first, and then answers frame by frame.

Frames carry no numbers, and there is no message for the beginning or the end of a rollout. A
policy that raises is a text frame with the traceback, and then the connection is closed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_vla_shift.policies import extension as ours
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.policies.wires.protocol import Greeting, NoReply, WireError
from pytest_vla_shift.policies.wires.websocket import Websocket

if TYPE_CHECKING:
    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.wires.protocol import Answer
    from pytest_vla_shift.protocol.observation import EpisodeInfo

T = TypeVar("T")

PORT = 8000

LAST_LINES = 12
"""Of a traceback, so many lines are passed on: the last ones name the error."""


def credential(token: str) -> str:
    """What the header ``Authorization`` says."""
    return f"Api-Key {token}"


class OpenPiWire:
    """One connection; see :class:`~pytest_vla_shift.policies.wires.protocol.Wire`.

    Args:
        url: of a websocket.
        token: sent as ``Authorization: Api-Key ...``; None for none.
        identified: whether the metadata tells servers apart. They do, unless a server puts into
            them what differs from start to start.
    """

    def __init__(self, url: str, token: str | None = None, *, identified: bool = True) -> None:
        self._url = url
        self._identified = identified
        self._headers = {} if token is None else {"Authorization": credential(token)}
        self._socket: Websocket | None = None
        self._keys: tuple[str, ...] = ()
        self._served = False
        self._beginning: dict[str, object] | None = None

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        """Connect, and hear the metadata that the server begins with."""
        until = time.monotonic() + limit_s
        self._socket = Websocket(self._url, limit_s, self._headers)
        frame = self._socket.receive(until)
        metadata = _map(frame, "metadata")
        try:
            served = ours.announced(metadata.get(ours.KEY))
        except ours.ExtensionError as error:
            raise WireError(str(error)) from error
        self._keys = tuple(profile.action_widths)
        self._served = served is not None
        server = "openpi"
        if metadata and self._identified and not self._served:
            # Of the bytes, since whatever may be in there is told apart by them.
            said = hashlib.sha256(frame if isinstance(frame, bytes) else b"").hexdigest()[:16]
            server = f"openpi, metadata {said}"
        return Greeting(server, profile, seedable=self._served, served=served)

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:  # noqa: ARG002
        """Nothing, but to a server of ours, which hears it with the first observation."""
        self._connected().expect_silence()
        self._beginning = ours.begun(episode, seed) if self._served else None

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        """Send one observation, and read the actions that it is answered with."""
        until = time.monotonic() + limit_s
        socket = self._connected()
        sent: dict[str, object] = dict(payload)
        if extension is not None:
            beside = dict(extension)
            if self._beginning is not None:
                beside["begin"], self._beginning = self._beginning, None
            sent[ours.KEY] = beside
        frame = _coded(lambda: pack(sent))
        socket.expect_silence()
        try:
            socket.send(frame, until)
            answer = _map(socket.receive(until), "answer")
        except NoReply as error:
            raise NoReply(f"no complete answer within {limit_s:g} s") from error
        found = {
            key: value
            for key, value in answer.items()
            if isinstance(key, str) and isinstance(value, np.ndarray)
        }
        if not any(key in found for key in self._keys):
            # What servers that speak otherwise say of an error, if they are these.
            raise WireError(
                f"the answer has no array {' or '.join(map(repr, self._keys))}: {answer!r:.500}"
            )
        return found

    def close(self) -> None:
        """Hang up. Idempotent; never raises."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _connected(self) -> Websocket:
        if self._socket is None:
            raise WireError("there is no connection")
        return self._socket


def _map(frame: bytes | str, what: str) -> Mapping[str | bytes, object]:
    """The map that a frame of the server's holds.

    Raises:
        WireError: it holds none, or is a traceback.
    """
    if isinstance(frame, str):
        lines = frame.strip().splitlines()
        raise WireError(
            "the server's policy raised: " + "\n".join(lines[-LAST_LINES:] or ["(it says nothing)"])
        )
    value = _coded(lambda: read(frame))
    if not isinstance(value, dict):
        raise WireError(f"the server's {what} is a {type(value).__name__}, not a map")
    return value


def _coded(work: Callable[[], T]) -> T:
    try:
        return work()
    except CodecError as error:
        raise WireError(str(error)) from error
