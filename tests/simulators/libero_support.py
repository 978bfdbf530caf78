"""What the tests of LIBERO share: one simulator for the whole run, and a rollout to compare."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.shifts.protocol import Intervention
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import Prepared, SimulatorSettings, StepResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.simulators.libero_simulator import LiberoSimulator
    from pytest_vla_shift.simulators.libero_world import World

CAMERAS = ("agentview", "robot0_eye_in_hand")
SETTINGS = SimulatorSettings("libero", env_seed=7, cameras=CAMERAS, height=64, width=64)

MILK = Episode("libero_object", "pick_up_the_milk_and_place_it_in_the_basket", 3)
BOWL = Episode("libero_goal", "put_the_bowl_on_the_plate", 5)
"""A task with fixtures whose places a reset draws."""

SHIFTS = {
    "illumination": ({"alpha": 0.4}, {}),
    "camera_orientation": ({"theta_max_deg": 10.0}, {"yaw": 0.7, "pitch": -0.5}),
    "base": ({"sigma_xy_m": 0.1, "sigma_yaw_deg": 10.0}, {"x": 0.4, "y": -0.5, "yaw": 0.6}),
    "gaussian_blur": ({"sigma_px": 4.0}, {}),
}
"""Shift -> a level and a draw that change something."""


@functools.cache
def simulator() -> LiberoSimulator:
    """The run's simulator. Not closed: that it may be left to the end of the process is tested."""
    return factory(SETTINGS)


def another(env_seed: int) -> LiberoSimulator:
    """A second simulator; to be closed."""
    return factory(replace(SETTINGS, env_seed=env_seed))


def world_of(sim: LiberoSimulator) -> World:
    """The world inside, for tests that put something into it or look past the protocol."""
    assert sim._world is not None
    return sim._world


def intervention(shift: str) -> Intervention:
    """The shift at its level of :data:`SHIFTS`."""
    level, draw = SHIFTS[shift]
    return Intervention(shift, shift, "L3", level, draw)


def settle(sim: LiberoSimulator) -> StepResult:
    """Ten steps without motion."""
    return sim.step(np.tile(sim.info.settle_action, (10, 1)), stop_on_success=False)


def begun(
    sim: LiberoSimulator, episode: Episode, interventions: Sequence[Intervention] = ()
) -> tuple[Prepared, int]:
    """Bring ``sim`` to the first decision of an episode; and how many steps may follow."""
    prepared = sim.prepare(episode)
    if interventions:
        sim.apply(interventions)
    settle(sim)
    suite = catalog.find(episode.task_suite)
    assert suite is not None
    return prepared, suite.horizon


def chunks() -> Iterator[NDArray[np.float64]]:
    """Three chunks of eight actions that move the arm and the gripper; the same every time."""
    rng = np.random.default_rng(11)
    for _ in range(3):
        yield rng.uniform(-1.2, 1.2, size=(8, 7))


@dataclass(frozen=True)
class Trace:
    """What a rollout did: digests of all that MuJoCo integrates, and of the pictures.

    Attributes:
        states: after settling and after every chunk.
        pictures: both cameras, where ``states`` are.
        predicates: every predicate after every step.
    """

    states: list[str]
    pictures: list[str]
    predicates: list[list[bool]]


def rollout(sim: LiberoSimulator, *, every_step: bool = False) -> Trace:
    """Settle, then execute :func:`chunks`.

    Args:
        every_step: execute actions one by one and draw after each, as an evaluation without
            chunks does; what comes out is the same trace.
    """
    states, pictures, predicates = [], [], []
    settle(sim)
    for chunk in (None, *chunks()):
        for actions in () if chunk is None else chunk[:, None] if every_step else (chunk,):
            predicates += sim.step(actions).predicates.tolist()
            if every_step:
                sim.observe(CAMERAS)
        states.append(state_digest(sim))
        images = sim.observe(CAMERAS).images
        pictures.append(digest(*(images[camera] for camera in CAMERAS)))
    return Trace(states, pictures, predicates)


def state_digest(sim: LiberoSimulator) -> str:
    """Digest of everything that MuJoCo integrates."""
    from pytest_vla_shift.simulators.libero_state import state_fields

    world = world_of(sim)
    return digest(*(value for _, value in state_fields(world.model, world.data)))


def digest(*arrays: NDArray[np.generic]) -> str:
    """Digest of arrays' bytes."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()
