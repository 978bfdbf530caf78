"""``vla-shift profile``: lists, shows and compares profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vla_shift.cli import main
from tests.fakes.toy_profile import TEXT, toy_text
from tests.plugin.toy_project import SUITE
from tests.policies.shipped_profiles import NAMES


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    assert main(["profile", *words]) == code
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines), default=0) <= 80
    return lines


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(NAMES)
    assert "gr00t-libero  (libero)" in lines


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_shown_name_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, name)
    assert any(line.split() == ["profile", name] for line in lines)
    assert any(line.split()[:1] == ["chunk"] for line in lines)
    assert not any(line.startswith("!") for line in lines)


def test_both_ends_of_a_mapping_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(" ".join(shown(capsys, "gr00t-libero")).split())
    assert "state state.yaw float32, 1 number eef_axis_angle[2] (angle to 2 pi)" in text
    assert "action action.yaw column 0 in [-1, 1] component 5" in text
    assert "chunk up to 16 actions 8 of them executed" in text


def test_a_profile_that_fits_a_suite_is_shown_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("libero.libero")
    lines = shown(capsys, "gr00t-libero", "--suite", "libero_ctrl")
    assert lines[0].split() == ["profile", "gr00t-libero", "suite", "libero_ctrl"]
    assert not any(line.startswith("!") for line in lines)


def test_files_of_ones_own_are_compared_and_a_misfit_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, suite = tmp_path / "mine.toml", tmp_path / "suite.toml"
    profile.write_text(TEXT)
    suite.write_text(SUITE)
    assert len(shown(capsys, str(profile), "--suite", str(suite))) > 5
    profile.write_text(toy_text(("size = [16, 16]", "size = [224, 224]")))
    lines = shown(capsys, str(profile), "--suite", str(suite), code=1)
    (wrong,) = (line for line in lines if line.startswith("!"))
    assert wrong.split()[:3] == ["!", "image", "front"]
    assert lines[-1] == "They do not fit; what does not is marked."


@pytest.mark.parametrize(
    "words, message",
    [
        (["franka"], "unknown profile 'franka'. Shipped: gr00t-libero, "),
        (["no/such.toml"], "profile 'no/such.toml' cannot be read"),
        (["--suite", "quickstart"], "--suite compares a profile: say which"),
        (["gr00t-libero", "--suite", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_shown_is_a_usage_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_malformed_file_is_refused_and_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toy_text(('"mirrored"', '"flipped"')))
    assert main(["profile", str(path)]) == 2
    assert "no. 1: 'orientation' must be one of upright" in capsys.readouterr().err


def test_names_that_the_wires_policy_would_refuse_are_refused_here_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_vla_shift.policies import profile

    text = (Path(profile.__file__).parent / "profiles" / "gr00t-libero.toml").read_text("utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('"state.x"', '"x"'), "utf-8")
    assert main(["profile", str(path)]) == 2
    assert "mine.toml: 'x' must begin with 'state.'" in capsys.readouterr().err
