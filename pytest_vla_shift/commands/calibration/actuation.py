"""``vla-shift calibrate actuation``: how far LIBERO-CTRL's actuation presets lead the hand astray.

Table 1 of the paper: "Actuation scales are calibrated on Spatial so that r = 2, 4, 8 produce
approximately 10/20/40 mm of open-loop end-effector tracking error". Whose commands were replayed,
and whether the error is a mean over time or a maximum, it does not say; both are printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import Policy
    from pytest_vla_shift.protocol.conditions import Axis, Level
    from pytest_vla_shift.protocol.observation import Episode
    from pytest_vla_shift.protocol.suite import Suite
    from pytest_vla_shift.shifts.protocol import Intervention

TASK_SUITE = "libero_spatial"

PUBLISHED = {2.0: 10, 4.0: 20, 8.0: 40}
"""Radius -> millimetres, "approximately"."""

DESCRIPTION = (
    "Replay the commands of clean, successful rollouts of the scripted expert on libero_spatial"
    " under each of LIBERO-CTRL's ten actuation presets at every radius, and under each parameter"
    " alone at the largest; print the end effector's distance from the clean path. With the"
    " defaults about 400 rollouts: ten minutes of one core."
)

SUITE = """
schema = 1
name = "calibrate_actuation"
title = "Open-loop replay under LIBERO-CTRL's actuation presets"
simulator = "libero"
env_seed = 7
policy_seed = 0
draw_seed = 0
settle_steps = 10
settle_speed_m_s = 0.05
null = false

[observation]
cameras = ["agentview"]
height = 64
width = 64

[[tasks]]
suite = "libero_spatial"
tasks = {tasks}
episodes = "0:{episodes}"

[axes]
actuation = "libero_ctrl"
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One replay.

    Attributes:
        task, episode: whose commands.
        what: ``preset 3``, or a parameter that has all the severity: ``lag``, ``gain-``.
        radius: the severity.
        steps: how many commands there are.
        mean_mm, peak_mm: distance from the clean path, averaged over the steps and at its largest.
    """

    task: str
    episode: int
    what: str
    radius: float
    steps: int
    mean_mm: float
    peak_mm: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vla-shift calibrate actuation``."""
    for name, default in (("tasks", 10), ("episodes", 1)):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"only the first N {name} (default: {default})",
        )
    parser.add_argument("--json", action="store_true", help="every replay, as JSON")


def run(given: argparse.Namespace, out: TextIO) -> int:
    """The command.

    Returns:
        0; 1 if no clean rollout succeeded, so that there was nothing to replay.

    Raises:
        UsageError: LIBERO is not here, or a number is below 1.
    """
    from pytest_vla_shift.policies.scripted import TASKS, Scripted
    from pytest_vla_shift.protocol.errors import UsageError
    from pytest_vla_shift.protocol.suite import parse_suite

    for name in ("tasks", "episodes"):
        if getattr(given, name) < 1:
            raise UsageError(f"--{name} {getattr(given, name)}: at least one")
    tasks = json.dumps(TASKS[TASK_SUITE][: given.tasks])
    suite = parse_suite(SUITE.format(tasks=tasks, episodes=given.episodes), "calibrate actuation")
    notes: list[str] = []
    rows: list[Row] = []
    for row in measure(suite, Scripted(), notes.append):
        if not given.json and (
            not rows or (row.task, row.episode) != (rows[-1].task, rows[-1].episode)
        ):
            out.write(f"{row.task} episode {row.episode}: {row.steps} commands\n")
            out.flush()
        rows.append(row)
    if given.json:
        json.dump({"replays": [asdict(row) for row in rows], "left_out": notes}, out, indent=1)
        out.write("\n")
    else:
        out.writelines(line + "\n" for line in (*notes, "", *table(rows)))
    return 0 if rows else 1


