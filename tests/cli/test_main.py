"""``vla-shift`` as a program: versions, usage errors, exit codes."""

from __future__ import annotations

import subprocess
import sys

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
