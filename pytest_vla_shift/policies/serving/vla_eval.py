"""A policy of ours behind vla-eval's wire: the harness's own client, and ours, can ask it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import numpy as np

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.extras import require
from pytest_vla_shift.policies.serving.host import PATIENCE_S
from pytest_vla_shift.policies.serving.websocket import Client, Gone, WebsocketService
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.vla_eval import ACTIONS, NAME, PORT, VERSION, credential
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from pytest_vla_shift.policies.wires.vla_eval_specs import declared_actions, declared_observations
from pytest_vla_shift.policies.wires.vla_eval_terms import (
    LONG,
    SHORT_TO_LONG,
    STATE,
    WRIST,
    flat,
)
from pytest_vla_shift.policies.wires.websocket import check_token

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.serving.host import Host, Service, Visit

_LOG = logging.getLogger(__name__)


def open_service(
    host: Host, address: str = "127.0.0.1", port: int = PORT, token: str | None = None
) -> Service:
    """A server of ``host`` that listens.

    Args:
        host: the policy, with a profile of this wire.
        address, port: where; port 0 for a free one.
        token: what clients must send as ``Authorization: Bearer``; None for nothing. vla-eval's own
            client sends none.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    require("vla-eval", "msgpack")
    return WebsocketService(
        lambda client: _talk(host, client),
        address,
        port,
        extra="vla-eval",
        pages=page,
        credential=None if token is None else credential(check_token(token)),
    )


def page(path: str) -> tuple[str, str] | None:
    """What plain HTTP is answered: ``/health``, and ``/config``, which changes nothing here."""
    parts = urlsplit(path)
    if parts.path == "/health":
        return "application/json", json.dumps({"status": "ok"}) + "\n"
    if parts.path == "/config":
        asked = sorted(parse_qs(parts.query, keep_blank_values=True))
        found: dict[str, object] = {"applied": {}, "config": {"max_batch_size": 1}}
        if asked:
            found["errors"] = [f"nothing can be changed here: {name}" for name in asked]
        return "application/json", json.dumps(found) + "\n"
    return None


def hello(host: Host) -> dict[str, object]:
    """The payload that a hello is answered with: whatever the policy needs is asked for."""
    profile = host.profile
    params: dict[str, object] = {}
    if any(image.key == "images/wrist" for image in profile.images):
        params[WRIST] = True
    states = [state for state in profile.states if state.key in ("states", "controller_states")]
    if states:
        params[STATE] = True
    if any(
        part.quantity in (*SHORT_TO_LONG.values(), "eef_axis_angle")
        for state in states
        for part in state.parts
    ):
        params[LONG] = True
    payload: dict[str, object] = {
        "harness_version": NAME,
        "protocol_version": VERSION,
        "model_server": f"vla-shift serve {host.spec.name}",
        "capabilities": {extension.KEY: host.announcement()},
        "action_spec": declared_actions(profile),
        "observation_spec": declared_observations(profile),
    }
    if params:
        payload["observation_params"] = params
    return payload


def _talk(host: Host, client: Client) -> None:
    talk = _Talk(host, client)
    try:
        talk.run()
    finally:
        talk.close()


class _Talk:
    """One client's messages, one after another."""

    def __init__(self, host: Host, client: Client) -> None:
        self._host = host
        self._client = client
        self._visit: Visit | None = None
        self._fresh = False
        self._left: list[NDArray[np.float32]] = []

    def run(self) -> None:
        """Answer until the client goes, or sends what is no message."""
        while True:
            try:
                message = read(self._client.receive())
            except CodecError as error:
                # vla-eval's own servers close without a word.
                self._say("error", {"error": f"message_failed: {error}"}, 0)
                return
            if message.kind == "hello":
                self._say("hello", hello(self._host), message.seq)
            elif message.kind == "episode_start":
                self._try("episode_start_failed", message, self._start)
            elif message.kind == "observation":
                self._try("observation_failed", message, self._observe)

    def close(self) -> None:
        """The client is gone."""
        if self._visit is not None:
            self._visit.close()

    def _try(self, what: str, message: Message, work: Callable[[Message], None]) -> None:
        try:
            work(message)
        except Gone:
            raise
        except Exception as error:
            _LOG.debug("%s", what, exc_info=True)
            words = f"{what}: {type(error).__name__}: {error}"
            self._say("error", {"error": words}, message.seq)

    def _start(self, message: Message) -> None:
        self._left.clear()
        task = message.payload.get("task")
        begun = task.get(extension.KEY) if isinstance(task, Mapping) else None
        # A stock client tells the sentence with the first observation alone.
        self._fresh = begun is None
        if begun is not None:
            self._seat().begin(begun)

    def _observe(self, message: Message) -> None:
        beside = message.payload.get(extension.KEY)
        if beside is None and self._left:
            self._say("action", {ACTIONS: self._left.pop(0)}, message.seq)
            return
        profile, visit = self._host.profile, self._seat()
        sent = flat(profile, message.payload)
        if self._fresh:
            visit.begin(sentence=str(sent.get(profile.instruction, "")))
            self._fresh = False
        (chunk,) = visit.act(sent, beside).values()
        if beside is None:
            # One action an observation, as from vla-eval's own servers with a chunk buffer.
            self._left = list(chunk[: self._host.spec.replan].astype(np.float32))
            self._say("action", {ACTIONS: self._left.pop(0)}, message.seq)
        else:
            self._say("action", {ACTIONS: chunk}, message.seq)

    def _seat(self) -> Visit:
        if self._visit is None:
            self._visit = self._host.visit(PATIENCE_S)
        return self._visit

    def _say(self, kind: str, payload: Mapping[str, object], seq: int) -> None:
        self._client.send(pack(Message(kind, payload, seq, time.time())))
