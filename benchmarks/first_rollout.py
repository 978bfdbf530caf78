"""Seconds from starting pytest to the first rollout's record on disk, on real LIBERO.

    python -m benchmarks.first_rollout [--rounds 3]

A pytest process over suites/quickstart, one cell of it, with the scripted expert: interpreter,
plugin, collection, a worker process, importing and compiling LIBERO, settling, and the whole of the
clean rollout. Wall time; one run before the measured ones, so that files are in the page cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row

TARGET_S = 12.0
LIMIT_S = 300.0
ROOT = Path(__file__).parents[1]
CELL = "ketchup and e00 and illumination and L1"


def measure() -> float:
    """Seconds of one run, which is ended there.

    Raises:
        RuntimeError: pytest ended without a rollout, or none came in time.
    """
    command = [sys.executable, "-m", "pytest", "suites/quickstart", "-k", CELL, "-q"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as words:
        command += ["--vla-policy=scripted", f"--vla-reports={folder}", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=words, stderr=subprocess.STDOUT
        )
        try:
            while not _finished(Path(folder)):
                if process.poll() is not None or time.perf_counter() - began > LIMIT_S:
                    words.seek(0)
                    raise RuntimeError(f"no rollout: {words.read()[-2000:]}")
                time.sleep(0.02)
            return time.perf_counter() - began
        finally:
            # Its second rollout is let finish: the folder goes with us.
            process.wait(LIMIT_S)


def _finished(reports: Path) -> bool:
    """Whether a rollout is on record, whole."""
    files = reports.glob("*/rollouts/results-*.jsonl")
    return any(b'"kind":"rollout"' in file.read_bytes().replace(b'": ', b'":') for file in files)


def rows() -> Iterator[Row]:
    measure()
    yield Row("start to first rollout finished, warm disk", measure(), "s", TARGET_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found = [measure() for _ in range(given.rounds + 1)]
    print("seconds:", ", ".join(f"{seconds:.1f}" for seconds in found), "(the first to warm up)")
    print(f"median: {statistics.median(found[1:]):.1f} s")


if __name__ == "__main__":
    main()
