"""Make ``tiny`` from nothing: ``python -m training --out DIR``.

Demonstrations, a first network, the expert's corrections where that network gets to, the last
network, its ONNX file and its table. Every step that has left its file is skipped, so a run that
was cut off goes on. Nothing is copied into the package: look at the table first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

EPOCHS = 14


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data, first, last = args.out / "data", args.out / "first", args.out / "tiny"
    jobs, seed = ["--jobs", str(args.jobs)], ["--seed", str(args.seed)]
    step("demonstrate", "--out", data, *jobs, *seed)
    learn(data, first, seed)
    correct = ["correct", "--weights", first.with_suffix(".onnx"), "--out", data, *jobs, *seed]
    step(*correct, "--suite", "libero_object")
    step(*correct, "--suite", "libero_spatial", "--suite", "libero_goal", "--share", 2)
    learn(data, last, [*seed, "--start", str(first.with_suffix(".pt"))])
    step("evaluate", "--weights", last.with_suffix(".onnx"), *jobs)


def learn(data: Path, name: Path, options: list[str]) -> None:
    """Train and export, unless that is done."""
    weights, network = name.with_suffix(".pt"), name.with_suffix(".onnx")
    if not weights.exists():
        step("train", "--data", data, "--out", weights, "--epochs", EPOCHS, *options)
    if not network.exists():
        step("export", "--weights", weights, "--out", network)


def step(module: object, *arguments: object) -> None:
    """Run one of the scripts, and say what it cost."""
    print(f"== {module} {' '.join(map(str, arguments))}", flush=True)
    start = time.monotonic()
    command = [sys.executable, "-m", f"training.{module}", *map(str, arguments)]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{module} failed")
    print(f"== {module}: {(time.monotonic() - start) / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
