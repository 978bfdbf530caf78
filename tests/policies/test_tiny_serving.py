"""``tiny`` behind each wire that carries both of its pictures, asked by our own clients."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies import mapping
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.services import answering
from tests.policies.observations import INFO
from tests.policies.test_tiny import seen
from tests.policies.tiny_models import Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.observation import Observation

EXACT = 1e-6
"""Rotations travel as angles, so that the last bits of what the network is given may differ."""


def everything(seed: int) -> Observation:
    """What any of the wires carries."""
    found = seen(seed)
    quaternion = np.random.default_rng(seed).normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    proprio = {**found.proprio, "eef_quat": quaternion, "joint_pos": np.zeros(7)}
    proprio |= {"controller_pos": proprio["eef_pos"], "controller_quat": quaternion}
    return replace(found, proprio=proprio)


def carried(profile: Profile, observation: Observation) -> Observation:
    """With the pictures as they are at the other end: openpi's are made smaller on the way."""
    images, _, _ = mapping.observed(profile, mapping.payload(profile, observation))
    return replace(observation, images=images)


def acted(policy: Policy, seed: int, shown: Sequence[Observation]) -> NDArray[np.float64]:
    policy.reset(INFO, seed)
    return np.concatenate([np.asarray(policy.act(observation)) for observation in shown])


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openvla"])
def test_behind_a_wire_it_does_what_it_does_in_process(wire: str, tmp_path: Path) -> None:
    weights = str(Recipe(mean=0.1).write(tmp_path))
    choice = WIRES[wire]
    module = importlib.import_module(f"pytest_vla_shift.policies.serving.{choice.module}")
    profile = find_profile(choice.profile, choice.wire)
    shown = [everything(number) for number in range(6)]
    host = Host(Tiny("0.1", weights), profile)
    with answering(module.open_service(host, port=0)) as service:
        policy = resolve(wire, {}, settings=PolicySettings(url=service.url, timeout_s=10))
        assert policy.spec.seeded
        assert (policy.spec.chunk, policy.spec.replan) == (8, 8)
        served = acted(policy, 3, shown)
        other = acted(policy, 4, shown)
        policy.close()
    own = acted(Tiny("0.1", weights), 3, [carried(profile, each) for each in shown])
    assert set(own[:, 6]) == {-1.0, 0.0, 1.0}
    np.testing.assert_allclose(served[:, :6], own[:, :6], atol=EXACT)
    np.testing.assert_array_equal(served[:, 6], own[:, 6])
    assert np.abs(other - own).max() > 0.1


def test_a_wire_with_one_picture_is_refused(tmp_path: Path) -> None:
    weights = str(Recipe().write(tmp_path))
    with pytest.raises(UsageError, match=r"looks through agentview, robot0_eye.* has agentview"):
        Host(Tiny(weights=weights), find_profile("libero", "openvla"))
