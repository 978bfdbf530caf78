from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Random, Zero
from pytest_vla_shift.policies.check import check_policy
from tests.policies.observations import INFO, observation


def test_zero_is_liberos_settle_action() -> None:
    policy = Zero()
    policy.reset(INFO, 0)
    np.testing.assert_array_equal(policy.act(observation()), [[0, 0, 0, 0, 0, 0, -1]] * 8)


def test_random_is_uniform_and_decided_by_the_seed_alone() -> None:
    policy = Random()
    chunks = []
    for seed in (5, 6, 5):
        policy.reset(INFO, seed)
        chunks.append(np.concatenate([policy.act(observation(i)) for i in range(200)]))
        np.random.random()  # somebody else's draw
    np.testing.assert_array_equal(chunks[0], chunks[2])
    assert not np.array_equal(chunks[0], chunks[1])
    assert chunks[0].min() >= -1
    assert chunks[0].max() <= 1
    standard_error = np.sqrt(1 / 3 / len(chunks[0]))
    assert np.abs(chunks[0].mean(axis=0)).max() < 5 * standard_error


def test_random_without_a_seed_is_an_error_and_not_a_default_seed() -> None:
    with pytest.raises(RuntimeError, match="act before reset"):
        Random().act(observation())


@pytest.mark.parametrize("policy", [Zero(), Random()], ids=["zero", "random"])
def test_baselines_look_at_nothing_and_keep_the_contract(policy: Zero | Random) -> None:
    assert policy.spec.cameras == ()
    assert not policy.spec.privileged
    assert check_policy(policy, observation(), INFO) == []
