"""Engines and rollouts on the toy simulator, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from pytest_vla_shift.protocol.plan import Cell
from pytest_vla_shift.protocol.suite import Suite, parse_suite
from pytest_vla_shift.rollouts.attempts import SimulatorOptions
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.request import RolloutRequest, request
from pytest_vla_shift.rollouts.store import Store
from pytest_vla_shift.simulators.protocol import SimulatorSettings, StepResult
from tests.fakes.toy_policies import Expert
from tests.fakes.toy_simulator import INFO, Toy
from tests.plugin.toy_project import SUITE

if TYPE_CHECKING:
    from numpy.typing import NDArray


def toy_suite(*changes: tuple[str, str]) -> Suite:
    """The toy project's suite, with texts replaced."""
    text = SUITE
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return parse_suite(text, "toy.toml")


def cell_of(suite: Suite, condition: str, task: str = "reach_left", index: int = 0) -> Cell:
    return Cell(suite.name, Episode("toy", task, index), suite.condition(condition))


def requested(
    suite: Suite,
    condition: str = "clean",
    policy: Policy | None = None,
    *,
    task: str = "reach_left",
    index: int = 0,
    args: Mapping[str, str] | None = None,
) -> RolloutRequest:
    cell = cell_of(suite, condition, task, index)
    spec = (policy or Expert()).spec
    return request(suite, cell.episode, cell.condition, INFO, spec, args or {})


def toy(suite: Suite) -> WatchedToy:
    return WatchedToy(
        SimulatorSettings(suite.simulator, suite.env_seed, suite.cameras, suite.height, suite.width)
    )


class WatchedToy(Toy):
    """The toy, noting every chunk of actions and every look."""

    def __init__(self, settings: SimulatorSettings) -> None:
        super().__init__(settings)
        self.chunks: list[NDArray[np.float64]] = []
        self.looks: list[tuple[str, ...]] = []
        self.prepared: list[Episode] = []

    def prepare(self, episode: Episode):  # type: ignore[no-untyped-def]
        self.prepared.append(episode)
        return super().prepare(episode)

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        self.looks.append(tuple(cameras))
        return super().observe(cameras, privileged=privileged)

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        self.chunks.append(actions)
        return super().step(actions, stop_on_success=stop_on_success)


@dataclass
class ToyEngine:
    """An engine over one toy, its store, and the records that it wrote."""

    directory: Path
    suite: Suite
    policy: Policy = field(default_factory=Expert)
    finished: list[RolloutRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.simulator = toy(self.suite)
        self.engine = Engine(
            Store(self.directory, "main"),
            self.policy,
            {},
            options=SimulatorOptions(envs=0, rollout_timeout_s=60.0),
            finished=self.finished.append,
        )
        self.engine._simulators.of = lambda suite: self.simulator  # type: ignore[method-assign]


class Script:
    """A policy that answers with the same chunk at every decision and notes what it was told."""

    def __init__(self, chunk: NDArray[np.float64], spec: PolicySpec) -> None:
        self._chunk = chunk
        self._spec = spec
        self.told: list[tuple[EpisodeInfo, int]] = []
        self.seen: list[Observation] = []

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def unsupported(self, task_suite: str, task: str) -> str | None:
        return None

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self.told.append((episode, seed))

    def act(self, observation: Observation) -> NDArray[np.floating]:
        self.seen.append(observation)
        return self._chunk

    def close(self) -> None:
        pass


def idle(length: int, replan: int, cameras: tuple[str, ...] = ()) -> Script:
    """A policy that stands still; its third component tells the actions of a chunk apart."""
    chunk = np.zeros((length, 7))
    chunk[:, 3] = np.arange(length) / 100
    chunk[:, 6] = -1.0
    return Script(chunk, PolicySpec("script", "1", cameras, chunk=length, replan=replan))
