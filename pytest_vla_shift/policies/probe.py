"""An observation for a trial before the first episode: plain, and of the right shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation

if TYPE_CHECKING:
    from pytest_vla_shift.policies.profile import Profile

EPISODE = EpisodeInfo(
    Episode("trial", "trial", 0), "pick up the black bowl and place it on the plate", 1
)

SIZE = (256, 256)
"""Of pictures for which the profile names no size."""


def probe_observation(profile: Profile) -> Observation:
    """Grey pictures with a gradient, and an arm that points down above a table."""
    images = {}
    for image in profile.images:
        height, width = image.size or SIZE
        ramp = np.linspace(0.0, 255.0, width).astype(np.uint8)
        images[image.camera] = np.broadcast_to(ramp[None, :, None], (height, width, 3)).copy()
    down = np.array([1.0, 0.0, 0.0, 0.0])
    forward = np.array([0.0, 0.0, 0.0, 1.0])
    return Observation(
        images=images,
        proprio={
            "eef_pos": np.array([-0.2, 0.0, 1.1]),
            "eef_quat": down,
            "controller_pos": np.array([-0.2, 0.0, 1.1]),
            "controller_quat": down,
            "gripper_qpos": np.array([0.02, -0.02]),
            "joint_pos": np.array([0.0, -0.16, 0.0, -2.44, 0.0, 2.23, 0.79]),
            "base_pos": np.zeros(3),
            "base_quat": forward,
            "eef_pos_relative": np.array([0.5, 0.0, 0.5]),
            "eef_quat_relative": down,
        },
        instruction=EPISODE.instruction,
        step=0,
    )
