"""The expert behind each wire does in LIBERO just what it does in process, bit for bit."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest

pytest.importorskip("libero.libero")

from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.scripted import Scripted
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from tests.fakes.services import answering
from tests.simulators import libero_support as support

STOVE = Episode("libero_goal", "turn_on_the_stove", 2)
STEPS = 60
"""Enough to reach and grasp the knob: whatever differed would have moved the arm elsewhere."""


def rollout(policy: Policy) -> bytes:
    """Every action that was executed, in closed loop."""
    sim = support.simulator()
    prepared = sim.prepare(STOVE)
    sim.apply([support.intervention("base")])
    support.settle(sim)
    policy.reset(EpisodeInfo(STOVE, prepared.instruction, 300, prepared.goal), seed=0)
    actions: list[bytes] = []
    for _ in range(STEPS):
        chunk = np.asarray(policy.act(sim.observe(policy.spec.cameras, privileged=True)))
        actions.append(chunk.tobytes())
        sim.step(chunk)
    return b"".join(actions)


@functools.cache
def in_process() -> bytes:
    return rollout(Scripted())


@pytest.mark.parametrize("wire", WIRES)
def test_a_shifted_rollout_is_the_same_to_the_bit(wire: str) -> None:
    choice = WIRES[wire]
    module = importlib.import_module(f"pytest_vla_shift.policies.serving.{choice.module}")
    host = Host(Scripted(), find_profile(choice.profile, choice.wire))
    with answering(module.open_service(host, port=0)) as service:
        policy = resolve(wire, {}, settings=PolicySettings(url=service.url, timeout_s=10))
        served = rollout(policy)
        policy.close()
    assert served == in_process()
    assert len(set(served)) > 100  # it moved
