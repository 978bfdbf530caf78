"""What the process boundary costs: microseconds of wall and CPU time a message.

A chunk of a rollout is one ``observe`` and one ``step``. The simulator here does nothing but hand
out two ready pictures, so that what is left is the boundary. Run: python -m
benchmarks.boundary_overhead [--chunks 2000] [--size 256]
"""
# ruff: noqa: ARG002  (the protocol names the arguments)

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.protocol.observation import Episode, Goal, Observation
from pytest_vla_shift.protocol.stages import StageSpec
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from pytest_vla_shift.simulators.launch import open_simulator
from pytest_vla_shift.simulators.protocol import (
    Prepared,
    SimulatorInfo,
    SimulatorSettings,
    StepResult,
)

CAMERAS = ("agentview", "robot0_eye_in_hand")
INFO = SimulatorInfo(
    "idle",
    {"idle": "1"},
    1,
    "none",
    7,
    -1.0,
    1.0,
    (0.0,) * 6 + (-1.0,),
    20.0,
    CAMERAS,
    (0, 3),
    (3, 6),
)


class Idle:
    """A simulator that costs nothing: what LIBERO would send, ready made."""

    def __init__(self, settings: SimulatorSettings) -> None:
        shape = (settings.height, settings.width, 3)
        self._images = {name: np.full(shape, 127, dtype=np.uint8) for name in settings.cameras}
        self._observation = Observation(
            images={},
            proprio={
                "eef_pos": np.zeros(3),
                "eef_quat": np.zeros(4),
                "gripper_qpos": np.zeros(2),
                "joint_pos": np.zeros(7),
            },
            instruction="pick up the ketchup and place it in the basket",
            step=0,
        )

    @property
    def info(self) -> SimulatorInfo:
        return INFO

    def prepare(self, episode: Episode) -> Prepared:
        return Prepared({"qpos": "0"}, "wait", Goal(), ("a", "b", "c"), StageSpec(()))

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        return []

    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        return replace(self._observation, images={name: self._images[name] for name in cameras})

    def step(self, actions: NDArray[np.float64], *, stop_on_success: bool = True) -> StepResult:
        return StepResult(len(actions), False, np.zeros((len(actions), 3), dtype=np.bool_), 0.0)

    def success(self) -> bool:
        return False

    def predicates(self) -> dict[str, bool]:
        return {"a": False, "b": False, "c": False}

    def close(self) -> None:
        pass


class Factory:
    """Makes the idle simulator."""

    def __call__(self, settings: SimulatorSettings) -> Idle:
        return Idle(settings)

    def describe(self) -> SimulatorInfo:
        return INFO


factory = Factory()


def cpu(pid: int) -> float:
    """CPU seconds of this process and of the worker."""
    ours = resource.getrusage(resource.RUSAGE_SELF)
    own = ours.ru_utime + ours.ru_stime
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return own + sum(map(int, ticks)) / 100


def main() -> None:
    """Measure and print one line a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--size", type=int, default=256)
    options = parser.parse_args()
    settings = SimulatorSettings(
        "benchmarks.boundary_overhead:factory", 7, CAMERAS, options.size, options.size
    )
    simulator = open_simulator(settings, envs=1, rollout_timeout_s=600)
    began = time.perf_counter()
    simulator.prepare(Episode("idle", "idle", 0))
    print(f"start and first prepare: {1e3 * (time.perf_counter() - began):.0f} ms")
    pid = getattr(simulator, "pid", None)
    assert isinstance(pid, int)
    chunk = np.zeros((8, 7))
    for name, cameras, steps in (
        ("step, 8 actions", None, True),
        ("observe, no pictures", (), False),
        (f"observe, 2 x {options.size}x{options.size}", CAMERAS, False),
        (f"chunk: observe 2 x {options.size}x{options.size} + step", CAMERAS, True),
    ):
        walls = []
        before = cpu(pid)
        for _ in range(options.chunks):
            start = time.perf_counter()
            if cameras is not None:
                simulator.observe(cameras)
            if steps:
                simulator.step(chunk)
            walls.append(time.perf_counter() - start)
        used = (cpu(pid) - before) / options.chunks
        print(f"{name}: median {1e6 * np.median(walls):.0f} us wall, {1e6 * used:.0f} us CPU")
    simulator.close()


if __name__ == "__main__":
    main()
