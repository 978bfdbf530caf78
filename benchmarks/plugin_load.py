"""What the plugin costs a pytest run that does not use it: milliseconds, and modules imported.

    python -m benchmarks.plugin_load [--rounds 20]

One empty test is run with and without the plugin, in turn, in fresh processes, with every other
third-party plugin switched off. CPU time is the one to compare: wall time follows the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import Row

TARGET_MS = 20.0
PLUGIN = "pytest_vla_shift.plugin"
COUNT = """
import sys
import pytest

def pytest_unconfigure():
    print("modules", len(sys.modules))
"""


@dataclass(frozen=True)
class Sample:
    """One pytest process."""

    cpu_ms: float
    wall_ms: float
    modules: int


def measure(folder: Path, plugin: bool) -> Sample:
    """Run the empty test once."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(folder)]
    if plugin:
        command += ["-p", PLUGIN]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    modules = next(line for line in ended.stdout.splitlines() if line.startswith("modules"))
    return Sample(cpu * 1000, wall * 1000, int(modules.split()[1]))


def sampled(rounds: int) -> list[tuple[Sample, Sample]]:
    """Runs without and with the plugin, in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(COUNT)
        (folder / "test_empty.py").write_text("def test_nothing(): pass\n")
        for plugin in (False, True):  # compile everything first
            measure(folder, plugin)
        return [(measure(folder, False), measure(folder, True)) for _ in range(rounds)]


def extra_ms(pairs: list[tuple[Sample, Sample]]) -> float:
    """Median CPU that the plugin adds to a run."""
    return statistics.median(b.cpu_ms - a.cpu_ms for a, b in pairs)


def rows() -> Iterator[Row]:
    yield Row("CPU of the plugin in a run without it", extra_ms(sampled(20)), "ms", TARGET_MS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    pairs = sampled(rounds)
    without, with_plugin = zip(*pairs, strict=True)
    print(f"{rounds} rounds, medians; Python {sys.version.split()[0]}")
    print(f"{'':>16}{'CPU ms':>9}{'wall ms':>9}{'modules':>9}")
    for label, samples in (("without", without), ("with the plugin", with_plugin)):
        cpu = statistics.median(s.cpu_ms for s in samples)
        wall = statistics.median(s.wall_ms for s in samples)
        print(f"{label:>16}{cpu:9.1f}{wall:9.1f}{samples[0].modules:9d}")
    extra = extra_ms(pairs)
    wall = statistics.median(b.wall_ms - a.wall_ms for a, b in pairs)
    more = with_plugin[0].modules - without[0].modules
    print(f"{'difference':>16}{extra:9.1f}{wall:9.1f}{more:9d}")
    verdict = "within" if extra < TARGET_MS else "ABOVE"
    print(f"the plugin costs {extra:.1f} ms of CPU, {verdict} the target of {TARGET_MS:.0f} ms")


if __name__ == "__main__":
    main()
