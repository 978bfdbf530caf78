"""Variables of GPUs in real runs: a listing of two stands in for a driver; EGL is this host's."""

from __future__ import annotations

import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_vla_shift.simulators.hardware import list_egl
from tests.plugin.toy_project import SUITE, ToyProject

EXPERT = "tests.fakes.toy_gpus:GpuExpert"
ROW = ("--vla-run=r", "--vla-axis=null")

LISTING = """#!/bin/sh
[ "$1" = -L ] && cat <<END
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-69f0e7f5-5d30-1d2d-8a2f-1b4f0c6f3a11)
END
"""

# Of hosts that have a GPU this says nothing: their EGL may know the devices that we make up.
pytestmark = pytest.mark.skipif(
    not (found := list_egl()) or not all(device.is_software for device in found),
    reason="needs an EGL with software devices alone",
)


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    tools = tmp_path / "tools"
    tools.mkdir()
    listing = tools / "nvidia-smi"
    listing.write_text(LISTING)
    listing.chmod(listing.stat().st_mode | stat.S_IXUSR)
    project = ToyProject(
        tmp_path / "project",
        suite=SUITE.replace("toy_simulator", "toy_gpus"),
        options=("--vla-video=off",),
    )
    project.environment["PATH"] = f"{tools}:{project.env()['PATH']}"
    return project


def told(project: ToyProject) -> Counter[tuple[str, str]]:
    """(what the policy's process saw at its import, what the simulator's did) of every rollout."""
    rows: list[dict[str, Any]] = project.rows("r")
    return Counter(
        (
            row["identity"]["policy"]["revision"].rpartition(" ")[0],
            row["where"]["device"],
        )
        for row in rows
    )


def test_workers_divide_the_gpus_before_anything_is_imported(project: ToyProject) -> None:
    run = project.run(*ROW, "-n2", policy=EXPERT)
    # Each worker asks a policy of its own GPU, so that the keys of the two differ here.
    assert set(told(project)) == {("0 -", "0 0"), ("1 -", "1,0 0")}
    assert "GPUs: 0 NVIDIA A100-SXM4-40GB, 1 NVIDIA A100-SXM4-40GB" in run.out
    assert "EGL cannot draw on GPU 1: llvmpipe" in run.out


def test_lanes_take_turns_and_the_policy_keeps_what_it_had(project: ToyProject) -> None:
    project.run(*ROW, "--vla-envs=2", policy=EXPERT, code=0)
    assert set(told(project)) == {("- -", "0 0"), ("- -", "1,0 0")}


def test_gpus_that_are_asked_for(project: ToyProject) -> None:
    project.run(*ROW, "--vla-gpus=GPU-69f0", "--vla-envs=0", policy=EXPERT, code=0)
    assert set(told(project)) == {("1,0 0", "1,0 0")}


def test_a_server_of_the_run_sees_all_of_its_gpus(project: ToyProject) -> None:
    command = "sh -c 'echo $CUDA_VISIBLE_DEVICES; exit 3 # {port}'"
    options = ["--vla-policy-url=tcp://127.0.0.1:{port}", f"--vla-policy-command={command}"]
    policy = "tests.fakes.served_policy:Served"
    project.run(*ROW, "-n2", "--vla-gpus=1,0", *options, policy=policy, code=4)
    assert (project.directory("r") / "policy-server.log").read_text() == "1,0\n"


@pytest.mark.parametrize(
    "options,message",
    [
        (["--vla-gpus=2"], "--vla-gpus: GPU '2' is not one of those that are visible: 0, 1"),
        (["--vla-render-gpus=1"], "EGL cannot draw on GPU '1'; it has 0: llvmpipe"),
        (["--vla-render-gpus=1", "-n2"], "EGL cannot draw on GPU '1'"),
        (["--vla-render-gpus=1", "--vla-list"], "EGL cannot draw on GPU '1'"),
    ],
)
def test_gpus_that_are_not_there_are_a_usage_error(
    project: ToyProject, options: list[str], message: str
) -> None:
    run = project.run(*ROW, *options, policy=EXPERT, code=4)
    assert message in run.out
    assert not (project.path / "reports").exists()


def test_without_a_driver_nothing_is_set(project: ToyProject) -> None:
    del project.environment["PATH"]
    run = project.run(*ROW, "-n2", policy=EXPERT, code=0)
    assert set(told(project)) == {("- -", "- -")}
    assert "GPUs" not in run.out
