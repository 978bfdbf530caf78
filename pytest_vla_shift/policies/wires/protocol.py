"""The Wire protocol: one connection to a policy's server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.agreement import Row
    from pytest_vla_shift.policies.extension import Served
    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.protocol.observation import EpisodeInfo

    Answer = Mapping[str, NDArray[np.generic]]
    """Name -> (T, W), as profiles call them."""


class WireError(Exception):
    """The server refused, broke off, or answered what is no answer; the message has its words.

    The connection is of no use any more: it is closed, and another one is made.
    """


class NoReply(WireError):
    """No complete answer came in time. One that comes later is never read."""


class Unreachable(WireError):
    """Nobody listens there."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server says of itself before the first observation.

    Attributes:
        server: its kind and version as far as it tells, for people and for the key: nothing that
            differs from start to start (no host, port, pid or time).
        profile: the profile, as the server wants it: with the names that its own configuration
            has, without what it does not want sent.
        rows: what could be compared with the profile; the run is refused if one does not fit.
        chunk: how many actions it says that an answer has; None if it does not say.
        seedable: whether the protocol has a place for a seed.
        served: what a server of ours says of its policy; None for a stock server.
    """

    server: str
    profile: Profile
    rows: tuple[Row, ...] = ()
    chunk: int | None = None
    seedable: bool = False
    served: Served | None = None


class Wire(Protocol):
    """One connection, used from one thread, for one rollout at a time.

    Made without connecting. Every method but ``close`` may raise :class:`WireError`, and takes at
    most ``limit_s`` in all, whatever the server sends.
    """

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        """Connect, and ask or hear what the server says of itself. Called once, first."""
        ...

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:
        """A rollout begins: whatever the protocol has for that."""
        ...

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        """The actions that the server answers ``payload`` with.

        Args:
            payload: of :func:`~pytest_vla_shift.policies.mapping.payload`.
            extension: for a server of ours: see :mod:`pytest_vla_shift.policies.extension`.
            limit_s: for the whole exchange.
        """
        ...

    def close(self) -> None:
        """Free everything, whatever state it is in. Idempotent; never raises; never waits."""
        ...
