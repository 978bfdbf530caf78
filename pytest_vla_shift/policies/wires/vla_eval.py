"""vla-eval's wire: a websocket with numbered messages, for any of the harness's model servers.

The numbers tell answers apart: a server says nothing about an episode that begins well, so that
word of one that does not comes when the answer to the first observation is expected.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pytest_vla_shift import __version__
from pytest_vla_shift.policies import extension as ours
from pytest_vla_shift.policies.probe import EPISODE
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.wires.bounded_msgpack import CodecError
from pytest_vla_shift.policies.wires.protocol import Greeting, WireError
from pytest_vla_shift.policies.wires.vla_eval_codec import Message, pack, read
from pytest_vla_shift.policies.wires.vla_eval_terms import Said, nested, terms
from pytest_vla_shift.policies.wires.websocket import Websocket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.wires.protocol import Answer
    from pytest_vla_shift.protocol.observation import EpisodeInfo

T = TypeVar("T")

PORT = 8000

VERSION = 1
"""Of the protocol."""

NAME = f"pytest-vla-shift {__version__}"

ACTIONS = "actions"

TRIAL_SUITES = {"libero": "libero_spatial", "robocasa": "atomic_seen"}
"""What a trial before the first episode is announced as: some servers know suites by name, and
refuse to begin an episode of any other."""

MUTE = (
    ". A vla-eval server that cannot read a message closes with 1000 and says why in its own log"
    " alone"
)


def credential(token: str) -> str:
    """What the header ``Authorization`` says: to a proxy, since vla-eval's servers ask for none."""
    return f"Bearer {token}"


class VlaEvalWire:
    """One connection; see :class:`~pytest_vla_shift.policies.wires.protocol.Wire`.

    Args:
        url: of a websocket.
        said: what the user says over the server's declarations.
        token: sent as ``Authorization: Bearer ...``; None for none.
        told: warnings that were given already, which grows: connections to one server share it.
    """

    def __init__(
        self,
        url: str,
        said: Said | None = None,
        token: str | None = None,
        told: set[str] | None = None,
    ) -> None:
        self._url = url
        self._told = set() if told is None else told
        self._said = said or Said()
        self._headers = {} if token is None else {"Authorization": credential(token)}
        self._socket: Websocket | None = None
        self._seq = 0
        self._simulators: tuple[str, ...] = ()
        self._key = ACTIONS
        self._served = False
        # Of the episode that is under way: the number of its first message, when that was sent, and
        # how many observations were answered since.
        self._began: int | None = None
        self._since = 0.0
        self._answers = 0
        self._trial = False

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        """Connect, and exchange hellos.

        Raises:
            WireError: as all wires do.
            UsageError: the user overrules what is not compared, or the profile has other actions
                than one array.
        """
        until = time.monotonic() + limit_s
        self._simulators = profile.simulators
        (self._key,) = profile.action_widths
        self._socket = Websocket(self._url, limit_s, self._headers)
        seq = self._send("hello", {"harness_version": NAME, "protocol_version": VERSION}, until)
        hello = self._answer("hello", seq, until)
        version, kind = hello.get("protocol_version"), str(hello.get("model_server", "unknown"))
        if type(version) is not int or version != VERSION:
            raise WireError(
                f"it speaks version {version!r:.50} of vla-eval's protocol, not {VERSION}"
            )
        capabilities = hello.get("capabilities")
        try:
            served = ours.announced(
                capabilities.get(ours.KEY) if isinstance(capabilities, Mapping) else None
            )
        except ours.ExtensionError as error:
            raise WireError(str(error)) from error
        self._served = served is not None
        found = terms(profile, hello, self._said)
        for warning in found.warnings:
            if warning not in self._told:
                self._told.add(warning)
                warnings.warn(f"vla-eval: {warning}", stacklevel=2)
        wanted = _exact(found.profile) if self._served else found.profile
        server = f"vla-eval {hello.get('harness_version', '?')!s:.100} {kind:.100}"
        return Greeting(server, wanted, found.rows, seedable=self._served, served=served)

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:
        """End the episode before, and begin this one. The server answers neither.

        What came of the episode before is not known here: its metrics are empty.
        """
        until = time.monotonic() + limit_s
        if self._began is not None:
            ended: dict[str, object] = {
                "metrics": {},
                "steps": self._answers,
                "elapsed_sec": round(time.monotonic() - self._since, 3),
            }
            self._send("episode_end", ended, until)
        which = episode.episode
        self._trial = which == EPISODE.episode
        task: dict[str, object] = {
            "name": which.task,
            "suite": self._trial_suite() if self._trial else which.task_suite,
            "episode_idx": which.index,
        }
        if self._served:
            task[ours.KEY] = ours.begun(episode, seed)
        self._began = self._send("episode_start", {"task": task}, until)
        self._since, self._answers = time.monotonic(), 0

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        """Send one observation, and read the actions that it is answered with.

        One action, as servers with a chunk buffer answer, is a chunk of one.
        """
        until = time.monotonic() + limit_s
        try:
            sent = nested(payload)
        except MappingError as error:
            raise WireError(str(error)) from error
        if extension is not None:
            sent[ours.KEY] = dict(extension)
        seq = self._send("observation", sent, until)
        answer = self._answer("action", seq, until)
        self._answers += 1
        return {self._key: _chunk(answer)}

    def close(self) -> None:
        """Hang up. Idempotent; never raises.

        The server ends an episode by itself when its client goes.
        """
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _send(self, kind: str, payload: Mapping[str, object], until: float) -> int:
        """The number that the message was sent with."""
        if self._socket is None:
            raise WireError("there is no connection")
        self._seq += 1
        frame = _coded(lambda: pack(Message(kind, payload, self._seq, time.time())))
        with _explained():
            self._socket.send(frame, until)
        return self._seq

    def _answer(self, kind: str, seq: int, until: float) -> Mapping[str, object]:
        """The payload of the answer to message ``seq``."""
        if self._socket is None:
            raise WireError("there is no connection")
        with _explained():
            frame = self._socket.receive(until)
        try:
            message = read(frame)
        except CodecError as error:
            if kind == "hello":
                raise WireError(
                    f"its first message is none of vla-eval's: {error}. An openpi server speaks"
                    " first, and another language: --vla-policy=openpi"
                ) from error
            raise WireError(str(error)) from error
        if message.kind == "error":
            raise WireError(self._words(message))
        if message.kind != kind or message.seq != seq:
            raise WireError(
                f"a message {message.kind!r} to number {message.seq}, where {kind!r} to number"
                f" {seq} was waited for"
            )
        return message.payload

    def _words(self, message: Message) -> str:
        words = message.payload.get("error")
        text = words if isinstance(words, str) and words else repr(dict(message.payload))
        if message.seq != self._began:
            return text
        if "episode_start_failed" not in text:
            text = f"the episode could not begin: {text}"
        if self._trial:
            text += (
                f" (the trial was announced as suite {self._trial_suite()!r};"
                " --vla-policy-arg=trial_suite=... names another)"
            )
        return text

    def _trial_suite(self) -> str:
        if self._said.trial_suite is not None:
            return self._said.trial_suite
        suites = [TRIAL_SUITES[name] for name in self._simulators if name in TRIAL_SUITES]
        return suites[0] if suites else EPISODE.episode.task_suite


