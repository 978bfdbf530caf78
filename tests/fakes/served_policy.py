"""The toy's expert, asked at the server of :mod:`tests.fakes.policy_service`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from pytest_vla_shift.protocol.observation import Observation
from tests.fakes.policy_service import receive, send
from tests.fakes.toy_policies import CHUNK, Expert

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Served(Expert):
    """Asks the server at ``url``; without one, answers itself, the same."""

    def __init__(self, url: str | None = None) -> None:
        super().__init__()
        self._url = url
        self._connection: socket.socket | None = None
        if url is not None:
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            self._connection = socket.create_connection((parts.hostname, parts.port), timeout=20)

    def session(self) -> Served:
        """For a rollout beside others, at a connection of its own."""
        return Served(self._url)

    def act(self, observation: Observation) -> NDArray[np.floating]:
        if self._connection is None:
            return super().act(observation)
        assert observation.privileged is not None
        request: dict[str, object] = {
            "hand": observation.proprio["eef_pos"].tolist(),
            "target": observation.privileged.positions["target_1"].tolist(),
            "closed": self._closed,
            "chunk": CHUNK,
        }
        send(self._connection, request)
        reply = receive(self._connection)
        if reply is None:
            raise ConnectionError("the policy's server closed the connection")
        actions = np.array(reply["actions"])
        self._closed = bool(actions[-1, 6] > 0)
        return actions

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class OnlyServed(Served):
    """Cannot do without a server."""

    def __init__(self, url: str) -> None:
        super().__init__(url)


def function(observation: Observation, url: str) -> NDArray[np.floating]:
    """A plain function that is told where to ask."""
    return np.full((1, 7), float(len(url)))


ready = Served()
