"""A second Ctrl-C at exact moments: ``python strikes.py FOLDER OPTIONS MOMENT...``.

Each moment is a run in a process that is forked from this one, where everything is imported by
now; it prints into ``FOLDER/out-MOMENT.txt``. The first Ctrl-C comes when the second rollout is
recorded, the second one at the MOMENT-th call of a Python function after that, so that no clock
decides where it strikes. Prints a JSON object: moment -> how its process ended. With the moment
``-1`` there is no second one, and ``FOLDER/calls.txt`` says how many calls there were.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

import pytest_vla_shift.hooks
import pytest_vla_shift.reporting.publish
import pytest_vla_shift.reporting.tables
from tests.fakes import toy_policies, toy_simulator

_KEPT = (pytest_vla_shift, toy_policies, toy_simulator)


class Striker:
    """A plugin that sends both.

    Args:
        folder: where the number of calls is written.
        moment: of the second one; negative for none.
    """

    def __init__(self, folder: Path, moment: int) -> None:
        self._folder = folder
        self._moment = moment
        self._rollouts = 0
        self._calls = 0

    def pytest_vla_rollout_finished(self) -> None:
        self._rollouts += 1
        if self._rollouts == 2:
            sys.setprofile(self._event)
            os.kill(os.getpid(), signal.SIGINT)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        self._calls += 1
        if self._calls == self._moment:
            os.kill(os.getpid(), signal.SIGINT)

    def pytest_unconfigure(self) -> None:
        if self._moment < 0:
            (self._folder / "calls.txt").write_text(str(self._calls))


def main(folder: Path, options: list[str], moments: list[int]) -> None:
    """Fork a run for each moment; returns in the forked process alone, which then is the run."""
    codes: dict[int, int] = {}
    for moment in moments:
        pid = os.fork()
        if pid == 0:
            out = os.open(folder / f"out-{moment}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.chdir(folder)
            sys.argv = ["pytest", *options, f"--vla-run=r{moment}"]
            register(Striker(folder, moment))
            return
        _, status = os.waitpid(pid, 0)
        codes[moment] = os.waitstatus_to_exitcode(status)
    print(json.dumps(codes))
    sys.exit(0)


def register(striker: Striker) -> None:
    """Let the pytest that begins now have it."""
    sys.modules["striker"] = type(sys)("striker")
    vars(sys.modules["striker"])["pytest_configure"] = lambda config: config.pluginmanager.register(
        striker
    )
    sys.argv += ["-p", "striker"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), [int(text) for text in sys.argv[3:]])
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)
