"""``vla-shift`` as a program: versions, usage errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla_shift import __version__
from pytest_vla_shift.cli import main


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pytest-vla-shift {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["init"], ["init", "a", "b"], ["doctor", "--nonsense"]]
)
def test_a_wrong_command_line_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: vla-shift" in capsys.readouterr().err


def test_it_is_a_module_that_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest_vla_shift.cli", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert "doctor" in ended.stdout
    assert "init" in ended.stdout


def test_asking_for_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pytest_vla_shift.cli import _parser; _parser().format_help();"
        "print([m for m in ('numpy', 'scipy', 'mujoco', 'pytest') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_an_interrupt_is_one_line_and_the_shells_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_vla_shift.commands.doctor.run", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "vla-shift doctor: interrupted\n"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [f"s,t,{e},{axis},{level},1" for e in range(2) for axis, level in CONDITIONS]
    table.write_text("suite,task,episode,axis,level,success\n" + "\n".join(rows) + "\n")
    command = [sys.executable, "-m", "pytest_vla_shift.cli", "stats", str(table)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


CONDITIONS = (("clean", ""), ("camera", "L1"))


def test_a_file_is_no_runs_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("no run")
    assert main(["audit", "integrity", str(tmp_path / "README.md")]) == 2
    assert "is no run's directory" in capsys.readouterr().err
