"""A second Ctrl-C, wherever it strikes: a short message, exit code 2, records that are whole."""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin import inprocess
from tests.plugin.survival import check_whole
from tests.plugin.toy_project import EXPERT, REPOSITORY, ToyProject

FEW = ("--vla-axis=null", "--vla-task=left")
"""6 rollouts, 3 nodes."""

MOMENTS = 6


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    return ToyProject(tmp_path_factory.mktemp("struck"))


def strike(project: ToyProject, *moments: int) -> dict[int, int]:
    options = json.dumps([f"--vla-policy={EXPERT}", *project.options, *FEW])
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugin.strikes", project.path, options, *map(str, moments)],
        cwd=REPOSITORY,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return {int(moment): code for moment, code in json.loads(done.stdout).items()}


def test_it_ends_with_a_message_and_code_2_at_every_moment(struck: ToyProject) -> None:
    assert strike(struck, -1) == {-1: 2}
    calls = int((struck.path / "calls.txt").read_text())
    # Most of what can go wrong is near the beginning: in pytest's, pluggy's and our own frames.
    moments = random.Random(0)
    early = [round(math.exp(moments.uniform(0.0, math.log(calls)))) for _ in range(MOMENTS)]
    late = [calls + 20, calls + 60]  # pytest is done, and the interpreter is about to be
    assert strike(struck, *early, *late) == dict.fromkeys([*early, *late], 2)
    for moment in early + late:
        out = (struck.path / f"out-{moment}.txt").read_text()
        assert "Traceback" not in out, out
        assert "INTERNALERROR" not in out, out
        last = out.strip().splitlines()[-1]
        assert last.startswith("interrupted again: the end of this run is "), out
        assert last.endswith("is written") == (moment in late), out
        assert check_whole(struck, f"r{moment}") == 2


def test_what_was_recorded_by_then_is_found_by_the_next_run(struck: ToyProject) -> None:
    assert strike(struck, 500) == {500: 2}
    run = struck.run("--vla-run=r500", *FEW, code=0)
    assert "(2 found)" in run.out
    assert check_whole(struck, "r500") == 6


def test_a_run_within_another_gives_ctrl_c_back(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    before = signal.getsignal(signal.SIGINT)
    run = inprocess.run(pytester, f"--vla-policy={EXPERT}", "-k", "nothing")
    assert run.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert signal.getsignal(signal.SIGINT) == before


PROGRAM = """
import os, signal, sys
import pytest

class Twice:
    seen = 0

    def pytest_vla_rollout_finished(self):
        self.seen += 1
        if self.seen == 2:
            os.kill(os.getpid(), signal.SIGINT)

    def pytest_vla_aggregate(self):
        os.kill(os.getpid(), signal.SIGINT)

code = pytest.main(sys.argv[1:], plugins=[Twice()])
print("pytest returned", int(code), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_a_program_that_calls_pytest_goes_on(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    arguments = [f"--vla-policy={EXPERT}", *project.options, *FEW, "--vla-run=r"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=project.path,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert "interrupted again" in done.stdout
    assert done.stdout.splitlines()[-1] == "pytest returned 2 True"
    assert "Traceback" not in done.stdout + done.stderr
    assert check_whole(project, "r") == 2
