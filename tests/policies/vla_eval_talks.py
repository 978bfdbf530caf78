"""Servers that speak vla-eval, message by message as a test says."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.vla_eval import vla_eval
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from tests.policies.shipped_profiles import observation_for
from tests.policies.websocket_peers import frame, read_frame, shake_hands

LIBERO = read_profile("vla-eval-libero")
LOOK = observation_for(LIBERO)
HELLO: dict[str, object] = {
    "harness_version": "0.8.0",
    "protocol_version": 1,
    "model_server": "AnyModelServer",
    "capabilities": {},
    "observation_params": {"send_wrist_image": True, "send_state": True},
}
ACTION = np.array([0.1, -0.2, 0.3, 0.0, 0.0, 0.5, -0.7], np.float32)

Answers = Callable[[Message], Iterable[bytes]]
"""What a server sends after a message; bytes of frames."""

Script = Callable[[socket.socket], None]


def said(kind: str, payload: dict[str, object], seq: int) -> bytes:
    return frame(pack(Message(kind, payload, seq, time.time())))


def error(words: str, seq: int) -> bytes:
    return said("error", {"error": words}, seq)


def act(message: Message, actions: object = ACTION) -> Iterable[bytes]:
    """A server that is well."""
    if message.kind == "hello":
        yield said("hello", HELLO, message.seq)
    elif message.kind == "observation":
        yield said("action", {"actions": actions}, message.seq)


def talking(answers: Answers, heard: list[Message] | None = None) -> Script:
    """A connection on which ``answers`` decides."""

    def script(peer: socket.socket) -> None:
        shake_hands(peer)
        while True:
            try:
                message = read(read_frame(peer))
            except CodecError:  # the client's goodbye
                return
            if heard is not None:
                heard.append(message)
            for part in answers(message):
                peer.sendall(part)

    return script


def after_trial(answers: Answers) -> Answers:
    """Well up to the answer to the trial observation, and then ``answers``."""
    tried: list[Message] = []

    def both(message: Message) -> Iterable[bytes]:
        if len(tried) < 2 or message.kind == "hello":
            tried.extend([message] * (message.kind in ("episode_start", "observation")))
            return act(message)
        return answers(message)

    return both


def policy(
    url: str,
    args: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 5.0,
    token: str | None = None,
) -> RemotePolicy:
    settings = PolicySettings(url=url, timeout_s=timeout_s, token=token)
    return vla_eval(**(args or {}), settings=settings)
