"""What a node costs beside its rollouts: milliseconds of CPU, of all processes together.

    python -m benchmarks.per_node [--nodes 10000] [--size 256]

A whole run: pytest, xdist with two workers, the plan, records, actions, first frames, fingerprints,
Allure results, the report at the end. The simulator and the policy do nothing
(``benchmarks/instant.py``). The floor is the same number of tests with one string parameter that
do nothing, with xdist and no other plugin; and once more with allure-pytest, which writes a result
for each of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.collection import folder_of, suite_of
from benchmarks.instant import FACTORY, POLICY
from benchmarks.rows import Row
from pytest_vla_shift.protocol.plan import cost, plan
from pytest_vla_shift.protocol.suite import parse_suite

ROOT = Path(__file__).parents[1]
EMPTY = (
    "import pytest\n"
    "@pytest.mark.parametrize('cell', [f'task-e{n:05d}-camera-L1' for n in range(%d)])\n"
    "def test_it(cell): pass\n"
)


@dataclass(frozen=True)
class Cost:
    """One run: CPU and wall seconds, nodes, and the largest process in MB."""

    cpu: float
    wall: float
    nodes: int
    megabytes: float

    @property
    def per_node(self) -> float:
        """Milliseconds of CPU."""
        return 1000 * self.cpu / self.nodes


def instant_suite(cells: int, size: int) -> str:
    """The quickstart's conditions on the instant simulator, with pictures of ``size`` pixels."""
    text = suite_of(cells).replace('simulator = "libero"', f'simulator = "{FACTORY}"')
    return text.replace("height = 256", f"height = {size}").replace(
        "width = 256", f"width = {size}"
    )


def run(folder: Path, nodes: int, *options: str) -> Cost:
    """Run pytest in ``folder``.

    Raises:
        CalledProcessError: a node failed, or the run was not whole.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall, nodes, after.ru_maxrss / 1024)


def empty(root: Path, nodes: int, *, allure: bool = False) -> Cost:
    """The floor: xdist, and nothing to do; with ``allure``, results of allure-pytest as well."""
    folder = folder_of(root, "empty-allure" if allure else "empty", None)
    (folder / "test_it.py").write_text(EMPTY % nodes)
    others = ["vla-shift", "hypothesispytest", "timeout"] + ([] if allure else ["allure_pytest"])
    options = [word for name in others for word in ("-p", f"no:{name}")]
    options += ["--alluredir=results"] if allure else []
    found = run(folder, nodes, "-n2", *options)
    results = sum(1 for _ in folder.glob("results/*-result.json"))
    assert results == (nodes if allure else 0), f"{results} Allure results of {nodes} tests"
    return found


def whole(root: Path, least: int, size: int, *options: str) -> Cost:
    """The plugin with all that it writes, over at least so many nodes: whole episodes of tasks."""
    text = instant_suite(least, size)
    nodes = cost(plan(parse_suite(text, "benchmark"))).nodes
    folder = folder_of(root, "whole", text)
    found = run(folder, nodes, "-n2", f"--vla-policy={POLICY}", "--vla-envs=0", *options)
    allure = folder / "reports" / f"{POLICY.replace(':', '-')}-whole" / "allure-results"
    results = sum(1 for _ in allure.glob("*-result.json"))
    assert results >= nodes, f"{results} Allure results of {nodes} nodes"
    return found


def rows() -> Iterator[Row]:
    """10,000 nodes with the smallest pictures: what pictures cost grows with their pixels."""
    with tempfile.TemporaryDirectory() as folder:
        found = whole(Path(folder), 10_000, 16)
    name = f"pytest, xdist, records, Allure a node, {found.nodes} nodes, -n2, pictures of 16 px"
    yield Row(name, found.per_node, "ms CPU", 4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=256)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _tell("pytest and xdist, empty tests", empty(Path(folder), given.nodes))
        _tell("the same, with allure-pytest", empty(Path(folder), given.nodes, allure=True))
        _tell("the plugin", whole(Path(folder), given.nodes, given.size))


def _tell(name: str, found: Cost) -> None:
    print(
        f"{name:<32}{found.per_node:8.2f} ms a node, {found.cpu:7.1f} s CPU, {found.wall:7.1f} s"
        f" wall, {found.megabytes:6.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
