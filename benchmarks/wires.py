"""What asking a policy over each wire costs: a round trip of one observation to another process.

Two cameras of 256 x 256 (OpenVLA takes one), a policy that answers at once, ``vla-shift serve`` on
the loopback interface: pictures mirrored, made smaller where the profile says so, packed, sent,
unpacked, mapped back, and the actions the same way home. Run: python -m benchmarks.wires
[--calls 300] [--wire NAME]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row
from pytest_vla_shift.commands.serve import WIRES
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile
from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.observation import Observation

INFERENCE_MS = 60.0
"""Of a policy that a round trip is held against."""

TARGET_MS = INFERENCE_MS / 4
"""Of CPU, in both processes together."""

OPENVLA_MS = INFERENCE_MS / 2
"""Its own evaluation works on the picture as well: a JPEG there and back, a filter, a crop."""

CAMERAS = ("agentview", "robot0_eye_in_hand")


def instant(observation: Observation) -> NDArray[np.float64]:  # noqa: ARG001
    """Answers at once: one action."""
    return np.zeros((1, 7))


@dataclass(frozen=True)
class Measured:
    """Many calls of one policy.

    Attributes:
        wall_s: seconds of each call.
        cpu_s: seconds of CPU a call, of both processes together.
    """

    wall_s: NDArray[np.float64]
    cpu_s: float


@contextmanager
def asked(wire: str) -> Iterator[tuple[Policy, int]]:
    """A client of a server in another process, and that process."""
    cameras = CAMERAS[: len(find_profile(WIRES[wire].profile, WIRES[wire].wire).images)]
    words = ["--wire", wire, "--port", "0", "--policy", "benchmarks.wires:instant"]
    words += ["--policy-arg", f"cameras={','.join(cameras)}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_vla_shift.cli", "serve", *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    try:
        assert process.stdout is not None
        found = re.search(r" at (\S+): ", process.stdout.readline())
        assert found is not None
        policy = resolve(wire, {}, settings=PolicySettings(url=found[1], timeout_s=30.0))
        try:
            yield policy, process.pid
        finally:
            policy.close()
    finally:
        process.terminate()
        process.wait()


def cpu(pid: int) -> float:
    """CPU seconds of this process and of the server."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def round_trips(wire: str, calls: int) -> Measured:
    """After ten calls that warm up."""
    profile = find_profile(WIRES[wire].profile, WIRES[wire].wire)
    rng = np.random.default_rng(0)
    probe = probe_observation(profile)
    images = {c: rng.integers(0, 256, (256, 256, 3), dtype=np.uint8) for c in probe.images}
    with asked(wire) as (policy, server):
        policy.reset(EPISODE, seed=0)
        walls = []
        for step in range(calls + 10):
            if step == 10:
                before = cpu(server)
            shown = replace(probe, images=images, step=step)
            began = time.perf_counter()
            policy.act(shown)
            walls.append(time.perf_counter() - began)
        return Measured(np.array(walls[10:]), (cpu(server) - before) / calls)


def rows() -> Iterator[Row]:
    """CPU of a round trip for each wire: wall time follows what else the machine does."""
    for wire in WIRES:
        used = 1e3 * round_trips(wire, 200).cpu_s
        target = OPENVLA_MS if wire == "openvla" else TARGET_MS
        yield Row(f"CPU of a round trip of an observation, {wire}", used, "ms", target)


def main() -> None:
    """Print one line a wire."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--wire", choices=tuple(WIRES), action="append")
    given = parser.parse_args()
    for wire in given.wire or WIRES:
        found = round_trips(wire, given.calls)
        low, median = 1e3 * np.percentile(found.wall_s, [5, 50])
        used = 1e3 * found.cpu_s
        print(
            f"{wire:12} wall p5 {low:6.2f} ms, p50 {median:6.2f} ms; CPU {used:6.2f} ms,"
            f" {100 * used / INFERENCE_MS:4.1f} % of {INFERENCE_MS:g} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
