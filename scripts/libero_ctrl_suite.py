"""Writes the shipped suite ``libero_ctrl``: the 10 initial states of each task that it evaluates.

The paper chooses them at random once and does not say which; so do we, by the seed below. Run it
to see that the file in the package is what this script writes:
``python -m scripts.libero_ctrl_suite | diff - pytest_vla_shift/protocol/suites/libero_ctrl.toml``.
"""

from __future__ import annotations

import numpy as np

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.identity import stable_seed

TASK_SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
STATES, CONFIGURATIONS = 50, 10
SEED = 0

HEADER = f"""\
# LIBERO-CTRL (section 3.1): 40 tasks x 10 configurations, six axes and all of them at once, at
# three levels: 8,400 cells, and with --vla-nominal all 2,000 released initial states clean.
#
# A configuration is one initial state with one preset of every axis: the j-th listed initial state
# of a task goes with preset j, at every level. The states of a task were drawn once, 10 of its 50
# without repetition, and are listed in ascending order. NumPy's PCG64 drew them, with the first 32
# bits of SHA-256 over ["libero_ctrl", {SEED}, task suite, task] as its seed. They are frozen:
# scripts/libero_ctrl_suite.py writes this file, and a test compares.
schema = 1
name = "libero_ctrl"
title = "LIBERO-CTRL: 40 LIBERO tasks, six axes alone and all at once, three levels"
simulator = "libero"
env_seed = 7
policy_seed = 0
draw_seed = 0
settle_steps = 10
settle_speed_m_s = 0.05
null = false
simultaneous = true

[observation]
cameras = ["agentview", "robot0_eye_in_hand"]
height = 256
width = 256

[axes]
camera = "libero_ctrl"
lighting = "libero_ctrl"
robot_pose = "libero_ctrl"
sensor = "libero_ctrl"
actuation = "libero_ctrl"
language = "libero_ctrl"
"""


def chosen(task_suite: str, task: str) -> list[int]:
    """The initial states of a task's configurations, ascending."""
    seed = stable_seed("libero_ctrl", SEED, task_suite, task)
    rng = np.random.Generator(np.random.PCG64(seed))
    return sorted(int(i) for i in rng.choice(STATES, CONFIGURATIONS, replace=False))


def suite_text() -> str:
    """The suite's TOML."""
    blocks = [HEADER]
    for name in TASK_SUITES:
        known = catalog.find(name)
        assert known is not None
        assert known.initial_states == STATES
        for task in known.tasks:
            blocks.append(
                f'[[tasks]]\nsuite = "{name}"\ntasks = ["{task}"]\n'
                f"episodes = {chosen(name, task)}\n"
            )
    return "\n".join(blocks)


if __name__ == "__main__":
    print(suite_text(), end="")
