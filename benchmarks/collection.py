"""What a large plan costs before its first rollout: seconds of CPU at 10,000 cells.

    python -m benchmarks.collection [--cells 10000] [--rounds 3]

The plan and the keys are measured in this process, collection in pytest processes: a module with
one empty test, a suite of one node, and a suite of all nodes, all with ``--collect-only``. What the
large suite costs beyond the small one is what its nodes cost.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.rows import Row
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.protocol.conditions import CLEAN
from pytest_vla_shift.protocol.plan import cost, plan
from pytest_vla_shift.protocol.suite import Suite, load_suite, parse_suite, shipped_text
from pytest_vla_shift.rollouts.request import request
from pytest_vla_shift.simulators.protocol import SimulatorInfo

MODULE = "def test_shift(pair):\n    pair.assert_not_degraded()\n"
INFO = SimulatorInfo(
    "libero", {"libero": "1"}, 1, "egl", 7, -1.0, 1.0, (0.0,) * 7, 20.0, (), (0, 3), (3, 6)
)


def suite_of(cells: int) -> str:
    """The quickstart's conditions over as many tasks of one's own as it takes."""
    per_episode = len(load_suite("quickstart").conditions())
    episodes = math.ceil(cells / per_episode)
    text = shipped_text("quickstart")
    start, end = text.index("[[tasks]]"), text.index("[axes]")
    tasks, each = (1, episodes) if episodes < 50 else (math.ceil(episodes / 50), 50)
    names = ", ".join(f'"task_{number:03d}"' for number in range(tasks))
    block = (
        f'[[tasks]]\nsuite = "mine"\ntasks = [{names}]\nepisodes = "0:{each}"\nhorizon = 300\n\n'
    )
    return text[:start] + block + text[end:]


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of ``work`` in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def keys(suite: Suite) -> None:
    """The keys of every cell and of its clean rollout, as the plan of a session needs them."""
    spec = resolve("zero", {}).spec
    for cell in plan(suite):
        request(suite, cell.episode, CLEAN, INFO, spec, {})
        request(suite, cell.episode, cell.condition, INFO, spec, {})


def collect(folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MB of one pytest process that collects ``folder`` and runs nothing."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, "--vla-policy=zero", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def rows() -> Iterator[Row]:
    """Collection of 10,000 cells: pytest's own start is not the cells', its memory is."""
    with tempfile.TemporaryDirectory() as name:
        small = folder_of(Path(name), "small", suite_of(1))
        large = folder_of(Path(name), "large", suite_of(10_000))
        collect(small)  # compiles what is not compiled yet
        start = min(collect(small)[0] for _ in range(3))
        found = [collect(large) for _ in range(3)]
    cells = cost(plan(parse_suite(suite_of(10_000), "benchmark"))).nodes
    seconds, megabytes = min(cpu for cpu, _ in found) - start, max(peak for _, peak in found)
    yield Row(f"collecting {cells} cells, beyond what 13 cost", seconds, "s CPU", 1.5)
    yield Row(f"collecting {cells} cells, peak of the whole process", megabytes, "MB", 120)


def folder_of(root: Path, name: str, suite: str | None) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text("def test_it(): pass\n" if suite is None else MODULE)
    if suite is not None:
        (folder / "suite.toml").write_text(suite)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    text = suite_of(given.cells)
    suite = parse_suite(text, "benchmark")
    counted = cost(plan(suite))
    print(f"{counted.nodes} cells, {counted.rollouts} rollouts; Python {sys.version.split()[0]}")
    print(f"{'read the suite':<28}{cpu(lambda: parse_suite(text, 'benchmark')):8.3f} s")
    print(f"{'plan':<28}{cpu(lambda: plan(suite)):8.3f} s")
    keys(load_suite("quickstart"))  # imports
    print(f"{'keys of all rollouts':<28}{cpu(lambda: keys(suite)):8.3f} s")
    with tempfile.TemporaryDirectory() as name:
        folders = {
            "collect one empty test": folder_of(Path(name), "empty", None),
            "collect 13 nodes": folder_of(Path(name), "small", suite_of(1)),
            f"collect {counted.nodes} nodes": folder_of(Path(name), "large", text),
        }
        for folder in folders.values():
            collect(folder)  # compiles what is not compiled yet
        found = {
            label: statistics.median(collect(folder)[0] for _ in range(given.rounds))
            for label, folder in folders.items()
        }
    for label, seconds in found.items():
        print(f"{label:<28}{seconds:8.3f} s")
    _, small, large = found.values()
    print(f"{'what the nodes cost':<28}{large - small:8.3f} s")


if __name__ == "__main__":
    main()
