"""A rollout's random state: its own, and no one else's."""

from __future__ import annotations

import contextlib
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_vla_shift.policies.randomness import RolloutRandomness


def draws() -> tuple[float, float]:
    return random.random(), float(np.random.random())


def outer() -> tuple[object, bytes]:
    return random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]


def test_the_process_gets_its_own_generators_back() -> None:
    random.seed(5)
    np.random.seed(5)
    before = outer()
    with RolloutRandomness(1).swapped_in():
        draws()
    assert outer() == before


def test_they_come_back_after_an_exception_as_well_and_the_stream_goes_on() -> None:
    whole = RolloutRandomness(1)
    with whole.swapped_in():
        expected = [draws(), draws()]
    broken = RolloutRandomness(1)
    before = outer()
    first = []

    def draw_and_raise() -> None:
        with broken.swapped_in():
            first.append(draws())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        draw_and_raise()
    assert outer() == before
    with broken.swapped_in():
        assert [*first, draws()] == expected


def test_the_stream_is_the_same_whatever_runs_between() -> None:
    alone = RolloutRandomness(7)
    with alone.swapped_in():
        expected = [draws() for _ in range(3)]
    mine, other, found = RolloutRandomness(7), RolloutRandomness(8), []
    for _ in range(3):
        with mine.swapped_in():
            found.append(draws())
        random.seed(0)
        np.random.seed(0)
        draws()
        with other.swapped_in():
            draws()
    assert found == expected


def test_another_seed_is_another_stream() -> None:
    streams = []
    for seed in (0, 1, 2**32 - 1):
        with RolloutRandomness(seed).swapped_in():
            streams.append(draws())
    assert len(set(streams)) == 3


class FakeTorch(SimpleNamespace):
    """torch's generators as far as they are used here: a state is (seed, numbers drawn).

    Like torch, it keeps a CUDA seed that is given before CUDA is initialised.
    """

    def __init__(self, cuda: bool) -> None:
        super().__init__()
        self.state = ("default", 0)
        self.cuda_states = [("default", 0)]
        self.pending: int | None = None
        self.initialised = cuda
        self.cuda = SimpleNamespace(
            is_initialized=lambda: self.initialised,
            get_rng_state_all=lambda: list(self.cuda_states),
            set_rng_state_all=self._set_all,
            manual_seed_all=self._seed_all,
        )

    def get_rng_state(self) -> tuple[object, int]:
        return self.state

    def set_rng_state(self, state: tuple[str, int]) -> None:
        self.state = state

    def manual_seed(self, seed: int) -> None:
        self.state = (str(seed), 0)
        self._seed_all(seed)

    def _seed_all(self, seed: int) -> None:
        if self.initialised:
            self.cuda_states = [(str(seed), 0)]
        else:
            self.pending = seed

    def _set_all(self, states: list[tuple[str, int]]) -> None:
        assert self.initialised
        self.cuda_states = list(states)

    def start_cuda(self) -> None:
        if self.initialised:
            return
        self.initialised = True
        if self.pending is not None:
            self.cuda_states = [(str(self.pending), 0)]

    def draw(self) -> tuple[object, object]:
        seed, count = self.state
        self.state = (seed, count + 1)
        cuda: object = None
        if self.initialised:
            cuda = self.cuda_states[0]
            self.cuda_states = [(self.cuda_states[0][0], self.cuda_states[0][1] + 1)]
        return (seed, count), cuda


def test_torch_on_the_cpu_has_a_stream_of_the_rollouts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch(cuda=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    torch.draw()
    mine = RolloutRandomness(3)
    for count in range(3):
        with mine.swapped_in():
            assert torch.draw() == (("3", count), None)
        assert torch.state == ("default", 1)


def test_torch_on_cuda_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch(cuda=True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    torch.draw()
    mine, other = RolloutRandomness(3), RolloutRandomness(4)
    for count in range(3):
        with mine.swapped_in():
            assert torch.draw() == (("3", count), ("3", count))
        with contextlib.suppress(ZeroDivisionError), other.swapped_in():
            torch.draw()
            raise ZeroDivisionError
        assert (torch.state, torch.cuda_states) == (("default", 1), [("default", 1)])


def test_cuda_that_starts_within_a_rollout_gives_the_numbers_of_every_later_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = FakeTorch(cuda=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    streams = []
    for _ in range(2):
        randomness, stream = RolloutRandomness(3), []
        for _ in range(3):
            with randomness.swapped_in():
                torch.start_cuda()
                stream.append(torch.draw())
        streams.append(stream)
    assert streams[0] == streams[1]
    assert streams[0] == [(("3", count), ("3", count)) for count in range(3)]


def test_torch_that_is_not_imported_is_not_imported_for_this(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with RolloutRandomness(3).swapped_in():
        draws()
    assert "torch" not in sys.modules


def test_real_torch_where_it_is() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    undisturbed = [torch.rand(1).item() for _ in range(4)]
    torch.manual_seed(0)
    streams, outer = [], []
    for _ in range(2):
        randomness, stream = RolloutRandomness(3), []
        for _ in range(2):
            with randomness.swapped_in():
                stream.append(torch.rand(3).tolist())
            outer.append(torch.rand(1).item())
        streams.append(stream)
    assert streams[0] == streams[1]
    assert streams[0][0] != streams[0][1], "one stream, not one state again and again"
    assert outer == undisturbed
