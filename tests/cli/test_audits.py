"""``vla-shift screen`` and ``vla-shift audit``, on the toy simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.lock import held
from tests.plugin.toy_project import EXPERT, SUITE, ToyProject
from tests.rollouts.test_screening import SCREENING

SEEDED = "tests.fakes.toy_policies:GlobalRandom"
ENVS = "--envs=0"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A suite's path; the working directory is the folder that it is in."""
    text = SCREENING.replace("reach_left_unsettled", "reach_left_early")
    (tmp_path / "toy.toml").write_text(SUITE + text)
    monkeypatch.chdir(tmp_path)
    return "toy.toml"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in out), [line for line in out if len(line) > 80]
    return out


def test_screening_prints_the_table_and_writes_the_suite(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["screen", suite, f"--policy={EXPERT}", ENVS, "--run=out/s", "--write=new/mine.toml"]
    assert main(argv) == 0
    out = lines(capsys)
    assert "batch 1, activated" in out
    assert "batch 2, not activated" in out
    row = out.index(" 1. toy/reach_left") + 1
    assert out[row].split() == ["4", "8", "retained"]
    found = json.loads(Path("out/s/screening.json").read_text())
    assert found["retained"] == [["toy", "reach_left"], ["toy", "reach_left_early"]]
    written = load_suite(Path("new/mine.toml"))
    assert [task for _, task in written.tasks] == ["reach_left", "reach_left_early"]
    assert written.name == "toy_suite_tests_fakes_toy_policies_expert"
    assert written.screening is None
    comment = Path("new/mine.toml").read_text()
    assert found["protocol"] in comment
    assert "toy/reach_left: 8 of 8" in comment

    assert main(argv) == 2  # what is there is not written over
    assert "new/mine.toml is there already" in capsys.readouterr().err
    assert main(argv[:-1]) == 0
    assert "e00: success, found in the store" in capsys.readouterr().out


def test_a_screening_reaches_its_policy_as_a_run_does(
    suite: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = "tests.fakes.toy_policies:AsksAtUrl"
    argv = ["screen", suite, f"--policy={asks}", ENVS, "--run=out/s"]
    assert main(argv) == 2
    assert "say where with --vla-policy-url" in capsys.readouterr().err
    argv += ["--policy-url=tcp://here:1", "--policy-token=TOY_TOKEN"]
    assert main(argv) == 2
    assert "'TOY_TOKEN' that is not set" in capsys.readouterr().err
    monkeypatch.setenv("TOY_TOKEN", "s3cret")
    assert main([*argv, "--replan=99"]) == 2
    assert "--vla-replan=99" in capsys.readouterr().err
    assert main([*argv, "--checkpoint=night-7"]) == 0
    rows = "".join(path.read_text() for path in Path("out/s").rglob("results-*.jsonl"))
    assert '"checkpoint":"night-7"' in rows
    assert "s3cret" not in rows + capsys.readouterr().out
    assert "here:1" not in rows


def test_too_few_tasks_and_undecided_ones_are_no_success(
    suite: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["screen", suite, ENVS, "--run=out/s", "--write=mine.toml"]
    only = "tests.rollouts.test_screening:OnlyRight"
    assert main([*argv, f"--policy={only}"]) == 1
    out = lines(capsys)
    assert any(line.startswith("NOT ENOUGH: 1 retained, 2 are needed") for line in out)
    assert "cannot be asked: an arm that only goes right" in out
    monkeypatch.setenv("TOY_FAULTS", "reach_left/1=simerror")
    assert main([*argv, f"--policy={EXPERT}"]) == 1
    out = lines(capsys)
    assert any(line.startswith("UNDECIDED: ") for line in out)
    assert any("undecided: errors (1 of 4)" in line for line in out)
    assert not Path("mine.toml").exists()


def test_a_screening_that_cannot_be_is_a_usage_error(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, message in (
        (["quickstart", "--policy=zero"], "suite 'quickstart' has no [screening] table"),
        ([suite, "--policy=nobody"], "unknown policy 'nobody'"),
        ([suite, f"--policy={EXPERT}", "--policy-arg=x"], "--policy-arg: 'x' is not like"),
    ):
        assert main(["screen", *argv]) == 2, argv
        assert message in capsys.readouterr().err
    assert not Path("reports").exists()


def test_severity_writes_records_and_sheets(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    argv = ["audit", "severity", suite, ENVS, "--out=a", "--task=left", "--episodes=0:2"]
    assert main(argv) == 0
    out = lines(capsys)
    assert "severity audit of toy_suite: 10 of 10 records passed" in out
    assert any(line.split()[:3] == ["base-L2", "2", "2"] for line in out)
    assert "passed" in out
    found = json.loads(Path("a/audit-severity.json").read_text())
    assert found["passed"] is True
    assert [record["episode"] for record in found["records"]] == [0] * 5 + [1] * 5
    assert Path("a/contact-toy-reach_left.png").is_file()


def test_a_failing_severity_audit_fails_the_command(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(suite).write_text(SUITE.replace('"reach_left"', '"reach_left_jitter"'))
    assert main(["audit", "severity", suite, ENVS, "--out=a", "--axis=blur", "--task=left"]) == 1
    out = capsys.readouterr().out
    assert "FAILED: " in out
    assert "before the shift, model.target_pos differ" in out
    assert json.loads(Path("a/audit-severity.json").read_text())["passed"] is False


@pytest.mark.parametrize(
    "option,message",
    [
        ("--task=up", "--task: no suite has 'up'; there are"),
        ("--axis=wind", "--axis: no suite has 'wind'"),
        ("--episodes=9", "--episodes: no suite has '9'"),
        ("--episodes=x", "--episodes: 'x' is not like"),
        ("--level=7", "--level: no suite has 'L7'"),
    ],
)
def test_a_cut_that_matches_nothing_is_a_usage_error(
    suite: str, option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "severity", suite, ENVS, option]) == 2
    assert message in capsys.readouterr().err


def test_pairing_prints_what_was_the_same(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["audit", "pairing", suite, ENVS, f"--policy={SEEDED}", "--out=a", "--episodes=0,2"]
    assert main(argv) == 0
    out = lines(capsys)
    row = out.index("toy/reach_left") + 1
    assert out[row].split() == ["4", "of", "4", "2", "of", "2", "0", "of", "2"]
    assert json.loads(Path("a/audit-pairing.json").read_text())["passed"] is True
    uncontrolled = "tests.rollouts.test_pairing_audit:Uncontrolled"
    assert main([*argv[:4], f"--policy={uncontrolled}", "--out=a", "--steps=8"]) == 1
    assert "FAILED: 6 problems" in capsys.readouterr().out
    assert main([*argv, "--steps=0"]) == 2
    assert "--steps: 0 is below 1" in capsys.readouterr().err


def test_integrity_of_a_run_that_pytest_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ToyProject(tmp_path / "project")
    project.run("--vla-run=r", "--vla-axis=base,null")
    directory = project.directory("r")
    with held(directory):
        assert main(["audit", "integrity", str(directory)]) == 2
    assert "is being written by a run" in capsys.readouterr().err
    assert main(["audit", "integrity", str(directory)]) == 0
    out = capsys.readouterr().out.splitlines()
    row = out.index("toy/reach_left") + 1
    assert out[row].split() == ["15/15", "3/3", *["0"] * 8]
    assert json.loads((directory / "audit-integrity.json").read_text())["passed"] is True

    (rows,) = (directory / "rollouts").glob("results-*.jsonl")
    kept = [line for line in rows.read_text().splitlines() if '"condition":"base-L2"' not in line]
    rows.write_text("\n".join(kept) + "\n")
    assert main(["audit", "integrity", str(directory)]) == 1
    told = capsys.readouterr().out
    assert "FAILED: 6 problems" in told
    assert "reach_left e00 base-L2: missing: no record" in told


def test_integrity_of_what_is_no_run_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "integrity", str(tmp_path / "none")]) == 2
    assert "plan.json is not there" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
