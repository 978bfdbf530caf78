from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.policies.callables import DEFAULT_CAMERAS, FunctionPolicy
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Observation
from tests.policies.observations import INFO, observation

Actions = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def policy(observation: Observation, gain: str = "1") -> Actions:
    return np.full((1, 7), float(gain) * observation.step)


def made(options: dict[str, object], **arguments: str) -> FunctionPolicy:
    return FunctionPolicy("my:policy", "r1", policy, options, arguments)


def test_the_least_that_works() -> None:
    wrapped = made({})
    assert wrapped.spec.name == "my:policy"
    assert wrapped.spec.cameras == DEFAULT_CAMERAS
    assert (wrapped.spec.action_dim, wrapped.spec.chunk, wrapped.spec.replan) == (7, 1, 1)
    assert not wrapped.spec.privileged
    assert not wrapped.spec.seeded
    wrapped.reset(INFO, 0)
    np.testing.assert_array_equal(wrapped.act(observation(3)), np.full((1, 7), 3.0))


def test_arguments_reach_the_function() -> None:
    np.testing.assert_array_equal(made({}, gain="2").act(observation(3)), np.full((1, 7), 6.0))


def test_attributes_declare_and_options_win() -> None:
    def chunked(observation: Observation) -> Actions:
        return np.zeros((16, 7))

    vars(chunked).update(cameras=("agentview",), chunk=16, replan=8, seeded=True)
    spec = FunctionPolicy("f", "r", chunked, {"replan": "4", "cameras": ""}, {}).spec
    assert (spec.cameras, spec.chunk, spec.replan, spec.seeded) == ((), 16, 4, True)


def test_replan_is_the_chunk_unless_said() -> None:
    assert made({"chunk": "8"}).spec.replan == 8


@pytest.mark.parametrize(
    "options, message",
    [
        ({"chunk": "0"}, "chunk must be a whole number from 1, not 0"),
        ({"chunk": "-1"}, "chunk must be"),
        ({"chunk": "1.5"}, "chunk must be"),
        ({"chunk": "²"}, "chunk must be"),
        ({"chunk": True}, "chunk must be"),
        ({"replan": "2"}, "replan 2 is more than its chunk 1"),
        ({"privileged": "yes"}, "privileged must be true or false, not 'yes'"),
        ({"seeded": 1}, "seeded must be"),
        ({"cameras": 3}, "cameras must be names"),
        ({"cameras": ("a", 3)}, "cameras must be names"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(options)
