"""NumPy's global generator, taken and given back without going through its words in Python."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_vla_shift.policies import numpy_state


@pytest.fixture(autouse=True)
def _own_generator() -> Iterator[None]:
    before = np.random.get_state()
    yield
    np.random.set_state(before)


def _whole() -> tuple[object, ...]:
    """All of the state, as NumPy itself tells it."""
    state = np.random.get_state(legacy=False)
    words, position = state["state"]["key"], state["state"]["pos"]
    return words.tobytes(), position, state["has_gauss"], state["gauss"]


def _anywhere(choose: random.Random) -> None:
    """A state as programs leave it: at any position, with and without a kept normal value."""
    np.random.seed(choose.randrange(2**32))
    for _ in range(choose.randrange(700)):
        choose.choice((np.random.random, np.random.standard_normal))()


def test_the_memory_is_as_this_numpy_lays_it_out() -> None:
    assert numpy_state._address() is not None


def test_taking_a_state_changes_nothing_and_giving_it_back_gives_all_of_it() -> None:
    choose = random.Random(4)
    kept = 0
    for _ in range(300):
        _anywhere(choose)
        before = _whole()
        state = numpy_state.take()
        assert _whole() == before
        kept += not isinstance(state, numpy_state.Plain)
        _anywhere(choose)
        numpy_state.give(state)
        assert _whole() == before
    assert 50 < kept < 250  # both kinds were there


def test_a_state_may_be_given_twice() -> None:
    np.random.seed(6)
    np.random.standard_normal()
    for state in (numpy_state.take(), None):
        if state is None:
            np.random.standard_normal()
            state = numpy_state.take()
        numpy_state.give(state)
        first = np.random.standard_normal(5)
        numpy_state.give(state)
        assert np.array_equal(np.random.standard_normal(5), first)


def test_where_the_memory_is_laid_out_in_another_way_numpy_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose = random.Random(5)
    np.random.seed(1)
    plain, expected = numpy_state.take(), np.random.random(3)
    monkeypatch.setattr(numpy_state, "_as_known", lambda: False)
    assert numpy_state._address() is None
    numpy_state.give(plain)
    assert np.array_equal(np.random.random(3), expected)
    for _ in range(20):
        _anywhere(choose)
        before, state = _whole(), numpy_state.take()
        _anywhere(choose)
        numpy_state.give(state)
        assert _whole() == before


def test_another_global_generator_is_left_to_numpy() -> None:
    own = np.random.get_bit_generator()  # type: ignore[attr-defined]  # since NumPy 1.24
    np.random.set_bit_generator(np.random.PCG64(3))  # type: ignore[attr-defined]
    try:
        assert numpy_state._address() is None
        state = numpy_state.take()
        first = np.random.random(3)
        numpy_state.give(state)
        assert np.array_equal(np.random.random(3), first)
    finally:
        np.random.set_bit_generator(own)  # type: ignore[attr-defined]
