"""``benchmarks.wires`` measures what it says: calls that were answered by another process."""

from __future__ import annotations

import numpy as np

from benchmarks import wires
from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile


def test_the_server_is_another_process_and_gets_both_pictures() -> None:
    with wires.asked("openvla-oft") as (policy, server):
        assert policy.spec.cameras == wires.CAMERAS
        assert "serves benchmarks.wires:instant" in policy.spec.revision
        before = wires.cpu(server)
        policy.reset(EPISODE, seed=0)
        found = policy.act(probe_observation(find_profile("oft-libero", "openvla")))
        assert found.shape == (1, 7)
        np.testing.assert_array_equal(found[:, :6], 0.0)
        assert wires.cpu(server) >= before


def test_every_wire_has_a_camera_or_two() -> None:
    for choice in WIRES.values():
        images = find_profile(choice.profile, choice.wire).images
        assert [image.camera for image in images] == list(wires.CAMERAS[: len(images)])
