"""What a policy may answer, and the one clear sentence for what it may not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.policies.baselines import Zero
from pytest_vla_shift.policies.guard import ask, begin, checked_actions, spec_problems
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import PolicyError, WorkerLost
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.policies.observations import INFO, observation

SPEC = PolicySpec(name="mine", revision="1", action_dim=7, chunk=4, replan=2)


def with_value(value: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    actions = np.zeros((4, 7))
    actions[2, 5] = value
    return actions


class Tensor:
    """Stands for a torch tensor: an array only by NumPy's protocol."""

    def __init__(self, values: object, error: Exception | None = None) -> None:
        self._values, self._error = values, error

    def __array__(self, dtype: object = None, copy: object = None) -> object:
        if self._error is not None:
            raise self._error
        return np.asarray(self._values, dtype=np.float32)


@pytest.mark.parametrize(
    "raw",
    [
        np.zeros((4, 7)),
        np.zeros((1, 7), dtype=np.float32),
        np.zeros((2, 7), dtype=np.int64),
        [[0.0] * 7],
        Tensor(np.zeros((3, 7))),
        np.zeros((8, 14))[::2, ::2],
        with_value(37.5),
    ],
    ids=["full", "float32", "integers", "lists", "tensor", "strided", "beyond one"],
)
def test_real_numbers_of_the_right_shape_pass_and_become_an_array_of_our_own(raw: object) -> None:
    actions = checked_actions("mine", SPEC, raw)
    assert actions.dtype == np.float64
    assert actions.flags.c_contiguous
    assert not np.shares_memory(actions, np.asarray(raw))
    np.testing.assert_array_equal(actions, np.asarray(raw))


@pytest.mark.parametrize(
    "raw, message",
    [
        (None, "returned None; expected"),
        (np.zeros(7), r"shape \(7,\) \(put a single action into a chunk of one: actions\[None\]\)"),
        (np.zeros((1, 4, 7)), r"shape \(1, 4, 7\); expected \(T, 7\) with T at most 4"),
        (np.float64(0.0), r"shape \(\)"),
        (np.zeros((4, 8)), "width 8"),
        (np.zeros((4, 0)), "width 0"),
        (np.zeros((0, 7)), "an empty chunk"),
        (np.zeros((5, 7)), "5 actions, more than the chunk"),
        (with_value(np.nan), "nan in action 2, component 5"),
        (with_value(np.inf), "inf in action 2, component 5"),
        (with_value(-np.inf), "-inf in action 2, component 5"),
        (np.zeros((4, 7), dtype=bool), "type bool, which is not numeric"),
        (np.zeros((4, 7), dtype=complex), "complex128, which is not numeric"),
        (np.full((4, 7), "0"), "which is not numeric"),
        (np.full((4, 7), None), "object, which is not numeric"),
        ({"actions": np.zeros((4, 7))}, "returned dict of type object"),
        ([[0.0] * 7, [0.0] * 6], "returned a list that is no array"),
        (Tensor(0, TypeError("can't convert cuda:0 tensor")), "Tensor that is no array: TypeError"),
    ],
)
def test_what_cannot_be_executed_is_refused_in_one_sentence(raw: object, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        checked_actions("mine", SPEC, raw)
    text = str(caught.value)
    assert text.startswith("policy 'mine' returned")
    assert text.endswith("expected (T, 7) with T at most 4")
    assert "\n" not in text


class Raises(Zero):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        raise self._error

    def act(self, observation: Observation) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
        raise self._error


def test_an_exception_of_the_policy_is_quoted_with_its_step_and_chained() -> None:
    error = ValueError("bad latent")
    with pytest.raises(PolicyError, match="raised at step 16: ValueError: bad latent") as caught:
        ask(Raises(error), observation(16))
    assert caught.value.__cause__ is error
    with pytest.raises(
        PolicyError, match=r"raised in reset: AssertionError \(test_guard\.py:\d+, in \w+\)$"
    ):
        begin(Raises(AssertionError()), INFO, 0)


@pytest.mark.parametrize("error", [WorkerLost("gone"), KeyboardInterrupt()], ids=repr)
def test_infrastructure_errors_and_ctrl_c_are_not_the_policys(error: BaseException) -> None:
    with pytest.raises(type(error)):
        ask(Raises(error), observation())
    with pytest.raises(type(error)):
        begin(Raises(error), INFO, 0)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"name": ""}, "name must be text"),
        ({"revision": ""}, "revision must be text"),
        ({"cameras": "agentview"}, "cameras must be a tuple of names, not 'agentview'"),
        ({"cameras": ("a", "a")}, "a camera twice"),
        ({"action_dim": 0}, "action_dim must be a whole number from 1, not 0"),
        ({"chunk": 2.0}, "chunk must be a whole number from 1"),
        ({"replan": True}, "replan must be a whole number from 1"),
        ({"replan": 5}, "replan 5 is more than its chunk 4"),
        ({"seeded": 1}, "seeded must be True or False"),
    ],
)
def test_a_spec_that_cannot_be_is_described(change: dict[str, object], problem: str) -> None:
    assert spec_problems(SPEC) == []
    problems = spec_problems(replace(SPEC, **change))  # type: ignore[arg-type]
    assert len(problems) == 1
    assert problems[0].startswith(problem)
