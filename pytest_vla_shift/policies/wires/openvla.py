"""The wire of OpenVLA and OpenVLA-OFT: REST, ``POST /act``, arrays as json-numpy writes them.

A stock server knows neither episodes nor seeds, says nothing of itself, and answers whatever goes
wrong with the text ``"error"`` and HTTP 200. Each of its calls gets a connection of its own, since
it closes those that are idle for seconds. A server of ours is told of rollouts, over a connection
that is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.agreement import Row
from pytest_vla_shift.policies.extension import KEY, ExtensionError
from pytest_vla_shift.policies.probe import EPISODE
from pytest_vla_shift.policies.profile import narrowed
from pytest_vla_shift.policies.wires.json_numpy import CodecError, decode, encode
from pytest_vla_shift.policies.wires.protocol import Greeting, WireError
from pytest_vla_shift.policies.wires.timed_http import Address, HttpConnection, Reply

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.extension import Served
    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.wires.protocol import Answer
    from pytest_vla_shift.protocol.observation import EpisodeInfo

ACTIONS = "actions"
"""What profiles call the answer, which has no name of its own."""

ABOUT = f"/{KEY}"
"""Where a server of ours speaks of itself."""

MOST_BYTES = 1 << 22
"""Of an answer: a chunk of actions has some hundreds."""

MOST_STEPS = 4096

TASK_SUITE = "{task_suite}"
"""In the key of the statistics: the suite of the episode's task."""

TRIAL_SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90")
"""Whose statistics are tried before the first episode, when no task is known yet."""


