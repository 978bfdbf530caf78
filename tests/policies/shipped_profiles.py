"""An observation for any profile, and the profiles that are shipped."""

from __future__ import annotations

import numpy as np

from pytest_vla_shift.policies.profile import QUANTITIES, Profile, read_profile, shipped
from pytest_vla_shift.policies.quantities import source_of
from pytest_vla_shift.protocol.observation import Observation

NAMES = tuple(shipped())
"""All of them; tests take them as a parameter, so that a new one is tested as it comes."""


def profiles(simulator: str) -> list[Profile]:
    """Those for a simulator."""
    found = [read_profile(name) for name in NAMES]
    return [profile for profile in found if simulator in profile.simulators]


def observation_for(profile: Profile, seed: int = 0) -> Observation:
    """Noise in every camera and every quantity that the profile has."""
    generator = np.random.default_rng(seed)
    images = {}
    for image in profile.images:
        height, width = image.size or (12, 8)
        images[image.camera] = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
    proprio = {}
    for name in sorted({source_of(quantity) for quantity in QUANTITIES}):
        vector = generator.normal(size=QUANTITIES.get(name, 4))
        proprio[name] = vector / np.linalg.norm(vector) if "quat" in name else vector
    return Observation(images, proprio, "pick up the ketchup", 3)