def measure(suite: Suite, policy: Policy, note: Callable[[str], None]) -> Iterator[Row]:
    """Every replay of ``suite``, which has one axis, a shift of the actions with presets.

    Clean rollouts that failed have no commands worth following: they are left out, and said.
    """
    from pytest_vla_shift.protocol.conditions import NOMINAL
    from pytest_vla_shift.protocol.errors import InfrastructureError
    from pytest_vla_shift.protocol.plan import Cell
    from pytest_vla_shift.rollouts.attempts import SimulatorOptions
    from pytest_vla_shift.rollouts.engine import Engine
    from pytest_vla_shift.rollouts.store import Store
    from pytest_vla_shift.rollouts.tracking import OpenLoop

    (axis,) = suite.axes
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), "main")
        engine = Engine(store, policy, {}, options=SimulatorOptions(envs=0))
        try:
            for number, episode in enumerate(suite.all_episodes()):
                cell = Cell(suite.name, episode, NOMINAL)
                clean = engine.pair(suite, cell).clean
                commands = store.actions(clean.key)
                if not clean.success or commands is None:
                    ended = "failed" if clean.error is None else ": ".join(clean.error)
                    note(f"left out: {episode.task} episode {episode.index}, clean: {ended}")
                    continue
                simulator = engine.simulator(suite)
                try:
                    loop = OpenLoop(simulator, engine.clean_request(suite, cell), commands)
                    for what, shift in shifts(axis, number, episode):
                        error = loop.error(shift)
                        yield Row(
                            clean.task,
                            clean.episode,
                            what,
                            shift.parameters["radius"],
                            len(commands),
                            error.mean_mm,
                            error.peak_mm,
                        )
                except InfrastructureError as fault:
                    engine.discard_simulator(suite)
                    note(f"left out: {episode.task} episode {episode.index}: {fault}")
        finally:
            engine.close()
            store.close()


def shifts(axis: Axis, number: int, episode: Episode) -> Iterator[tuple[str, Intervention]]:
    """Every preset at every level, then each coordinate alone, to either side, at the last level.

    Args:
        axis: of a metric shift.
        number: which rollout this is: a coordinate alone takes the unit vectors of that preset.
        episode: decides the noise.
    """
    from pytest_vla_shift.protocol.identity import stable_seed
    from pytest_vla_shift.shifts.apply import load_shift
    from pytest_vla_shift.shifts.kinds import Metric
    from pytest_vla_shift.shifts.protocol import Intervention

    shift = load_shift(axis.shift)
    assert isinstance(shift, Metric)

    def bound(what: str, level: Level, draw: Mapping[str, float]) -> tuple[str, Intervention]:
        seed = stable_seed("calibrate", episode.task_suite, episode.task, episode.index, what)
        return what, Intervention(
            axis.name, axis.shift, level.name, level.parameters, dict(draw), seed
        )

    for level in axis.levels:
        for index, preset in enumerate(axis.presets):
            yield bound(f"preset {index}", level, preset)
    vectors = axis.presets[number % len(axis.presets)]
    nothing = dict.fromkeys(shift.scales, 0.0)
    for name in shift.scales:
        for sign in (1.0,) if name in shift.one_sided else (1.0, -1.0):
            what = name if sign > 0 else f"{name}-"
            yield bound(what, axis.levels[-1], {**vectors, **nothing, name: sign})


def table(rows: Sequence[Row]) -> list[str]:
    """The lines to print: a row a radius, then a row a parameter alone."""
    import numpy as np

    def line(title: str, chosen: Sequence[Row], published: str) -> str:
        cells = [f"{title:<26}{len(chosen):>8}"]
        for values in ([row.mean_mm for row in chosen], [row.peak_mm for row in chosen]):
            low, middle, high = np.percentile(values, [25, 50, 75])
            cells.append(f"{middle:8.1f} ({low:5.1f} to {high:5.1f})")
        return "".join(cells) + f"{published:>12}"

    presets = [row for row in rows if row.what.startswith("preset ")]
    steps = {(row.task, row.episode): row.steps for row in rows}
    lines = [
        f"{len(steps)} clean rollouts of the scripted expert on {TASK_SUITE}, of"
        f" {np.mean(list(steps.values())) if steps else 0:.0f} steps in the mean; distances in mm,"
        " median (quartiles)",
        "",
        f"{'':<26}{'replays':>8}{'mean over time':>25}{'largest':>25}{'published':>12}",
    ]
    for radius in sorted({row.radius for row in presets}):
        chosen = [row for row in presets if row.radius == radius]
        about = f"about {PUBLISHED[radius]}" if radius in PUBLISHED else ""
        lines.append(line(f"all presets, r = {radius:g}", chosen, about))
    alone = [row for row in rows if not row.what.startswith("preset ")]
    for what in dict.fromkeys(row.what for row in alone):
        chosen = [row for row in alone if row.what == what]
        lines.append(line(f"{what} alone, r = {chosen[0].radius:g}", chosen, ""))
    return lines
