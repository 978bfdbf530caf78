"""A project with a suite on the toy simulator, run by real pytest processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
EXPERT = "tests.fakes.toy_policies:Expert"

SUITE = """
schema = 1
name = "toy_suite"
title = "Toy"
simulator = "tests.fakes.toy_simulator:factory"
env_seed = 0
policy_seed = 0
draw_seed = 0
settle_steps = 10
settle_speed_m_s = 0.05
null = true

[observation]
cameras = ["front", "wrist"]
height = 16
width = 16

[[tasks]]
suite = "toy"
tasks = ["reach_left", "reach_right"]
episodes = "0:3"
horizon = 60

[axes.base]
L1 = { sigma_xy_m = 0.001, sigma_yaw_deg = 0.0 }
L2 = { sigma_xy_m = 0.2, sigma_yaw_deg = 0.0 }
L3 = { sigma_xy_m = 1.0, sigma_yaw_deg = 0.0 }

[axes.blur]
shift = "gaussian_blur"
L1 = { sigma_px = 1.0 }
"""

MODULE = """
def test_shift(pair):
    pair.assert_not_degraded()
"""

# Plugins that have nothing to do here, of which one costs a tenth of a second.
INI = """[pytest]
addopts = -p no:hypothesispytest -p no:timeout -p no:cacheprovider -p no:anyio
"""


@dataclass(slots=True)
class Finished:
    """A pytest process that has ended."""

    code: int
    out: str

    def line(self, start: str) -> str:
        """The only line that begins with ``start``, spaces aside."""
        found = [line for line in self.out.splitlines() if line.strip().startswith(start)]
        assert len(found) == 1, f"{start!r}: {found}\n{self.out}"
        return found[0]


@dataclass(slots=True)
class ToyProject:
    """A folder with ``suite.toml`` and ``test_toy.py``."""

    path: Path
    suite: str = SUITE
    module: str = MODULE
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ("--vla-envs=0", "--vla-video=off")

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "pytest.ini").write_text(INI)
        (self.path / "test_toy.py").write_text(self.module)
        (self.path / "suite.toml").write_text(self.suite)

    def command(self, *args: str, policy: str | None = EXPERT) -> list[str]:
        """The command line of :meth:`run`."""
        chosen = [] if policy is None else [f"--vla-policy={policy}"]
        return [sys.executable, "-m", "pytest", *chosen, *self.options, *args]

    def env(self) -> dict[str, str]:
        """The process's environment: the repository importable, nothing of an outer pytest.

        MUJOCO_GL is what tests of LIBERO in the outer process may have set. Bytecode may be kept:
        compiling everything anew is a third of what a short run costs.
        """
        dropped = ("PYTEST_", "COLUMNS", "MUJOCO_GL", "PYTHONDONTWRITEBYTECODE")
        outer = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        return {**outer, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "80", **self.environment}

    def start(self, *args: str, policy: str | None = EXPERT) -> subprocess.Popen[str]:
        """A pytest process that is still running."""
        return subprocess.Popen(
            self.command(*args, policy=policy),
            cwd=self.path,
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *args: str, policy: str | None = EXPERT, code: int | None = None) -> Finished:
        """Run pytest to its end; check its exit code if one is expected."""
        with self.start(*args, policy=policy) as process:
            out, _ = process.communicate(timeout=180)
        assert code is None or process.returncode == code, f"exit {process.returncode}\n{out}"
        return Finished(process.returncode, out)

    def directory(self, run: str) -> Path:
        """A run's directory."""
        return self.path / "reports" / run

    def rows(self, run: str, kind: str = "rollout") -> list[dict[str, object]]:
        """All lines of that kind in a run's store, in a stable order."""
        found: list[dict[str, object]] = []
        for file in sorted((self.directory(run) / "rollouts").glob("results-*.jsonl")):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                if row["kind"] == kind:
                    found.append(row)
        return sorted(found, key=lambda row: str(row["key"]))

    def outcomes(self, run: str) -> list[dict[str, object]]:
        """Rollout rows without what may differ between two runs of the same inputs."""
        informative = ("timing", "where", "attempts")
        return [{k: v for k, v in row.items() if k not in informative} for row in self.rows(run)]

    def measured(self, run: str) -> list[tuple[object, ...]]:
        """What every rollout came to, without who was asked; sorted."""
        return sorted(
            (
                str(row["task"]),
                row["episode"],
                str(row["condition"]),
                row["success"],
                row["steps"],
                str(row["stages"]),
            )
            for row in self.rows(run)
        )

    def only_suite(self, run: str) -> dict[str, Any]:
        """The one suite in ``summary.json``."""
        (suite,) = json.loads((self.directory(run) / "summary.json").read_text())["suites"]
        found: dict[str, Any] = suite
        return found

    def summary(self, run: str) -> dict[str, object]:
        """``summary.json`` without the run's name and its notes on the store."""
        summary: dict[str, object] = json.loads((self.directory(run) / "summary.json").read_text())
        facts = summary["facts"]
        assert isinstance(facts, dict)
        return {**summary, "facts": {**facts, "run": "", "notes": []}, "notes": []}
