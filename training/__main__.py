"""Make ``tiny`` from nothing: ``python -m training --out DIR``.

Demonstrations and a first network; the expert's corrections where that network gets to, and a
second one; corrections of the hardest suite once more, and the last one; its ONNX file and its
table. Every step that has left its file is skipped, so a run that was cut off goes on. Nothing is
copied into the package: look at the table first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data, first, second, last = (args.out / name for name in ("data", "first", "second", "tiny"))
    jobs, seed = ["--jobs", str(args.jobs)], ["--seed", str(args.seed)]
    step("demonstrate", "--out", data, *jobs, *seed)
    learn(data, first, 10, seed)
    correct = ["correct", "--out", data, *jobs]
    by_first = [*correct, *seed, "--weights", first.with_suffix(".onnx")]
    step(*by_first, "--suite", "libero_object")
    step(*by_first, "--suite", "libero_spatial", "--suite", "libero_goal", "--share", 2)
    learn(data, second, 12, [*seed, "--start", str(first.with_suffix(".pt"))])
    # Of every second training state, those that the first was not rolled out on; as it is used,
    # without noise, because that is where it comes to a stop and says the same again.
    by_second = [*correct, "--seed", args.seed + 1, "--weights", second.with_suffix(".onnx")]
    step(*by_second, "--suite", "libero_spatial", "--share", 2, "--temperature", 0)
    learn(data, last, 14, [*seed, "--start", str(second.with_suffix(".pt"))])
    step("evaluate", "--weights", last.with_suffix(".onnx"), *jobs)


def learn(data: Path, name: Path, epochs: int, options: list[str]) -> None:
    """Train and export, unless that is done."""
    weights, network = name.with_suffix(".pt"), name.with_suffix(".onnx")
    if not weights.exists():
        step("train", "--data", data, "--out", weights, "--epochs", epochs, *options)
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
