"""A simulator in this process, whose exceptions are sorted as the process boundary sorts them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_vla_shift.protocol.errors import InfrastructureError, SimulatorError, UsageError
from pytest_vla_shift.simulators.faults import describe_exception

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Episode, Observation
    from pytest_vla_shift.shifts.protocol import Intervention, Receipt
    from pytest_vla_shift.simulators.protocol import (
        Prepared,
        Simulator,
        SimulatorInfo,
        StepResult,
    )


class InProcessSimulator:
    """The Simulator protocol around ``inner``: a foreign exception becomes a SimulatorError.

    So a rollout's record says the same whether ``--vla-envs`` is 0 or not. The foreign exception
    is the error's cause, where a debugger finds it.
    """

    def __init__(self, inner: Simulator) -> None:
        self.inner = inner

    @property
    def info(self) -> SimulatorInfo:
        return self.inner.info

    @property
    def device(self) -> str:
        """What it draws with, for people; empty if it does not say."""
        return str(getattr(self.inner, "device", ""))

    def prepare(self, episode: Episode) -> Prepared:
        with _sorted():
            return self.inner.prepare(episode)

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        with _sorted():
            return self.inner.apply(interventions)

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        with _sorted():
            return self.inner.observe(cameras, privileged=privileged)

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        with _sorted():
            return self.inner.step(actions, stop_on_success=stop_on_success)

    def success(self) -> bool:
        with _sorted():
            return self.inner.success()

    def predicates(self) -> Mapping[str, bool]:
        with _sorted():
            return self.inner.predicates()

    def close(self) -> None:
        self.inner.close()


@contextlib.contextmanager
def _sorted() -> Iterator[None]:
    try:
        yield
    except (UsageError, InfrastructureError):
        raise
    except Exception as error:
        raise SimulatorError(describe_exception(error)) from error
