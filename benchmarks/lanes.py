"""Two rollouts at once against one at a time, on real LIBERO; and how many rollouts a plan takes.

    python -m benchmarks --only lanes
    MUJOCO_GL=egl python -m benchmarks.lanes

LIBERO-CTRL's seven conditions (six axes and all at once) at three levels for two configurations of
one task and for four, with the scripted expert: real pytest processes, start and end included,
which two lanes share less than the rest: so both plans are told. Each way runs once, one after the
other, so anything else that uses the cores shows in the ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row

REPOSITORY = Path(__file__).parents[1]
SUITE = "suites/libero_ctrl"
TASK = "--vla-task=pick_up_the_ketchup_and_place_it_in_the_basket"
PLANS = (4, 2)
"""Configurations of each plan."""
PER_EPISODE = 1 + 6 * 3 + 3
"""The clean rollout, six axes and the compound of all at three levels each."""


def run(reports: Path, envs: int, configurations: int, *more: str) -> float:
    """Seconds of wall time of a whole run."""
    command = [sys.executable, "-m", "pytest", SUITE, "--vla-policy=scripted", "--vla-video=off"]
    command += [
        f"--vla-envs={envs}",
        f"--vla-run=envs{envs}",
        f"--vla-reports={reports}",
        f"--vla-configuration=0:{configurations}",
        TASK,
        *more,
    ]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "-q", "-p", "no:cacheprovider"],
        cwd=REPOSITORY,
        env={**os.environ, "MUJOCO_GL": os.environ.get("MUJOCO_GL", "egl")},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode not in (0, 1):  # 1: a pair was degraded
        raise RuntimeError(f"pytest ended with {ended.returncode}:\n{ended.stdout[-2000:]}")
    return time.perf_counter() - began


def outcomes(reports: Path, envs: int) -> dict[str, dict[str, object]]:
    """Key -> row, without what may differ."""
    found = {}
    for file in (reports / f"envs{envs}" / "rollouts").glob("results-*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["kind"] == "rollout":
                for name in ("timing", "where", "attempts"):
                    del row[name]
                found[row["key"]] = row
    return found


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        # Reads meshes and compiled files from disk.
        run(Path(folder) / "warm", 2, 2, "--vla-axis=camera", "--vla-level=1")
        for configurations in PLANS:
            yield from _plan(Path(folder) / f"plan{configurations}", configurations)


def _plan(reports: Path, configurations: int) -> Iterator[Row]:
    one, two = run(reports, 1, configurations), run(reports, 2, configurations)
    alone, beside = outcomes(reports, 1), outcomes(reports, 2)
    print(f"one at a time {one:.1f} s, two at once {two:.1f} s, {len(alone)} rollouts")
    name = f"wall time with --vla-envs=2 against 1, {len(alone)} rollouts"
    yield Row(name, two / one, "x", 0.60)
    differing = sum(alone.get(key) != row for key, row in beside.items())
    missing = len(alone.keys() ^ beside.keys())
    yield Row(f"rows that differ between the two, of {len(alone)}", differing + missing, "rows", 0)
    if configurations == PLANS[0]:
        name = "rollouts for 6 axes x 3 levels + 3 compounds of one episode"
        yield Row(name, len(alone) / configurations, "", PER_EPISODE)


if __name__ == "__main__":
    for row in rows():
        print(row.line(), flush=True)
