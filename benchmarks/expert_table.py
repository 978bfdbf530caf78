"""The scripted expert's success table, task by task, as Markdown.

    python benchmarks/expert_table.py libero_object --episodes 0:10 --jobs 2

Clean episodes on the real simulator, nothing rendered, the suite's own horizon and ten settling
steps. Every task of the suite is measured, whether the expert offers it or not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from dataclasses import dataclass

import numpy as np

from pytest_vla_shift.policies.scripted import TASKS, Scripted
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.rollouts.stages import StageTracker
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import SimulatorSettings

SETTLE_STEPS = 10


@dataclass(frozen=True)
class Row:
    """One task.

    Attributes:
        task: its name.
        steps: control steps to success of each episode, None for a failure.
        incomplete: successes without all milestones, or not in their order.
        cpu_seconds: of this process, building the world included.
    """

    task: str
    steps: list[int | None]
    incomplete: int
    cpu_seconds: float


def measure(
    task_suite: str, task: str, episodes: range, env_seed: int, horizon: int, trace: bool
) -> Row:
    """Run one task's episodes one after the other in this process."""
    simulator = factory(SimulatorSettings("libero", env_seed, (), 64, 64))
    policy = Scripted()
    steps: list[int | None] = []
    incomplete = 0
    start = time.process_time()
    for index in episodes:
        episode = Episode(task_suite, task, index)
        prepared = simulator.prepare(episode)
        settle = np.tile(simulator.info.settle_action, (SETTLE_STEPS, 1))
        simulator.step(settle, stop_on_success=False)
        policy.reset(EpisodeInfo(episode, prepared.instruction, horizon, prepared.goal), seed=0)
        given = [name for name, true in simulator.predicates().items() if true]
        tracker = StageTracker(prepared.stages, given)
        solved = None
        for step in range(1, horizon + 1):
            observation = simulator.observe(privileged=True)
            actions = policy.act(observation)
            if trace:
                eef = np.round(observation.proprio["eef_pos"], 3)
                print(index, step, policy.note, eef, np.round(actions[0], 2), flush=True)
            result = simulator.step(actions)
            tracker.update(step, dict(zip(prepared.predicates, result.predicates[-1], strict=True)))
            if result.success:
                solved = step
                break
        steps.append(solved)
        incomplete += solved is not None and not tracker.result().complete
    simulator.close()
    return Row(task, steps, incomplete, time.process_time() - start)


def table(task_suite: str, rows: list[Row]) -> str:
    """Markdown: solved, steps, and whether the expert offers the task."""
    lines = [
        f"| {task_suite} | solved | steps, median (largest) | without all milestones | offered |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        done = [s for s in row.steps if s is not None]
        spread = f"{statistics.median(done):.0f} ({max(done)})" if done else "-"
        offered = "yes" if row.task in TASKS.get(task_suite, ()) else "no"
        solved = f"{len(done)}/{len(row.steps)}"
        lines.append(f"| {row.task} | {solved} | {spread} | {row.incomplete} | {offered} |")
    total = sum(len(row.steps) for row in rows)
    failed = sum(row.steps.count(None) for row in rows)
    cpu = sum(row.cpu_seconds for row in rows) / max(total, 1)
    lines.append(f"\n{total - failed} of {total} episodes solved, {cpu:.1f} s of CPU an episode.")
    return "\n".join(lines)


def span(text: str) -> range:
    """``0:10`` -> range(0, 10)."""
    first, _, end = text.partition(":")
    return range(int(first), int(end or int(first) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task_suite", choices=catalog.task_suites("libero"))
    parser.add_argument("--episodes", type=span, default=range(10), help="first:end, 0:10")
    parser.add_argument("--task", default="", help="only tasks whose name contains this")
    parser.add_argument("--env-seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", action="store_true", help="print every step")
    args = parser.parse_args()
    suite = catalog.find(args.task_suite)
    assert suite is not None
    work = [
        (suite.name, task, args.episodes, args.env_seed, suite.horizon, args.trace)
        for task in suite.tasks
        if args.task in task
    ]
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        rows = pool.starmap(measure, work, chunksize=1)
    print(table(suite.name, rows))


if __name__ == "__main__":
    main()
