"""A policy behind a server, whatever its wire: mapping, time limits, errors, reconnection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vla_shift.policies import extension, mapping
from pytest_vla_shift.policies.agreement import Row, SimulatorSide, side_by_side
from pytest_vla_shift.policies.connection import Connection
from pytest_vla_shift.policies.fitting import profile_rows
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import MappingError, Profile
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.recognise import with_hint
from pytest_vla_shift.policies.settings import FIRST, PolicySettings
from pytest_vla_shift.policies.wires.protocol import (
    Unreachable,
    Wire,
    WireError,
)
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

PATIENCE_S = 30.0
"""How long a server that nobody finds any more is waited for: it may be starting anew. Once an
outage; what comes after that fails at once."""

MOST_WORDS = 2000
"""Of a server's own words, so many characters are kept: the last ones, where tracebacks end."""


@dataclass(frozen=True)
class Adapter:
    """What the policies of one wire have in common, and what the user said about this one.

    Attributes:
        name: what ``--vla-policy`` was given.
        revision: raised whenever the adapter would send or read something else.
        url: where the server listens.
        profile: how observations and actions are laid out.
        make_wire: a connection that is not connected.
        settings: of the run.
        start: how to start such a server, a sentence for people, without its full stop.
        chunk: the most actions in an answer, as the user said; None for what the server says.
        seeded: what the user says about it; None for what the server says.
    """

    name: str
    revision: str
    url: str
    profile: Profile
    make_wire: Callable[[], Wire]
    settings: PolicySettings
    start: str
    chunk: int | None = None
    seeded: bool | None = None

    def words(self, error: Exception) -> str:
        """What ``error`` says, without the token, and not without end."""
        text = self.settings.redacted(str(error) or type(error).__name__)
        return text if len(text) <= MOST_WORDS else "..." + text[-MOST_WORDS:]

    def cause(self, error: BaseException) -> BaseException | None:
        """``error``, to raise another from; None where there is a token that it might show.

        A traceback shows messages, and with ``--showlocals`` whatever the wire's functions held.
        """
        if self.settings.token is None:
            return error
        # It is a local of whoever raises.
        error.args = tuple(
            self.settings.redacted(item) if isinstance(item, str) else item for item in error.args
        )
        return None


