"""Runs the benchmarks that have targets: one line a row, exit status 1 if one is short or broke.

    python -m benchmarks [--list] [--only WORD] [--long]

Each benchmark runs in a process of its own, one after the other, so that none sees the memory,
imports or threads of another. What it prints goes nowhere, unless it breaks.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.rows import Row

FOLDER = Path(__file__).parent
SHORT, LONG = "rows", "long_rows"
TIMEOUT_S = 3600.0


def find(only: str | None, long: bool) -> list[tuple[str, str]]:
    """(module, function) of the benchmarks that offer rows, found without importing them."""
    wanted = (SHORT, LONG) if long else (SHORT,)
    return [
        (path.stem, function)
        for path in sorted(FOLDER.glob("*.py"))
        if only is None or only in path.stem
        for function in wanted
        if function in _functions(path)
    ]


def _functions(path: Path) -> set[str]:
    body = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def child(module: str, function: str) -> None:
    """In a process of its own: each row as a line of JSON on standard output, nothing else."""
    with os.fdopen(os.dup(1), "w") as report:
        os.dup2(2, 1)  # whatever prints, also a grandchild, prints elsewhere
        for row in getattr(importlib.import_module(f"benchmarks.{module}"), function)():
            report.write(json.dumps(asdict(row)) + "\n")
            report.flush()


def run(module: str, function: str) -> Iterator[Row]:
    """The rows of one benchmark as they come.

    Raises:
        RuntimeError: it ended badly, ran out of time or gave no row; with its last words.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_path())}
    environment.setdefault("MUJOCO_GL", "egl")
    command = [sys.executable, "-m", "benchmarks", "--child", module, function]
    with tempfile.TemporaryFile("w+") as words:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        late = threading.Timer(TIMEOUT_S, _end, (process,))
        late.start()
        count = 0
        try:
            for line in process.stdout:
                count += 1
                yield Row(**json.loads(line))
            status = process.wait()
        finally:
            late.cancel()
            _end(process)
        if status or not count:
            words.seek(0)
            said = words.read().strip().splitlines()[-5:]
            raise RuntimeError("\n    ".join([f"exit status {status}, {count} rows", *said]))


def _path() -> list[str]:
    return [str(FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])]


def _end(process: subprocess.Popen[str]) -> None:
    """Kill what is left of a benchmark, with its own children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="what there is, and run nothing")
    parser.add_argument("--only", metavar="WORD", help="benchmarks whose module has WORD")
    parser.add_argument("--long", action="store_true", help="also rows that take minutes")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return 0
    found = find(given.only, given.long or given.list)
    if not found:
        parser.error(f"no benchmark has {given.only!r} in its name")
    bad = 0
    for module, function in found:
        if given.list:
            print(f"benchmarks.{module}{' (--long)' if function == LONG else ''}")
            continue
        try:
            for row in run(module, function):
                bad += not row.ok
                print(row.line(), flush=True)
        except RuntimeError as error:
            bad += 1
            print(f"benchmarks.{module} broke: {error}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
