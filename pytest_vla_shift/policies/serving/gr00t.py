"""A policy of ours as a GR00T server, for stock clients and for ours."""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.serving import gr00t_requests as requests
from pytest_vla_shift.policies.serving.host import HostBusy
from pytest_vla_shift.policies.wires.gr00t_channel import PORT
from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, decode, encode
from pytest_vla_shift.protocol.errors import UsageError

if TYPE_CHECKING:
    from pytest_vla_shift.policies.serving.host import Host, Visit
    from pytest_vla_shift.policies.wires.gr00t import Api
    from pytest_vla_shift.policies.wires.gr00t_codec import Arrays

MOST_BYTES = 64 << 20
"""Of a request: two pictures of 256 pixels are 400 KB. Who sends more is hung up on."""

POLL_MS = 50
PARTING_S = 5.0
"""How long :meth:`Gr00tService.close` waits for an answer that is being made."""

LEAVING_S = 1.0
"""How long a place is waited for whose client may be gone already."""


def open_service(
    host: Host,
    address: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    *,
    api: Api = "n1.6",
    arrays: Arrays | None = None,
) -> Gr00tService:
    """A server that listens; :class:`~pytest_vla_shift.policies.serving.host.Service`.

    Args:
        host: the policy.
        address: of the interface to listen on.
        port: to listen on; 0 for a free one.
        token: what a request's ``api_token`` must be; None for anything.
        api: as which version it answers. N1.5 has no place for what our own clients say, and so
            cannot serve a privileged policy.
        arrays: how arrays are written in answers; None for as the client writes its own.

    Raises:
        UsageError: the port is taken, or the address is not ours.
    """
    return Gr00tService(host, address, port, token, api, arrays)


@dataclass
class _Client:
    """One connection of one client.

    Attributes:
        descriptor: of its TCP connection.
        visit: its place at the policy, from its first observation or reset on.
        seed: of the rollout that a stock client began and has not yet shown anything of.
        arrays: how it writes them; what every version reads until it has written one.
    """

    descriptor: int
    visit: Visit | None = None
    seed: int | None = None
    arrays: Arrays = "npy"


