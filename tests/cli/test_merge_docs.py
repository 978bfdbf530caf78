"""The Slurm scripts and the GitHub workflow of docs/how-to.md, run on the toy as they stand."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.toy_project import EXPERT, INI, REPOSITORY, ToyProject

HOW_TO = (REPOSITORY / "docs" / "how-to.md").read_text("utf-8")
OPTIONS = "vla_envs = 0\nvla_video = off\n"


def blocks(language: str) -> list[str]:
    """The blocks of one language in the page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", HOW_TO, re.DOTALL | re.MULTILINE)


def project_in(folder: Path, ini: str = "") -> ToyProject:
    project = ToyProject(folder, options=())
    (folder / "pytest.ini").write_text(INI + OPTIONS + ini)
    # The programs of this interpreter come first, as in an activated environment.
    project.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return project


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """One run over everything, to compare with."""
    project = project_in(tmp_path_factory.mktemp("one"))
    project.run("test_toy.py", "--vla-run=one", code=1)
    return project


# Slurm


@pytest.fixture
def slurm(tmp_path: Path) -> ToyProject:
    project = project_in(tmp_path / "shared")
    shards, merge = (text for text in blocks("bash") if text.startswith("#!/bin/bash\n#SBATCH"))
    (project.path / "shards.sh").write_text(shards)
    (project.path / "merge.sh").write_text(merge)
    return project


