"""A run that is struck again and again: what is lost? ``python -m benchmarks.chaos``.

A suite of 240 rollouts on the toy simulator, with ``-n 2`` and with ``--vla-envs=2``, while an
injector ends simulators, pytest workers and the whole run, or takes the disk away. A run that ended
is started again with the same command. When the time is up, the last one is completed in peace.

Lost is a planned rollout without a row at the end; corrupt, a whole line of the store that does not
read; differing, a row that is not equal to that of an undisturbed run. All three must be 0.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla_shift.rollouts.manifest import kept_plan_path, read_plan
from pytest_vla_shift.rollouts.store import Store
from tests.plugin.survival import begin, processes_of, rows_written
from tests.plugin.toy_project import EXPERT, SUITE, ToyProject

MODES = {
    "-n 2": (("-n2", "--vla-envs=1"), EXPERT),
    "--vla-envs=2": (("--vla-envs=2",), "tests.fakes.lane_policies:Sessions"),
}
BEST_S, WORST_S = 0.4, 2.5
"""Between two faults, seconds, once a run has begun to record."""

STARTS_WITHIN_S = 120.0
ENDS_WITHIN_S = 60.0


@dataclass(slots=True)
class Tally:
    """What was counted."""

    rollouts: int = 0
    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    cut_off: int = 0
    left_behind: int = 0
    lost: int = 0
    corrupt: int = 0
    differing: int = 0


def simulators(project: ToyProject) -> list[int]:
    return [pid for pid in processes_of(project) if "simulators.worker" in _command(pid)]


def pytest_workers(project: ToyProject, main: int) -> list[int]:
    """The xdist workers of a run: execnet gives them their program through standard input."""
    return [
        pid for pid in processes_of(project) if "stdin.readline" in _command(pid) and pid != main
    ]


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def take_disk(pids: Sequence[int], rng: random.Random) -> None:
    """No file of these processes may grow beyond a size that their next rows will reach."""
    limit = rng.randrange(1, 40_000)
    for pid in pids:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def strike(project: ToyProject, main: int, rng: random.Random) -> str | None:
    """One fault; its name, or None if there was nobody to strike."""
    to_simulator = {
        "simulator: SIGSEGV": signal.SIGSEGV,
        "simulator: SIGKILL": signal.SIGKILL,
        "simulator: SIGSTOP": signal.SIGSTOP,
    }
    to_run = {
        "run: SIGKILL": signal.SIGKILL,
        "run: SIGTERM": signal.SIGTERM,
        "run: SIGINT": signal.SIGINT,
    }
    name = rng.choice(
        [*to_simulator, *to_simulator, *to_run, "every process: SIGTERM", "worker: SIGKILL", "disk"]
    )
    if name in to_simulator:
        return name if _kill(rng, simulators(project), to_simulator[name]) else None
    if name in to_run:
        return name if _kill(rng, [main], to_run[name]) else None
    if name == "every process: SIGTERM":
        for pid in processes_of(project):
            _kill(rng, [pid], signal.SIGTERM)
        return name
    workers = pytest_workers(project, main)
    if name == "worker: SIGKILL":
        return name if _kill(rng, workers, signal.SIGKILL) else None
    take_disk(workers or [main], rng)
    return name


def _kill(rng: random.Random, pids: Sequence[int], number: int) -> bool:
    if not pids:
        return False
    try:
        os.kill(rng.choice(pids), number)
    except ProcessLookupError:
        return False
    return True


class Chaos:
    """One mode: a project that is run, struck and checked until the time is up."""

    def __init__(self, folder: Path, mode: str, rng: random.Random, tally: Tally) -> None:
        options, self.policy = MODES[mode]
        suite = SUITE.replace('episodes = "0:3"', 'episodes = "0:20"')
        self.calm = ToyProject(folder / "calm", suite=suite)
        limit = "--vla-rollout-timeout=3"
        self.project = ToyProject(
            folder / "struck", suite=suite, options=(*options, "--vla-video=off", limit)
        )
        self.project.environment["TOY_STEP_SECONDS"] = "0.001"
        self.rng, self.tally = rng, tally
        done = self.calm.run("--vla-run=calm", policy=self.policy)
        assert done.code in (0, 1), done.out
        calm = Store(self.calm.directory("calm"), "reader").records()
        self.expected = {key: record.outcome() for key, record in calm.items()}

    def round(self, name: str, until: float) -> None:
        """A run from nothing to its last rollout."""
        while True:
            self.tally.runs += 1
            before = rows_written(self.project, name)
            with (self.project.path / "output.txt").open("a") as output:
                options = (f"--vla-run={name}",)
                process = begin(self.project, *options, policy=self.policy, output=output)
                self._disturb(process, name, before, until)
                process.wait(timeout=ENDS_WITHIN_S * 10)
            self._wait_until_gone()
            if process.returncode in (0, 1) and self._complete(name):
                break
        self._check(name)

    def _disturb(
        self, process: subprocess.Popen[str], name: str, before: int, until: float
    ) -> None:
        began = time.monotonic()
        while process.poll() is None and time.time() < until:
            idle = rows_written(self.project, name) == before
            if idle and time.monotonic() - began < STARTS_WITHIN_S:
                time.sleep(0.05)
                continue
            time.sleep(self.rng.uniform(BEST_S, WORST_S))
            if process.poll() is not None or time.time() >= until:
                return
            fault = strike(self.project, process.pid, self.rng)
            if fault is not None:
                self.tally.faults[fault] += 1

    def _wait_until_gone(self) -> None:
        until = time.monotonic() + ENDS_WITHIN_S
        while (left := processes_of(self.project)) and time.monotonic() < until:
            time.sleep(0.05)
        self.tally.left_behind += len(left)

    def _complete(self, name: str) -> bool:
        records = Store(self.project.directory(name), "reader").records()
        return all(key in records and records[key].status == "done" for key in self.expected)

    def _check(self, name: str) -> None:
        directory = self.project.directory(name)
        plan = read_plan(kept_plan_path(directory))
        assert plan is not None
        planned = {key for node in plan.nodes for key in (node.clean_key, node.shifted_key)}
        assert planned == set(self.expected)
        store = Store(directory, "reader")
        records = store.records()
        self.tally.rollouts += rows_written(self.project, name)
        self.tally.errors += self._in_error(directory)
        self.tally.cut_off += len(store.unfinished_lines())
        self.tally.corrupt += len(store.bad_rows)
        self.tally.lost += len(planned - set(records))
        self.tally.differing += sum(
            record.outcome() != self.expected.get(key) for key, record in records.items()
        )

    @staticmethod
    def _in_error(directory: Path) -> int:
        """Rows in error, those that an outcome has replaced as well."""
        lines = [
            line
            for file in (directory / "rollouts").glob("results-*.jsonl")
            for line in file.read_bytes().split(b"\n")[:-1]
        ]
        return sum(
            line.startswith(b'{"kind":"rollout"') and b'"status":"error"' in line for line in lines
        )


def main() -> int:
    """Run it and print what was counted; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of faults, over both modes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, tally = random.Random(given.seed), Tally()
    for number, mode in enumerate(MODES):
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            chaos = Chaos(Path(folder), mode, rng, tally)
            until = time.time() + 60.0 * given.minutes / len(MODES)
            rounds = 0
            while time.time() < until or not rounds:
                chaos.round(f"round-{number}-{rounds}", until)
                rounds += 1
            print(f"{mode}: {rounds} runs of 240 rollouts brought to their end", flush=True)
    print(f"pytest started {tally.runs} times; {tally.rollouts} rows of rollouts written")
    print(f"faults injected: {tally.faults.total()}")
    for name, count in sorted(tally.faults.items()):
        print(f"  {name:<24} {count}")
    print(f"rows with an infrastructure error, run again by a later start: {tally.errors}")
    print(f"last lines cut off, run again by a later start: {tally.cut_off}")
    print(f"processes left behind: {tally.left_behind}")
    print(f"rollouts lost: {tally.lost}")
    print(f"rows corrupt: {tally.corrupt}")
    print(f"rows differing from an undisturbed run: {tally.differing}")
    return int(bool(tally.lost or tally.corrupt or tally.differing or tally.left_behind))


if __name__ == "__main__":
    raise SystemExit(main())