def _exact(profile: Profile) -> Profile:
    """For a policy of ours, whose actions are the simulator's already: a gripper of 0 stays 0."""
    return replace(
        profile,
        actions=tuple(
            replace(part, transform="identity") if part.transform == "sign" else part
            for part in profile.actions
        ),
    )


def _chunk(answer: Mapping[str, object]) -> NDArray[np.generic]:
    """(T, D): the actions of an answer, one or many, as an array or as lists."""
    # vla-eval's benchmarks read both names.
    value = answer.get(ACTIONS, answer.get("action"))
    if isinstance(value, list):
        value = _of_lists(value)
    if not isinstance(value, np.ndarray) or value.ndim not in (1, 2) or not value.size:
        shown = (
            f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        )
        raise WireError(
            f"the answer's {ACTIONS!r} is {shown:.200}, neither one action nor a list of them; it"
            f" has {', '.join(map(repr, answer)) or 'nothing'}"
        )
    return value[None] if value.ndim == 1 else value


def _of_lists(value: list[object]) -> object:
    rows = value if all(isinstance(row, list) for row in value) else [value]
    numbers = [list(row) for row in rows if isinstance(row, list)]
    widths = {len(row) for row in numbers}
    plain = all(type(number) in (int, float) for row in numbers for number in row)
    if len(widths) != 1 or not plain:
        return value
    try:
        return np.array(numbers if rows is value else numbers[0], dtype=np.float64)
    except (ValueError, OverflowError):
        return value


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what it may mean that a server closes without a word."""
    try:
        yield
    except WireError as error:
        if "code 1000" in str(error):
            raise WireError(f"{error}{MUTE}") from error
        raise


def _coded(work: Callable[[], T]) -> T:
    try:
        return work()
    except CodecError as error:
        raise WireError(str(error)) from error
