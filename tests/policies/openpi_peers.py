"""Servers that speak openpi's wire and answer as a test says, and observations for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from pytest_vla_shift.policies.openpi import openpi
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.serving.websocket import Client, WebsocketService
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.openpi_codec import pack, read
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation

CLOSING = (1011, "Internal server error. Traceback included in previous frame.")
INFO = EpisodeInfo(Episode("libero_object", "pick_up_the_ketchup", 7), "pick up the ketchup", 280)

Answer = Mapping[str, object] | bytes | str | None
"""What a server sends: a map is packed; bytes and text as they are, after text it closes with
1011; None for nothing at all."""

Infer = Callable[[int, Mapping[str, object]], Answer]
"""Answers the n-th observation of all, from 0; may raise."""


def zeros(length: int = 10) -> dict[str, object]:
    return {"actions": np.zeros((length, 7), np.float32)}


def constant(value: float, length: int = 10) -> dict[str, object]:
    return {"actions": np.full((length, 7), value, np.float32)}


class Double:
    """A server like openpi's. ``heard`` has every observation that it was sent."""

    def __init__(
        self, infer: Infer = lambda n, sent: zeros(), metadata: Answer = None, port: int = 0
    ) -> None:
        self.heard: list[Mapping[str, object]] = []
        self.clients = 0
        self.metadata: Answer = {} if metadata is None else metadata
        self._infer = infer
        self._service = WebsocketService(self._talk, "127.0.0.1", port, extra="openpi")
        self._thread = threading.Thread(target=self._service.serve)
        self._thread.start()

    @property
    def url(self) -> str:
        return self._service.url

    def close(self) -> None:
        self._service.close()
        self._thread.join()

    def _talk(self, client: Client) -> None:
        self.clients += 1
        self._say(client, self.metadata)
        while True:
            frame = client.receive()
            assert isinstance(frame, bytes)
            sent = read(frame)
            assert isinstance(sent, dict)
            self.heard.append(sent)
            self._say(client, self._infer(len(self.heard) - 1, sent))

    def _say(self, client: Client, answer: Answer) -> None:
        if answer is None:
            return
        client.send(pack(answer) if isinstance(answer, Mapping) else answer)
        if isinstance(answer, str):
            client.close(*CLOSING)


@contextmanager
def double(
    infer: Infer = lambda n, sent: zeros(), metadata: Answer = None, port: int = 0
) -> Iterator[Double]:
    """A :class:`Double` that is closed at the end."""
    made = Double(infer, metadata, port)
    try:
        yield made
    finally:
        made.close()


def libero_observation(step: int = 0) -> Observation:
    """As LIBERO gives it at 256 x 256; of noise."""
    rng = np.random.default_rng(step)
    quat = rng.normal(size=4)
    return Observation(
        images={
            camera: rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
            for camera in ("agentview", "robot0_eye_in_hand")
        },
        proprio={
            "eef_pos": rng.normal(size=3),
            "eef_quat": quat / np.linalg.norm(quat),
            "gripper_qpos": rng.normal(size=2),
            "joint_pos": rng.normal(size=7),
        },
        instruction=INFO.instruction,
        step=step,
    )


@contextmanager
def asking(url: str, timeout_s: float = 10.0, **args: str) -> Iterator[RemotePolicy]:
    """The policy ``openpi`` at ``url``, with a rollout begun."""
    policy = openpi(**args, settings=PolicySettings(url=url, timeout_s=timeout_s))
    try:
        policy.reset(INFO, 0)
        yield policy
    finally:
        policy.close()