class RemotePolicy:
    """A policy behind a server.

    Making it connects, compares what the server says with the profile, and asks once: a
    server that cannot answer a plain observation is refused before the first episode.

    After any error the connection is dropped, and the next rollout makes a new one; an answer that
    arrives late is read by nobody. A new connection begins as the first one did, with a trial: what
    answers there now may be another server, or the same one with other weights.

    Raises:
        UsageError: nobody listens, the server and the profile do not agree, or the trial fails.
    """

    keeps_time = True
    """Calls end by themselves, with the server's name in the message."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._warm = False
        self._patient = True
        try:
            self._connection: Connection | None = self._connect()
        except Unreachable as error:
            raise UsageError(
                f"policy {adapter.name!r}: no server answers at {adapter.url}:"
                f" {adapter.words(error)}. {adapter.start}. Say where it listens with"
                f" --vla-policy-url={urlsplit(adapter.url).scheme}://HOST:PORT"
            ) from adapter.cause(error)
        except WireError as error:
            raise UsageError(
                f"policy {adapter.name!r}: the server at {adapter.url} is not one of its kind, or"
                f" not well: {with_hint(adapter.words(error), adapter.url, adapter.profile.wire)}"
            ) from adapter.cause(error)
        self._first = self._connection
        try:
            self._agree()
            self._tried = self._try()
            self._spec = self._declare(self._tried)
        except BaseException:
            self.close()
            raise

    @property
    def spec(self) -> PolicySpec:
        """As the profile and the server declare it."""
        return self._spec

    @property
    def profile(self) -> Profile:
        """As the server wants it."""
        return self._first.profile

    def unsupported(self, task_suite: str, task: str) -> str | None:  # noqa: ARG002
        """None: no wire says which tasks its policy knows."""
        return None

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        """What the server says of itself, and the profile against the simulator."""
        return [
            *self._first.greeting.rows,
            *profile_rows(self.profile, side, self._spec.replan),
        ]

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        """Begin a rollout, on a new connection if the last one failed.

        Raises:
            PolicyServerError: the server cannot be reached any more, or is another one.
        """
        with self._guarded("reset"):
            connection = self._connection
            if connection is None:
                connection = self._connection = self._reconnect()
                self._check_same(connection)
            connection.wire.begin(episode, seed, self._limit_s())

    def act(self, observation: Observation) -> NDArray[np.float64]:
        """The server's answer, (T, action_dim) in the simulator's terms.

        Raises:
            PolicyServerError: there is none that can be executed.
        """
        with self._guarded(f"step {observation.step}"):
            connection = self._connection
            if connection is None:
                raise WireError("the connection was lost, and no rollout has begun since")
            found = self._ask(connection, observation)
            self._check_length(len(found))
        self._warm = True
        return found

    @property
    def session(self) -> Callable[[], RemotePolicy]:
        """Gives another connection to the same server, made when its first rollout begins.

        Raises:
            AttributeError: a server of ours says that its policy has one client at a time.
        """
        served = self._first.greeting.served
        if served is not None and not served.sessions:
            raise AttributeError("session")
        return self._session

    def _session(self) -> RemotePolicy:
        other = object.__new__(RemotePolicy)
        other._adapter, other._spec, other._first = self._adapter, self._spec, self._first
        other._tried, other._warm, other._patient = self._tried, self._warm, True
        other._connection = None
        return other

    def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.wire.close()

    def _guarded(self, where: str) -> _Guard:
        return _Guard(self, where)

    def _connect(self) -> Connection:
        """A greeted connection. A greeting compiles nothing: it has one time limit, not ten."""
        wire = self._adapter.make_wire()
        try:
            greeting = wire.greet(self._adapter.profile, self._adapter.settings.timeout_s)
            return Connection(wire, greeting)
        except BaseException:
            wire.close()
            raise

    def _reconnect(self) -> Connection:
        """The same; a server that is away is waited for, and is then given time to compile."""
        until = time.monotonic() + min(PATIENCE_S, self._adapter.settings.timeout_s)
        pause_s = 0.1
        while True:
            try:
                connection = self._connect()
            except Unreachable:
                left_s = until - time.monotonic()
                if not self._patient or left_s <= 0.0:
                    self._patient = False
                    raise
                self._warm = False
                time.sleep(min(pause_s, left_s))
                pause_s *= 2.0
            else:
                self._patient = True
                return connection

    def _check_same(self, connection: Connection) -> None:
        """Refuse another server than that of the first connection, as far as it shows.

        Raises:
            WireError: it is another one, or its answer to the trial is of another length.
            MappingError: its answer to the trial is none.
        """
        connection.check_same(self._first)
        if self._tried is None or self._first.greeting.served is not None:
            return  # a server of ours has said all that there is to know
        connection.wire.begin(EPISODE, 0, self._limit_s())
        found = self._ask(connection, probe_observation(connection.profile))
        self._check_length(len(found))
        self._warm = True

    def _check_length(self, length: int) -> None:
        """Refuse an answer that the server of the trial would not have given.

        Raises:
            WireError: it is longer than the chunk; or, where nobody has said how long answers are,
                another length than the trial's.
        """
        chunk = self._spec.chunk
        declared = self._adapter.chunk or self._first.greeting.chunk or self._first.greeting.served
        if length > chunk or (not declared and self._tried not in (None, length)):
            said = f"at most {chunk}" if declared else f"{self._tried} at the trial"
            raise WireError(
                f"it answers {length} actions, and {said}: it is another server than at the start"
                " of the run, or --vla-policy-arg=chunk must say how many there may be"
            )

    def _agree(self) -> None:
        rows = self._first.greeting.rows
        if not all(row.fits for row in rows):
            adapter = self._adapter
            raise UsageError(
                f"policy {adapter.name!r}: the server at {adapter.url} and profile"
                f" {adapter.profile.name!r} do not agree:\n"
                + side_by_side(rows, "server", f"profile {adapter.profile.name}")
            )

    def _try(self) -> int | None:
        """How many actions the server answers a plain observation with; None if it needs truth."""
        connection = self._first
        served = connection.greeting.served
        if served is not None and served.privileged:
            return None
        adapter = self._adapter
        try:
            connection.wire.begin(EPISODE, 0, self._limit_s())
            found = self._ask(connection, probe_observation(connection.profile))
        except (WireError, MappingError) as error:
            raise UsageError(
                f"policy {adapter.name!r}: the server at {adapter.url} cannot answer a trial"
                f" observation of profile {adapter.profile.name!r}: "
                + with_hint(adapter.words(error), adapter.url, adapter.profile.wire)
            ) from adapter.cause(error)
        self._warm = True
        return len(found)

    def _declare(self, tried: int | None) -> PolicySpec:
        adapter, greeting, profile = self._adapter, self._first.greeting, self.profile
        served = greeting.served
        chunk = adapter.chunk or (served.chunk if served else greeting.chunk)
        if chunk is None:
            chunk = tried or profile.chunk
        if tried is not None and tried > chunk:
            raise UsageError(
                f"policy {adapter.name!r}: the server answers {tried} actions at a time, more than"
                f" the {chunk} that it or --vla-policy-arg=chunk declares"
            )
        seeded = adapter.seeded
        if seeded is None:
            seeded = served is not None and served.seeded
        seedable = greeting.seedable
        if served is not None:
            seedable = served.seedable
        if seeded and not seedable:
            raise UsageError(
                f"policy {adapter.name!r}: seeded=true, but this server cannot be given a seed"
            )
        revision = f"{adapter.revision}; {greeting.server}; profile {profile.name} {profile.digest}"
        if served is not None:
            revision += f"; serves {served.policy}"
        return PolicySpec(
            name=adapter.name,
            revision=adapter.settings.redacted(revision),
            cameras=profile.cameras,
            privileged=served is not None and served.privileged,
            action_dim=profile.action_dim,
            chunk=chunk,
            replan=min(chunk, served.replan if served else profile.replan),
            seeded=seeded,
            seedable=seedable,
            language=served is None or served.language,
            located=("profile",),
            unidentified=served is None or served.unidentified,
            checkpoint="" if served is None else served.checkpoint,
        )

    def _ask(self, connection: Connection, observation: Observation) -> NDArray[np.float64]:
        sent = mapping.payload(connection.profile, observation)
        beside: Mapping[str, object] | None = None
        if connection.greeting.served is not None:
            beside = extension.shown(observation)
        answer = connection.wire.ask(sent, beside, self._limit_s())
        return mapping.actions(connection.profile, answer)

    def _limit_s(self) -> float:
        return self._adapter.settings.timeout_s * (1.0 if self._warm else FIRST)

    def _failed(self, error: Exception, where: str) -> PolicyServerError:
        """Drop the connection; the error as a rollout gets it."""
        self.close()
        adapter = self._adapter
        return PolicyServerError(
            f"policy {adapter.name!r}, server {adapter.url}, {where}: {adapter.words(error)}"
        )


class _Guard:
    """Whatever goes wrong within: the connection is dropped, and it is the server's error."""

    def __init__(self, policy: RemotePolicy, where: str) -> None:
        self._policy = policy
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, Exception):
            policy = self._policy
            raise policy._failed(error, self._where) from policy._adapter.cause(error)
        self._policy.close()
