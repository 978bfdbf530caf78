"""As much of torch as the adapter and a rollout's generators touch: NumPy beneath."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "2.9.0+fake"


class Tensor:
    def __init__(self, values: Any, where: str = "cpu") -> None:
        self.values = np.asarray(values)
        self.where = where

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def detach(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values.astype(np.float32), self.where)

    def cpu(self) -> Tensor:
        return Tensor(self.values)

    def numpy(self) -> Any:
        assert self.where == "cpu"
        return self.values


class device:  # noqa: N801
    def __init__(self, name: str) -> None:
        self.type = name.partition(":")[0]


_random = np.random.default_rng(0)
inference = False


def from_numpy(values: Any) -> Tensor:
    return Tensor(values)


def randn(*shape: int) -> Tensor:
    return Tensor(_random.normal(size=shape))


def manual_seed(seed: int) -> None:
    global _random
    _random = np.random.default_rng(seed)


def get_rng_state() -> Any:
    return _random.bit_generator.state


def set_rng_state(state: Any) -> None:
    _random.bit_generator.state = state


@contextmanager
def inference_mode() -> Iterator[None]:
    global inference
    before, inference = inference, True
    try:
        yield
    finally:
        inference = before


@contextmanager
def autocast(device_type: str) -> Iterator[None]:
    yield


@contextmanager
def _fork_rng() -> Iterator[None]:
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)


random = SimpleNamespace(fork_rng=_fork_rng)
cuda = SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
