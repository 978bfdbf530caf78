"""The rollout's own random state, so that the same numbers come out whatever else runs beside.

An in-process policy may draw from the global generators (python's, numpy's, torch's). Each
rollout owns a state of them, seeded with the pair's policy seed, which is swapped in around each
call into the policy and swapped out again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies import numpy_state
from pytest_vla_shift.protocol.identity import stable_seed

if TYPE_CHECKING:
    from types import ModuleType


MAKING_SEED = stable_seed("making a policy")
"""What the global generators begin at where a policy, or a session of it, is made: what it draws
then (a layer that is missing in its checkpoint) is the same in every process and lane."""


class RolloutRandomness:
    """Global generator states of one rollout.

    torch is touched only where the policy has imported it; its CUDA generators only where CUDA
    was initialised.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # None before the first time, when the generators are seeded in their places: making
        # others for their states takes three times as long.
        self._python: object | None = None
        self._numpy: numpy_state.State | None = None
        self._torch: object | None = None
        self._cuda: object | None = None

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Run the body on this rollout's generators; the process's own come back after it."""
        python, numpy = random.getstate(), numpy_state.take()
        torch = _torch()
        outer = None if torch is None else torch.get_rng_state()
        cuda = _cuda(torch)
        outer_cuda = None if cuda is None else cuda.get_rng_state_all()
        self._enter()
        if torch is not None:
            self._enter_torch(torch, cuda)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), numpy_state.take()
            random.setstate(python)
            numpy_state.give(numpy)
            if torch is not None:
                self._leave_torch(torch, outer, outer_cuda)

    def _enter(self) -> None:
        """Python's and NumPy's."""
        if self._python is None or self._numpy is None:
            random.seed(self._seed)
            np.random.seed(self._seed)
        else:
            random.setstate(self._python)  # type: ignore[arg-type]
            numpy_state.give(self._numpy)

    def _enter_torch(self, torch: ModuleType, cuda: ModuleType | None) -> None:
        """torch's own generators; ``manual_seed`` also seeds CUDA, so it comes first."""
        if self._torch is None:
            torch.manual_seed(self._seed)
        else:
            torch.set_rng_state(self._torch)
        if cuda is not None:
            if self._cuda is None:
                cuda.manual_seed_all(self._seed)
            else:
                cuda.set_rng_state_all(self._cuda)

    def _leave_torch(self, torch: ModuleType, outer: object, outer_cuda: object) -> None:
        """Keep what the body left and give the process's own back.

        CUDA may have been initialised within the body. Its generators then began at this
        rollout's seed (``manual_seed`` is kept by torch until then), and there is no outer state.
        """
        self._torch = torch.get_rng_state()
        torch.set_rng_state(outer)
        cuda = _cuda(torch)
        if cuda is not None:
            self._cuda = cuda.get_rng_state_all()
            if outer_cuda is not None:
                cuda.set_rng_state_all(outer_cuda)


def _torch() -> ModuleType | None:
    return sys.modules.get("torch")


def _cuda(torch: ModuleType | None) -> ModuleType | None:
    if torch is None or not torch.cuda.is_initialized():
        return None
    cuda: ModuleType = torch.cuda
    return cuda
