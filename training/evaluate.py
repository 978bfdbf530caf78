"""The success table of a seeing policy, task by task, as Markdown.

    python -m training.evaluate --weights FILE.onnx --suite libero_object --jobs 2

Clean rollouts on the ten evaluation states of every task, as a suite would run them: its own
seed, settling, horizon and picture size.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo
from pytest_vla_shift.simulators.libero import factory
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from training import each_task, episodes
from training.demonstrate import PICTURE, SETTLE_STEPS

ENV_SEED = 7


@dataclass(frozen=True)
class Row:
    """One task: steps to success of each episode, None for a failure."""

    task_suite: str
    task: str
    steps: list[int | None]
    decision_ms: float


def measure(task_suite: str, task: str, states: tuple[int, ...], weights: Path | None) -> Row:
    """Run one task's episodes one after the other in this process."""
    suite = catalog.find(task_suite)
    assert suite is not None
    policy = Tiny(weights=None if weights is None else str(weights))
    spec = policy.spec
    simulator = factory(SimulatorSettings("libero", ENV_SEED, spec.cameras, PICTURE, PICTURE))
    steps: list[int | None] = []
    spent, decisions = 0.0, 0
    for index in states:
        episode = Episode(task_suite, task, index)
        prepared = simulator.prepare(episode)
        settle = np.tile(simulator.info.settle_action, (SETTLE_STEPS, 1))
        simulator.step(settle, stop_on_success=False)
        policy.reset(EpisodeInfo(episode, prepared.instruction, suite.horizon), seed=0)
        taken, solved = 0, False
        while taken < suite.horizon and not solved:
            observation = simulator.observe(spec.cameras)
            start = time.process_time()
            actions = policy.act(observation)[: min(spec.replan, suite.horizon - taken)]
            spent += time.process_time() - start
            decisions += 1
            result = simulator.step(np.asarray(actions, dtype=np.float64))
            taken, solved = taken + result.steps, result.success
        steps.append(taken if solved else None)
    simulator.close()
    return Row(task_suite, task, steps, 1e3 * spent / decisions)


def table(rows: list[Row]) -> str:
    """Markdown, a line a task and one a suite."""
    lines = ["| task | solved | steps to success | failed states |", "|---|--:|---|---|"]
    for row in rows:
        done = [step for step in row.steps if step is not None]
        states = episodes.evaluation(row.task_suite, row.task)
        failed = [str(s) for s, step in zip(states, row.steps, strict=False) if step is None]
        spread = f"{np.median(done):.0f} ({max(done)})" if done else "-"
        lines.append(
            f"| {row.task_suite}: {row.task} | {len(done)}/{len(row.steps)}"
            f" | {spread} | {', '.join(failed)} |"
        )
    for suite in dict.fromkeys(row.task_suite for row in rows):
        outcomes = [
            step is not None for row in rows if row.task_suite == suite for step in row.steps
        ]
        lines.append(f"| {suite} | {sum(outcomes)}/{len(outcomes)} | | |")
    lines.append(f"\n{np.mean([row.decision_ms for row in rows]):.1f} ms of CPU a decision.")
    return "\n".join(lines)


def _measure(work: tuple[str, str, tuple[int, ...], Path | None]) -> Row:
    row = measure(*work)
    print(row.task_suite, row.task, row.steps, flush=True)
    return row


def main() -> None:
    """Command line."""
    parser = each_task.options(__doc__)
    parser.add_argument("--weights", type=Path, help="an ONNX file; the shipped one if not given")
    parser.add_argument("--states", type=int, default=10, help="how many of the ten")
    args = parser.parse_args()
    chosen = each_task.chosen(args)
    work = [(*each, episodes.evaluation(*each)[: args.states], args.weights) for each in chosen]
    rows = {(row.task_suite, row.task): row for row in each_task.spread(_measure, work, args.jobs)}
    print(table([rows[each] for each in chosen]))


if __name__ == "__main__":
    main()
