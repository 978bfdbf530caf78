"""The episode of :mod:`benchmarks.libero_episode` by vla-eval's LIBERO benchmark class.

    python -m benchmarks.vla_eval_episode

For an interpreter that has vla-eval; :mod:`benchmarks.libero_rollout` calls it. Its own runner
(``SyncEpisodeRunner``) drives its own class (``LIBEROBenchmark``, both cameras and the state sent,
recording off) against a connection in this process that answers at once. CPU is counted from the
episode's first observation to its last: what its reset costs is left out. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping

import numpy as np

from benchmarks.libero_episode import ENV_SEED, INDEX, STEPS, SUITE, TASK, actions, digest


class Instant:
    """A connection to a policy that has made up its mind, and a stop watch of CPU time."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._actions = iter(actions())

    async def start_episode(self, _: Mapping[str, object]) -> None:
        """Called after the reset and the first observation."""
        self.cpu_s = time.process_time()

    async def act(self, observation: Mapping[str, object]) -> dict[str, object]:
        assert {"agentview", "wrist"} <= set(observation["images"])  # type: ignore[call-overload]
        return {"actions": next(self._actions)}

    async def end_episode(self, _: Mapping[str, object]) -> None:
        self.cpu_s = time.process_time() - self.cpu_s


def main() -> None:
    os.environ.setdefault("MUJOCO_GL", "egl")
    from libero.libero import benchmark
    from vla_eval.benchmarks.libero.benchmark import (  # type: ignore[import-not-found,unused-ignore]
        LIBEROBenchmark,
    )
    from vla_eval.runners import (  # type: ignore[import-not-found,unused-ignore]
        SyncEpisodeRunner,
    )

    ours = LIBEROBenchmark(
        suite=SUITE, seed=ENV_SEED, num_steps_wait=10, send_wrist_image=True, send_state=True
    )
    # What its lazy start does, but for importing torch, of which it makes torch.load trusting: this
    # LIBERO's initial states are NumPy archives, and torch is not asked for them.
    ours._task_suite = benchmark.get_benchmark_dict()[SUITE]()
    task = next(task for task in ours.get_tasks() if task["task_obj"].name == TASK)
    connection = Instant()
    result = asyncio.run(
        SyncEpisodeRunner().run_episode(
            ours, {**task, "episode_idx": INDEX}, connection, max_steps=STEPS
        )
    )
    state = np.asarray(ours._env.get_sim_state())
    ours.cleanup()
    row = {"cpu_s": connection.cpu_s, "steps": result["steps"], "state": digest(state)}
    print(json.dumps(row), file=sys.stderr)


if __name__ == "__main__":
    main()
