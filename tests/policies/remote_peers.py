"""A remote policy on a scripted wire (tests/fakes), for the tests of one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla_shift.policies.extension import Served
from pytest_vla_shift.policies.remote import Adapter, RemotePolicy
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.protocol import Greeting
from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Observation,
)
from tests.fakes.memory_wire import Script
from tests.fakes.toy_profile import toy_profile
from tests.policies.shipped_profiles import observation_for

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import PolicySpec

PROFILE = toy_profile()
INFO = EpisodeInfo(Episode("toy", "reach_left", 0), "pick up the target", 60)
TOKEN = "hf_sesame"
SECRET = PolicySettings(timeout_s=3.0, token=TOKEN)


def greeting(**changes: object) -> Greeting:
    return replace(Greeting("toy server 1", PROFILE), **changes)  # type: ignore[arg-type]


def served(**changes: object) -> Served:
    plain = Served("Expert 1", ("front",), 4, 2, privileged=False, seeded=True, language=False)
    return replace(plain, **changes)  # type: ignore[arg-type]


def made(script: Script, **changes: object) -> RemotePolicy:
    adapter = Adapter(
        name="toy",
        revision="toy 1",
        url="ws://somewhere:1",
        profile=PROFILE,
        make_wire=script.wire,
        settings=PolicySettings(timeout_s=3.0),
        start="Start one with: serve toy",
    )
    return RemotePolicy(replace(adapter, **changes))  # type: ignore[arg-type]


def seen(step: int = 0) -> Observation:
    return replace(observation_for(PROFILE, step), step=step)


def spec_of(script: Script, **changes: object) -> PolicySpec:
    return made(script, **changes).spec


def broken(error: BaseException, where: str = "ask") -> tuple[Script, RemotePolicy]:
    script = Script(greeting())
    policy = made(script)
    policy.reset(INFO, 0)
    script.fails[where] = error
    return script, policy
