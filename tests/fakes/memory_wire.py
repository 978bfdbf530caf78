"""Fakes: a wire that is scripted, one that is a function call away, and a policy behind it.

``tests.fakes.memory_wire:remote_expert`` is the toy's expert behind the second, as
``--vla-policy`` takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.mapping import reply
from pytest_vla_shift.policies.profile import Profile
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.wires.protocol import Greeting, WireError
from tests.fakes.toy_policies import Expert, Seer
from tests.fakes.toy_profile import toy_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.mapping import Payload
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.policies.settings import PolicySettings
    from pytest_vla_shift.protocol.observation import EpisodeInfo

    Answer = Mapping[str, NDArray[np.generic]]


@dataclass
class Script:
    """What servers say, whoever connects, and what was done to them.

    Attributes:
        greeting: of every connection.
        steps: how many actions an answer has.
        fails: ``greet``, ``begin`` or ``ask`` -> what it raises; taken out when raised.
        calls: method, connection and limit of every call.
        sent: every payload, with what was sent beside it.
        closed: connections that were closed.
        waits: called within every call, before anything fails.
    """

    greeting: Greeting
    steps: int = 4
    fails: dict[str, BaseException] = field(default_factory=dict)
    calls: list[tuple[str, int, float]] = field(default_factory=list)
    sent: list[tuple[Payload, Mapping[str, object] | None]] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    waits: Callable[[], None] = lambda: None
    made: int = 0

    def wire(self) -> ScriptedWire:
        """A connection."""
        self.made += 1
        return ScriptedWire(self, self.made)

    def called(self, method: str) -> list[float]:
        """The limits of all calls of a method."""
        return [limit_s for name, _, limit_s in self.calls if name == method]


class ScriptedWire:
    """Answers every observation with actions that count up from the number of the question."""

    def __init__(self, script: Script, number: int) -> None:
        self.script = script
        self.number = number

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        self._called("greet", limit_s)
        return self.script.greeting

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:
        self._called("begin", limit_s)

    def ask(
        self, payload: Payload, extension: Mapping[str, object] | None, limit_s: float
    ) -> Answer:
        self._called("ask", limit_s)
        self.script.sent.append((payload, extension))
        chunk = np.full((self.script.steps, 7), len(self.script.sent) / 100.0)
        return reply(self.script.greeting.profile, chunk)

    def close(self) -> None:
        if self.number not in self.script.closed:
            self.script.closed.append(self.number)

    def _called(self, method: str, limit_s: float) -> None:
        self.script.calls.append((method, self.number, limit_s))
        self.script.waits()
        if method in self.script.fails:
            raise self.script.fails.pop(method)


class HostWire:
    """A server of ours without a network: what a client sends is what the host gets.

    Args:
        host: of the policy.
        before: called with the number of each question of a rollout, and its episode.
    """

    def __init__(
        self, host: Host, before: Callable[[int, EpisodeInfo], None] = lambda at, info: None
    ) -> None:
        self._host = host
        self._before = before
        self._asked = 0

    def greet(self, profile: Profile, limit_s: float) -> Greeting:
        self._visit = self._host.visit()
        served = extension.announced(self._host.announcement())
        return Greeting("host", profile, seedable=True, served=served)

    def begin(self, episode: EpisodeInfo, seed: int, limit_s: float) -> None:
        self._info, self._asked = episode, 0
        self._visit.begin(extension.begun(episode, seed))

    def ask(self, payload: Payload, beside: Mapping[str, object] | None, limit_s: float) -> Answer:
        self._before(self._asked, self._info)
        self._asked += 1
        return self._visit.act(payload, beside)

    def close(self) -> None:
        if hasattr(self, "_visit"):
            self._visit.close()


def remote(
    policy: Policy,
    settings: PolicySettings,
    profile: Profile,
    before: Callable[[int, EpisodeInfo], None] = lambda at, info: None,
) -> RemotePolicy:
    """``policy`` behind a host, as a client sees it."""
    host = Host(policy, profile)
    return RemotePolicy(
        Adapter(
            name="memory",
            revision="1",
            url="memory:",
            profile=profile,
            make_wire=lambda: HostWire(host, before),
            settings=settings,
            start="It cannot be started.",
        )
    )


def remote_expert(
    *,
    settings: PolicySettings,
    fails: str = "",
    looks: str = "",
    size: str = "16",
    quantity: str = "eef_pos",
) -> RemotePolicy:
    """The toy's expert, behind a server whose connection breaks where ``fails`` says.

    Args:
        settings: of the run.
        fails: ``2:1 0:9``: the first question of episode 2 fails once, that of episode 0 9 times.
        looks: anything for the policy that finds its target in pictures.
        size: of the pictures that the profile wants.
        quantity: what its state begins with.
    """
    left = {int(pair.split(":")[0]): int(pair.split(":")[1]) for pair in fails.split()}

    def before(at: int, info: EpisodeInfo) -> None:
        if at == 1 and left.get(info.episode.index, 0) > 0:
            left[info.episode.index] -= 1
            header = {"Authorization": f"Api-Key {settings.token}"}
            raise WireError(f"1011, sent {header}")

    profile = toy_profile(
        ("size = [16, 16]", f"size = [{size}, {size}]"), ('"eef_pos"', f'"{quantity}"')
    )
    return remote(Seer() if looks else Expert(), settings, profile, before)
