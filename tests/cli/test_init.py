"""``vla-shift init``: a starter suite that runs, and nothing overwritten."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands.init import init, suite_name
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.protocol.suite import load_suite, shipped


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_suite_becomes_a_suite_of_another_name(tmp_path: Path, name: str) -> None:
    target = tmp_path / "mine"
    assert init(target, name, io.StringIO()) == 0
    mine, original = load_suite(target / "suite.toml"), load_suite(name)
    assert mine.name == "mine"
    assert (mine.tasks, mine.episodes, mine.axes) == (
        original.tasks,
        original.episodes,
        original.axes,
    )
    assert mine.protocol_digest != original.protocol_digest


def test_the_starter_suite_is_collected_as_it_is_written(
    tmp_path: Path, pytester: pytest.Pytester
) -> None:
    target = pytester.path / "robustness"
    init(target, "quickstart", io.StringIO())
    result = pytester.runpytest_subprocess("robustness", "--vla-list", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(
        ["robustness: *", f"*{len(plan(load_suite('quickstart')))} nodes, *"]
    )
    assert result.ret == 0


def test_two_starter_suites_run_together(pytester: pytest.Pytester) -> None:
    for name in ("nightly", "weekly"):
        init(pytester.path / name, "quickstart", io.StringIO())
    result = pytester.runpytest_subprocess(
        "nightly", "weekly", "--vla-list", "-p", "no:cacheprovider"
    )
    result.stdout.fnmatch_lines(["nightly: *"])
    result.stdout.fnmatch_lines(["weekly: *"])
    assert result.ret == 0


def test_the_next_commands_are_printed_for_the_shell(tmp_path: Path) -> None:
    out = io.StringIO()
    init(tmp_path / "with space", "quickstart", out)
    assert f"pytest '{tmp_path / 'with space'}' --vla-policy=tiny" in out.getvalue()


@pytest.mark.parametrize("there", ["suite.toml", "test_robustness.py"])
def test_nothing_is_overwritten(
    tmp_path: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "robustness"
    target.mkdir()
    (target / there).write_text("mine")
    assert main(["init", str(target)]) == 2
    assert f"{target / there} is there already" in capsys.readouterr().err
    assert [path.name for path in target.iterdir()] == [there]
    assert (target / there).read_text() == "mine"


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(UsageError, match="is there already"):
        init(tmp_path, "quickstart", io.StringIO())
    assert not (tmp_path / "elsewhere.toml").exists()


def test_an_unknown_suite_names_the_shipped_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "new"), "--suite", "nope"]) == 2
    told = f"unknown suite 'nope'; shipped suites: {', '.join(shipped())}\n"
    assert told in capsys.readouterr().err
    assert "quickstart" in told
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file" / "new")]) == 2
    assert "cannot write into" in capsys.readouterr().err


@pytest.mark.parametrize(
    "folder,name",
    [
        ("Robust-Tests", "robust_tests"),
        ("robustness", "robustness"),
        ("my.suite.2", "my_suite_2"),
        ("---", "my_suite"),
        ("Früh", "fr_h"),
        ("quickstart", "my_quickstart"),
        ("2026-11", "suite_2026_11"),
        ("nightly/sub/..", "nightly"),
    ],
)
def test_the_suite_is_called_as_its_folder(folder: str, name: str) -> None:
    assert suite_name(Path(folder)) == name


def test_init_here_takes_the_name_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nightly").mkdir()
    monkeypatch.chdir(tmp_path / "nightly")
    assert main(["init", "."]) == 0
    assert load_suite(Path("suite.toml")).name == "nightly"