class OpenVlaWire:
    """One client of a server.

    Args:
        address: with the path of the calls.
        token: sent as ``Authorization: Bearer``; stock servers ask for none.
        encoded: send the payload as a text within the payload, for servers that want it so.
        unnorm_key: key of the statistics that actions are un-normalised with, in which
            :data:`TASK_SUITE` stands for the suite; None to send none.
        refusal: why a stock server cannot be asked about a task suite, or None.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str | None = None,
        encoded: bool = False,
        unnorm_key: str | None = None,
        refusal: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._refusal = refusal
        self._path = address.path
        self._http = HttpConnection(address, MOST_BYTES)
        self._encoded = encoded
        self._unnorm_key = unnorm_key
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._served = False
        self._keys: Sequence[str | None] = (None,)
        self._begun: dict[str, object] | None = None

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        """Ask whether it is a server of ours; a stock one has no such page."""
        reply = self._http.exchange("GET", ABOUT, None, self._headers, limit_s, keep=True)
        if reply.status in (401, 403, 407) or reply.status >= 500:
            raise WireError(reply.words)
        server = f"REST server {reply.server or 'without a name'}"
        said = _about(reply)
        if said is None:
            self._http.close()
            return Greeting(server, profile)
        try:
            served = extension.announced(said.get(KEY))
        except ExtensionError as error:
            raise WireError(str(error)) from error
        assert served is not None
        self._served = True
        return Greeting(
            server,
            profile,
            rows=(_profile_row(said, profile, served),),
            chunk=served.chunk,
            seedable=True,
            served=served,
        )

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:  # noqa: ARG002
        """Remember it: the next observation tells a server of ours, or has the suite's key.

        Raises:
            WireError: a stock server is not to be asked about this suite.
        """
        reason = self._refusal(episode.episode.task_suite)
        if reason is not None and not self._served and episode != EPISODE:
            raise WireError(reason)
        self._begun = extension.begun(episode, seed) if self._served else None
        self._keys = self._keys_of(episode)

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        """The answer to one observation."""
        sent: dict[str, object] = dict(payload)
        if extension is not None:
            more = {} if self._begun is None else {"begin": self._begun}
            sent[KEY] = {**extension, **more}
            found = self._act(sent, limit_s)
            self._begun = None
            return {ACTIONS: found}
        until = time.monotonic() + limit_s
        refused: SaidError | None = None
        for key in self._keys:
            said = sent if key is None else {**sent, "unnorm_key": key}
            try:
                return {ACTIONS: self._act(said, until - time.monotonic())}
            except SaidError as error:
                refused = error
        assert refused is not None
        tried = [key for key in self._keys if key is not None]
        if tried and self._unnorm_key is not None and TASK_SUITE in self._unnorm_key:
            raise SaidError(
                f"{refused}. Keys tried: {', '.join(tried)}. If its checkpoint has other"
                " statistics, name them: --vla-policy-arg=unnorm_key=NAME, in which {task_suite}"
                " stands for the suite"
            ) from refused
        raise refused

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def _keys_of(self, episode: EpisodeInfo) -> Sequence[str | None]:
        template = self._unnorm_key
        if template is None or TASK_SUITE not in template:
            return (template,)
        if episode == EPISODE:
            return [template.replace(TASK_SUITE, suite) for suite in TRIAL_SUITES]
        return (template.replace(TASK_SUITE, episode.episode.task_suite),)

    def _act(self, sent: Mapping[str, object], limit_s: float) -> NDArray[np.float64]:
        try:
            text = encode({"encoded": encode(sent)} if self._encoded else sent)
        except CodecError as error:
            raise WireError(str(error)) from error
        reply = self._http.exchange(
            "POST",
            self._path,
            text.encode("ascii"),
            {**self._headers, "Content-Type": "application/json"},
            limit_s,
            keep=self._served,
        )
        return read_actions(reply, sent)


class SaidError(WireError):
    """The server answered ``"error"``."""


def _about(reply: Reply) -> Mapping[str, object] | None:
    """What a server of ours says of itself; None for whatever else."""
    if reply.status != 200:
        return None
    try:
        said = decode(reply.body)
    except CodecError:
        return None
    return said if isinstance(said, dict) and said.get(KEY) is not None else None


def _profile_row(said: Mapping[str, object], profile: Profile, served: Served) -> Row:
    ours = narrowed(profile, served.cameras)
    theirs = f"{said.get('profile')}"
    mine = f"{ours.name} {ours.digest}"
    return Row("profile", theirs, mine, theirs == mine)


def read_actions(reply: Reply, sent: Mapping[str, object]) -> NDArray[np.float64]:
    """(T, W): what the server answered.

    Raises:
        WireError: it is no such thing; with the server's words.
    """
    if reply.status != 200:
        raise WireError(reply.words)
    try:
        found = decode(reply.body)
        if isinstance(found, str) and found != "error":
            found = decode(found)
    except CodecError as error:
        raise WireError(f"the answer is {error}: {_start(reply.body)}") from error
    if isinstance(found, str) and found == "error":
        raise SaidError(
            'the server answered "error" with HTTP 200, which is all that it tells: the cause is'
            f" in its own log. It was sent {_shown(sent)}"
        )
    numbers = _numbers(found)
    if numbers is None:
        raise WireError(f"the answer is neither an action nor a list of actions: {_start(found)}")
    return numbers


def _numbers(found: object) -> NDArray[np.float64] | None:
    """(T, W) of an array (W,) or (T, W), or of a list of numbers or of such rows."""
    if isinstance(found, list):
        if not 0 < len(found) <= MOST_STEPS:
            return None
        if all(type(value) in (int, float) for value in found):
            try:
                return _row(np.asarray(found, dtype=np.float64))
            except OverflowError:
                return None
        rows = [_numbers(row) if not _nested(row) else None for row in found]
        if any(row is None or len(row) != 1 for row in rows):
            return None
        arrays = [row for row in rows if row is not None]
        if len({row.shape[1] for row in arrays}) != 1:
            return None
        return np.concatenate(arrays)
    if isinstance(found, np.ndarray) and found.dtype.kind in "fiu" and found.size:
        if found.ndim == 1:
            return _row(found.astype(np.float64))
        if found.ndim == 2 and len(found) <= MOST_STEPS:
            return found.astype(np.float64)
    return None


def _nested(row: object) -> bool:
    return isinstance(row, list) and any(isinstance(value, list) for value in row)


def _row(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.reshape(1, -1)


def _shown(sent: Mapping[str, object]) -> str:
    """What was sent, without its numbers."""
    parts = []
    for name, value in sent.items():
        if isinstance(value, np.ndarray):
            parts.append(f"{name} {value.dtype}{list(value.shape)}")
        elif isinstance(value, str):
            parts.append(f"{name} {value!r}")
        else:
            parts.append(name)
    return ", ".join(parts)


def _start(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
