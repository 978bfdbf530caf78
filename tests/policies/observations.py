"""An observation as LIBERO gives it, of noise, and an episode to reset with."""

from __future__ import annotations

import numpy as np

from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Observation,
    PrivilegedState,
)

EPISODE = Episode("libero_object", "pick_up_the_ketchup_and_place_it_in_the_basket", 7)
INFO = EpisodeInfo(EPISODE, "pick up the ketchup and place it in the basket", 280)


def observation(step: int = 0) -> Observation:
    rng = np.random.default_rng(step)
    return Observation(
        images={
            camera: rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            for camera in ("agentview", "robot0_eye_in_hand")
        },
        proprio={"eef_pos": rng.normal(size=3), "gripper_qpos": rng.normal(size=2)},
        instruction=INFO.instruction,
        step=step,
        privileged=PrivilegedState(positions={"ketchup_1": np.zeros(3)}, joints={"knob": 0.0}),
    )