def submit(project: ToyProject, script: str, *words: str, **slurm: int) -> subprocess.Popen[str]:
    """What Slurm does on a node: the script, in the folder of submission, told its numbers."""
    told = {f"SLURM_{name.upper()}": str(value) for name, value in slurm.items()}
    return subprocess.Popen(
        ["bash", script, "test_toy.py", f"--vla-policy={EXPERT}", *words],
        cwd=project.path,
        env={**project.env(), **told},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(job: subprocess.Popen[str], code: int) -> str:
    out, _ = job.communicate(timeout=180)
    assert job.returncode == code, out
    return out


def test_a_slurm_array_of_which_one_task_is_preempted_is_the_one_run(
    slurm: ToyProject, one: ToyProject
) -> None:
    (count,) = map(int, re.findall(r"--array=1-(\d+)", (slurm.path / "shards.sh").read_text()))
    assert count == 3
    slurm.environment["TOY_STEP_SECONDS"] = "0.003"
    job = submit(slurm, "shards.sh", array_task_id=2, array_task_count=3)
    store = slurm.directory("nightly-shard2of3") / "rollouts"
    while sum(f.read_bytes().count(b'"rollout"') for f in store.glob("results-*.jsonl")) < 3:
        assert job.poll() is None, job.communicate()
        time.sleep(0.002)
    job.send_signal(signal.SIGTERM)
    finish(job, 143)
    before = {str(row["key"]) for row in slurm.rows("nightly-shard2of3")}
    assert 3 <= len(before) < 12

    del slurm.environment["TOY_STEP_SECONDS"]  # requeued
    for task in range(1, count + 1):
        if task == count:  # a merge that does not wait for it decides nothing
            out = finish(submit(slurm, "merge.sh", job_id=76), 1)
            assert "MISSING: 10 of 30 planned nodes" in out
            assert "test session starts" not in out
        finish(submit(slurm, "shards.sh", array_task_id=task, array_task_count=count), 1)
        assert len(slurm.rows(f"nightly-shard{task}of3")) == 12
    out = finish(submit(slurm, "merge.sh", job_id=77), 1)
    assert "36 rollouts of 3 runs: reports/nightly-77" in out
    assert slurm.summary("nightly-77") == one.summary("one")
    assert slurm.outcomes("nightly-77") == one.outcomes("one")


def test_one_task_of_a_slurm_array_alone_is_told_how_many_there_are(slurm: ToyProject) -> None:
    slurm.environment["SHARDS"] = "3"
    job = submit(slurm, "shards.sh", "--collect-only", array_task_id=2, array_task_count=1)
    assert "10/30 tests collected (20 deselected)" in finish(job, 0)


# GitHub

WORKFLOW: dict[str, Any] = yaml.safe_load(next(t for t in blocks("yaml") if "jobs:" in t))
NOT_IN_A_NAME = set('":<>|*?\r\n')
"""What upload-artifact refuses in the name of a file."""


@dataclass(slots=True)
class Runner:
    """As much of GitHub's runner as the workflow needs; any other step or expression fails.

    Attributes:
        path: each job has a folder of its own within it.
        ini: lines of the project's pytest.ini.
        artefacts: name -> file -> bytes.
        outputs: what was printed, job by job.
    """

    path: Path
    ini: str = ""
    artefacts: dict[str, dict[str, bytes]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def job(self, name: str, **expressions: str) -> bool:
        """Run a job of the workflow; whether it succeeded."""
        project = project_in(self.path / f"{name}{len(self.outputs)}", self.ini)
        project.environment.update({"SUITE": "test_toy.py", "POLICY": EXPERT})
        assert WORKFLOW["env"].keys() == {"SUITE", "POLICY"}
        self.outputs.append("")
        succeeded = True
        for step in WORKFLOW["jobs"][name]["steps"]:
            if not succeeded and step.get("if") != "always()":
                continue
            known = {"matrix.shard": "", "strategy.job-total": "", **expressions}
            done = self._step(project, json.loads(_expand(json.dumps(step), known)))
            succeeded = succeeded and done
        return succeeded

    def _step(self, project: ToyProject, step: dict[str, Any]) -> bool:
        if "run" in step:
            return self._run(project, step["run"])
        action, arguments = step["uses"], step.get("with", {})
        if action == "actions/upload-artifact@v4":
            self._upload(project.path, **arguments)
        elif action == "actions/download-artifact@v4":
            assert arguments.pop("merge-multiple") is True
            self._download(project.path, **arguments)
        else:
            assert action in ("actions/checkout@v4", "actions/setup-python@v5")
        return True

    def _run(self, project: ToyProject, text: str) -> bool:
        if text.startswith("pip install"):
            assert text == "pip install 'pytest-vla-shift[libero]'"
            return True  # this interpreter has it
        ended = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=project.path,
            env=project.env(),
            capture_output=True,
            text=True,
            check=False,
        )
        self.outputs[-1] += ended.stdout + ended.stderr
        return ended.returncode == 0

    def _upload(self, here: Path, name: str, path: str) -> None:
        """Files alone, none that is hidden; named from the first wildcard on."""
        fixed = path.split("*")[0].rpartition("/")[0] if "*" in path else path
        files = (f for found in here.glob(path) for f in (found, *found.rglob("*")) if f.is_file())
        kept = {str(file.relative_to(here / fixed)): file.read_bytes() for file in files}
        kept = {file: data for file, data in kept.items() if "/." not in f"/{file}"}
        assert not NOT_IN_A_NAME.intersection("".join(kept))
        self.artefacts[name] = kept

    def _download(self, here: Path, pattern: str, path: str) -> None:
        for name in fnmatch.filter(self.artefacts, pattern):
            for file, data in self.artefacts[name].items():
                there = here / path / file
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(data)


def _expand(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: known[match[1]], text)


def shards(runner: Runner) -> list[bool]:
    job = WORKFLOW["jobs"]["shard"]
    numbers = job["strategy"]["matrix"]["shard"]
    assert job["strategy"]["fail-fast"] is False
    total = {"strategy.job-total": str(len(numbers))}
    return [runner.job("shard", **{"matrix.shard": str(n), **total}) for n in numbers]


def test_the_last_job_waits_for_all_shards_and_runs_whatever_became_of_them() -> None:
    job = WORKFLOW["jobs"]["robustness"]
    assert (job["needs"], job["if"]) == ("shard", "${{ !cancelled() }}")


def test_a_github_matrix_with_degraded_pairs_fails_as_the_one_run_does(
    tmp_path: Path, one: ToyProject
) -> None:
    runner = Runner(tmp_path)
    assert shards(runner) == [False, False, False]
    assert not runner.job("robustness")
    assert "36 rollouts of 3 runs: reports/ci" in runner.outputs[-1]
    assert "rollouts 0 of 36" not in runner.outputs[-1], "nothing is left to run"
    merged = ToyProject(tmp_path / "robustness3")
    assert merged.summary("ci") == one.summary("one")
    assert merged.outcomes("ci") == one.outcomes("one")
    assert set(runner.artefacts["robustness"]) > {"summary.json", "run.json", "merge.json"}

    del runner.artefacts["shard-2"]
    assert not runner.job("robustness")
    assert "MISSING: 10 of 30 planned nodes" in runner.outputs[-1]
    assert "test session starts" not in runner.outputs[-1]
    assert b"test_toy.py::test_shift[" in runner.artefacts["robustness"]["missing.txt"]


def test_a_github_matrix_in_which_nothing_is_degraded_passes(tmp_path: Path) -> None:
    runner = Runner(tmp_path, ini="vla_axis = null\n")
    assert shards(runner) == [True, True, True]
    assert runner.job("robustness")
    assert "6 robust" in runner.outputs[-1]
