"""The observation of a trial: every profile finds in it what it needs."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.policies.mapping import observed, payload
from pytest_vla_shift.policies.probe import EPISODE, SIZE, probe_observation
from pytest_vla_shift.policies.profile import QUANTITIES, read_profile
from pytest_vla_shift.policies.quantities import quantity, source_of
from tests.fakes.toy_profile import toy_profile
from tests.policies.shipped_profiles import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_can_be_tried_with_it(name: str) -> None:
    profile = read_profile(name)
    seen = probe_observation(profile)
    images, _, sentence = observed(profile, payload(profile, seen))
    assert sentence == EPISODE.instruction
    for image in profile.images:
        assert images[image.camera].shape[:2] == (image.size or SIZE)


@pytest.mark.parametrize("name", QUANTITIES)
def test_it_has_every_quantity_with_its_width(name: str) -> None:
    seen = probe_observation(toy_profile())
    assert quantity(name, seen.proprio).shape == (QUANTITIES[name],)
    if "quat" in source_of(name):
        assert np.linalg.norm(seen.proprio[source_of(name)]) == pytest.approx(1.0)


def test_a_picture_is_told_from_its_mirror_image() -> None:
    seen = probe_observation(toy_profile())
    picture = seen.images["front"]
    assert not np.array_equal(picture, picture[:, ::-1])