class Gr00tService:
    """See :func:`open_service`. Requests are answered one after another, as stock servers do."""

    def __init__(
        self,
        host: Host,
        address: str,
        port: int,
        token: str | None,
        api: Api,
        arrays: Arrays | None,
    ) -> None:
        self._host = host
        self._token = token
        self._api = api
        self._arrays: Arrays | None = arrays
        self._clients: dict[bytes, _Client] = {}
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._server: int | None = None
        self._lock = threading.Lock()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        shown = f"[{address}]" if ":" in address else address
        try:
            for option, value in (
                (zmq.LINGER, 0),
                (zmq.MAXMSGSIZE, MOST_BYTES),
                (zmq.RCVHWM, 4),
                (zmq.TCP_KEEPALIVE, 1),
                (zmq.IPV6, int(":" in address)),
            ):
                self._socket.setsockopt(option, value)
            self._monitor: zmq.Socket[bytes] = self._socket.get_monitor_socket(
                zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
            )
            self._socket.bind(f"tcp://{shown}:{port or '*'}")
        except zmq.ZMQError as error:
            self._socket.close(linger=0)
            raise UsageError(f"cannot listen on {address} port {port}: {error}") from error
        self._url = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT)).rstrip("\0")
        self._endpoints: dict[str, Callable[[_Client, object], object]] = {
            "ping": lambda _client, _data: {"status": "ok", "message": "Server is running"},
            "get_modality_config": self._config,
            "get_action": self._act,
        }
        if api != "n1.5":
            self._endpoints["reset"] = self._reset

    @property
    def url(self) -> str:
        """``tcp://HOST:PORT``."""
        return self._url

    def serve(self) -> None:
        """Answer until :meth:`close`, which may be called from any thread."""
        with self._lock:
            if self._closing.is_set():
                return
            self._server = threading.get_ident()
        try:
            while not self._closing.is_set():
                if self._socket.poll(POLL_MS):
                    self._answer_next()
                else:
                    self._see_who_left()
        finally:
            self._free()
            self._ended.set()

    def close(self) -> None:
        """Stop, and free the port. Idempotent."""
        with self._lock:
            self._closing.set()
            server = self._server
        if server is None:
            self._free()
        elif server != threading.get_ident():
            self._ended.wait(PARTING_S)

    def _free(self) -> None:
        for client in self._clients.values():
            _leave(client)
        self._clients.clear()
        if self._socket.closed:
            return
        with contextlib.suppress(zmq.ZMQError):
            self._socket.unbind(self._url)
            # The port is free when ZeroMQ's own thread has closed it.
            while self._monitor.poll(int(LEAVING_S * 1000)):
                event = parse_monitor_message(self._monitor.recv_multipart())
                if event["event"] == zmq.EVENT_CLOSED:
                    break
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disable_monitor()
        self._socket.close(linger=0)

    def _answer_next(self) -> None:
        frames = self._socket.recv_multipart(copy=False)
        sender = frames[0].bytes
        # In front of the request stands whatever finds the way back, and an empty frame.
        empty = next((at for at, frame in enumerate(frames[:-1]) if not frame.bytes), 0)
        envelope = [frame.bytes for frame in frames[: empty + 1]]
        self._see_who_left()
        try:
            client = self._client(sender, int(frames[0].get(zmq.SRCFD)))
        except zmq.ZMQError:
            return  # it is gone
        try:
            if len(frames) != empty + 2:
                raise CodecError(f"a request of {len(frames) - empty - 1} frames instead of one")
            reply = self._answer(client, frames[-1].bytes)
        except Exception as error:
            # Whatever a request does, the next one is answered; as stock servers say it.
            reply = self._encoded(client, {"error": str(error) or type(error).__name__})
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send_multipart([*envelope, reply])

    def _answer(self, client: _Client, data: bytes) -> bytes:
        seen: set[Arrays] = set()
        request = decode(data, seen)
        if seen:
            client.arrays = "npy" if "npy" in seen else "msgpack-numpy"
        if not isinstance(request, Mapping):
            raise CodecError("a request is a map")
        if self._token is not None:
            given = request.get("api_token")
            if not isinstance(given, str) or not hmac.compare_digest(
                given.encode(), self._token.encode()
            ):
                return self._encoded(client, {"error": "Unauthorized: Invalid API token"})
        endpoint = request.get("endpoint", "get_action")
        if not isinstance(endpoint, str) or endpoint not in self._endpoints:
            raise CodecError(f"Unknown endpoint: {str(endpoint)[:100]}")
        return self._encoded(client, self._endpoints[endpoint](client, request.get("data", {})))

    def _encoded(self, client: _Client, message: object) -> bytes:
        arrays = self._arrays or client.arrays
        return encode(message, arrays, config_text=self._api == "n1.5")

    def _config(self, _client: _Client, _data: object) -> object:
        prefixed = self._api == "n1.5"
        config = requests.modality_config(self._host.profile, self._host.spec.chunk, prefixed)
        if self._api == "n1.5":
            return config
        return {**config, extension.KEY: self._host.announcement()}

    def _reset(self, client: _Client, data: object) -> object:
        options = requests.part_of(data, "options")
        begun = options.get(extension.KEY)
        visit = self._visit(client)
        if begun is None:
            seed = options.get("seed", self._host.seed)
            if type(seed) is not int:
                raise CodecError(f"a seed is a whole number, not a {type(seed).__name__}")
            client.seed = seed  # the sentence comes with the first observation
        else:
            visit.begin(begun)
            client.seed = None
        return {}

    def _act(self, client: _Client, data: object) -> object:
        profile = self._host.profile
        if self._api == "n1.5":
            seen, batched = requests.read_n15(data, profile)
            found = self._visit(client).act(seen)
            return requests.answer_n15(found, batched=batched)
        options = requests.part_of(data, "options")
        seen, layout = requests.read(requests.part_of(data, "observation"), profile)
        visit = self._visit(client)
        beside = options.get(extension.KEY)
        if beside is None and client.seed is not None:
            visit.begin(sentence=str(seen[profile.instruction]), seed=client.seed)
            client.seed = None
        found = visit.act(seen, beside)
        return requests.answer(found, layout, exact=beside is not None)

    def _client(self, sender: bytes, descriptor: int) -> _Client:
        client = self._clients.get(sender)
        if client is None:
            self._gone(descriptor)  # whose end was not told: only so many events are kept
            client = self._clients[sender] = _Client(descriptor)
        return client

    def _visit(self, client: _Client) -> Visit:
        until = time.monotonic() + LEAVING_S
        while client.visit is None:
            try:
                client.visit = self._host.visit()
            except HostBusy:
                # Whose place it is may have hung up a moment ago.
                if time.monotonic() > until:
                    raise
                self._monitor.poll(POLL_MS)
                self._see_who_left()
        return client.visit

    def _see_who_left(self) -> None:
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())
            if event["event"] == zmq.EVENT_DISCONNECTED:
                self._gone(int(event["value"]))

    def _gone(self, descriptor: int) -> None:
        for sender in [s for s, c in self._clients.items() if c.descriptor == descriptor]:
            _leave(self._clients.pop(sender))


def _leave(client: _Client) -> None:
    visit, client.visit = client.visit, None
    if visit is not None:
        visit.close()
