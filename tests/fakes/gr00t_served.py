"""Policies of ours as GR00T servers, and two clients: our own, and a bare one as stock ones are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import zmq

from pytest_vla_shift.policies.gr00t import gr00t
from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.profile import Profile, find_profile
from pytest_vla_shift.policies.remote import RemotePolicy
from pytest_vla_shift.policies.serving.gr00t import open_service
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.gr00t_codec import Arrays, decode, encode
from tests.fakes.services import answering

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.wires.gr00t import Api

PROFILE = find_profile("libero", "gr00t")
SENT = payload(PROFILE, probe_observation(PROFILE))


@contextlib.contextmanager
def serving(
    policy: Policy,
    profile: Profile = PROFILE,
    *,
    token: str | None = None,
    api: Api = "n1.6",
    arrays: Arrays | None = None,
    port: int = 0,
    seed: int = 0,
) -> Iterator[str]:
    host = Host(policy, profile, seed=seed)
    service = open_service(host, port=port, token=token, api=api, arrays=arrays)
    with answering(service):
        yield service.url


@contextlib.contextmanager
def remote(url: str, *, token: str | None = None, **args: str) -> Iterator[RemotePolicy]:
    policy = gr00t(settings=PolicySettings(url=url, timeout_s=5, token=token), **args)
    with contextlib.closing(policy):
        yield policy


class Raw:
    """A stock client's transport: a REQ socket, msgpack, nothing else."""

    def __init__(self, url: str, kind: int = zmq.REQ) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        self.socket.connect(url)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close(0)

    def send(self, data: bytes) -> object:
        self.socket.send(data)
        return decode(self.socket.recv())

    def call(self, endpoint: str, data: object = None, **more: object) -> object:
        return self.send(encode({"endpoint": endpoint, "data": data, **more}))
