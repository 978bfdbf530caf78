"""What a LIBERO rollout costs: CPU of preparing, stepping and drawing, and memory.

    MUJOCO_GL=egl python -m benchmarks.libero_step [task_suite task]

Prints one line a row. CPU time of all threads of this process, so other load distorts it little
(shared caches and cores still cost up to a factor of two: compare ratios).
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import SimulatorSettings

CHUNK, CHUNKS = 8, 5
CAMERAS = ("agentview", "robot0_eye_in_hand")
DEFAULT = ("libero_object", "pick_up_the_milk_and_place_it_in_the_basket")


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def row(what: str, value: float, unit: str) -> None:
    print(f"{what:<58} {value:9.2f} {unit}", flush=True)


def main() -> None:
    task_suite, task = sys.argv[1:3] if len(sys.argv) > 2 else DEFAULT
    sim = factory(SimulatorSettings("libero", 7, CAMERAS, height=256, width=256))
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (CHUNKS, CHUNK, 7))

    def prepare(index: int) -> None:
        sim.prepare(Episode(task_suite, task, index))

    def five() -> None:
        for index in range(5):
            prepare(index)

    def hundred_predicates() -> None:
        for _ in range(100):
            sim.predicates()

    def settle() -> None:
        sim.step(np.tile(sim.info.settle_action, (10, 1)), stop_on_success=False)

    def on_demand() -> None:
        for chunk in actions:
            sim.observe(CAMERAS)
            sim.step(chunk)

    def every_step() -> None:
        for action in actions.reshape(-1, 1, 7):
            sim.observe(CAMERAS)
            sim.step(action)

    def blind() -> None:
        for chunk in actions:
            sim.step(chunk)

    row("prepare, the first of the process (imports, compiling)", cpu_ms(lambda: prepare(0)), "ms")
    row("prepare, another episode", cpu_ms(five) / 5, "ms")
    settle()
    sim.observe(CAMERAS)  # the first picture uploads textures
    row("predicates of one state", cpu_ms(hundred_predicates) / 100, "ms")
    cost = {}
    steps = CHUNKS * CHUNK
    for name, work in (("never", blind), ("at chunks", on_demand), ("at every step", every_step)):
        prepare(0)
        settle()
        cost[name] = cpu_ms(work) / steps
        row(f"control step, chunk {CHUNK}, 2 cameras 256 px, drawn {name}", cost[name], "ms")
    row("drawn at every step over drawn at chunks", cost["at every step"] / cost["at chunks"], "x")
    row("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")
    sim.close()


if __name__ == "__main__":
    main()
