"""Request and reply with a ZeroMQ server, each exchange within a time limit."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import zmq
from zmq.utils.monitor import parse_monitor_message

from pytest_vla_shift.policies.wires.protocol import NoReply, Unreachable, WireError

PORT = 5555

MOST_BYTES = 16 << 20
"""Of a reply: some kilobytes are usual. The connection to a server that sends more is cut."""

CONNECT_S = 10.0

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
)


T = TypeVar("T")


class Deadline:
    """A moment by which a whole exchange must have ended.

    Args:
        limit_s: from now on.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._until = time.monotonic() + limit_s

    def left_s(self) -> float:
        """Seconds until then; never negative."""
        return max(0.0, self._until - time.monotonic())


class Channel:
    """One REQ socket, connected.

    It is used until the first error, and closed: a REQ socket whose answer did not come cannot be
    asked again, and an answer that comes later must be read by nobody. Every request has a number
    that the answer repeats, so that one to another request is dropped.

    Args:
        host, port: where the server listens.
        deadline: for connecting.

    Raises:
        Unreachable: nobody listens there.
    """

    def __init__(self, host: str, port: int, deadline: Deadline) -> None:
        # ZeroMQ itself would knock for ever at a door that is shut, without a word, and would try
        # one address of a name alone.
        try:
            limit_s = max(0.001, min(CONNECT_S, deadline.left_s()))
            with socket.create_connection((host, port), timeout=limit_s) as knocking:
                address = str(knocking.getpeername()[0])
        except OSError as error:
            raise Unreachable(str(error)) from error
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
        self._monitor: zmq.Socket[bytes] | None = None
        self._met = False
        try:
            for option, value in (
                (zmq.LINGER, 0),
                (zmq.MAXMSGSIZE, MOST_BYTES),
                (zmq.RCVHWM, 4),  # with 1, an answer too many breaks libzmq's REQ socket
                (zmq.SNDHWM, 1),
                (zmq.REQ_CORRELATE, 1),
                (zmq.RECONNECT_IVL, -1),  # a server that was restarted is another one
                (zmq.IPV6, int(":" in address)),
            ):
                self._socket.setsockopt(option, value)
            self._monitor = self._socket.get_monitor_socket(_EVENTS)
            shown = f"[{address}]" if ":" in address else address
            self._socket.connect(f"tcp://{shown}:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise Unreachable(str(error)) from error

    def exchange(self, request: bytes, deadline: Deadline) -> bytes:
        """The answer to ``request``.

        Raises:
            NoReply: none came in time.
            WireError: the connection broke, or what came is no single message.
        """
        self._check()
        try:
            self._await(zmq.POLLOUT, deadline, lambda: self._socket.send(request, zmq.NOBLOCK))
            frames = self._await(
                zmq.POLLIN, deadline, lambda: self._socket.recv_multipart(zmq.NOBLOCK)
            )
        except zmq.Again as error:
            raise NoReply(f"no complete answer within {deadline.limit_s:g} s") from error
        except zmq.ZMQError as error:
            raise WireError(f"the socket failed: {error}") from error
        if len(frames) != 1:
            raise WireError(f"an answer of {len(frames)} frames instead of one")
        return frames[0]

    def close(self) -> None:
        """Idempotent; waits for nothing."""
        if self._monitor is not None:
            self._socket.disable_monitor()
            self._monitor = None
        self._socket.close(linger=0)

    def _await(self, event: int, deadline: Deadline, work: Callable[[], T]) -> T:
        """What ``work`` gives once the socket lets it; zmq.Again if the time is over."""
        poller = zmq.Poller()
        poller.register(self._socket, event)
        poller.register(self._monitor, zmq.POLLIN)
        while True:
            late = not deadline.left_s()
            ready = dict(poller.poll(_milliseconds(deadline)))
            try:
                # Even if the server has left: it may have answered right before.
                return work()
            except zmq.Again:
                # Nothing, or an answer to another request, which is dropped.
                if late:
                    raise
                if self._monitor in ready:
                    self._check()

    def _check(self) -> None:
        """Raises WireError if something happened to the connection."""
        while self._monitor is not None and self._monitor.poll(0):
            event = int(parse_monitor_message(self._monitor.recv_multipart())["event"])
            if event & zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._met = True
            elif not self._met:
                raise WireError(
                    "the connection was closed before it began: what listens there does not speak"
                    " ZeroMQ, or ended"
                )
            else:
                raise WireError(
                    "the connection was closed before an answer came: the server ended, or sent"
                    f" more than {MOST_BYTES >> 20} MiB"
                )


def _milliseconds(deadline: Deadline) -> int:
    return math.ceil(deadline.left_s() * 1000)
