"""Words, letters and exit codes of the four transitions, and what a failing node says."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from tests.plugin.inprocess import Inside
from tests.plugin.toy_project import MODULE, SUITE, ToyProject

BASE_L3 = "--vla-axis=base"


def test_every_transition_has_its_word_letter_and_exit_code(inside: Inside) -> None:
    robust = inside.run("--vla-run=r", BASE_L3, "--vla-level=1", "-v", code=0)
    assert "6 robust" in robust.out.splitlines()[-1]
    assert "] ROBUST" in robust.out

    broken = inside.run("--vla-run=r", BASE_L3, "--vla-level=3", code=1)
    last = broken.out.splitlines()[-1]
    assert "4 degraded" in last
    assert "2 robust" in last
    assert "failed" not in last
    letters = re.search(r"test_toy.py ([.D]+)", broken.out)
    assert letters is not None
    assert sorted(letters[1]) == sorted("DDDD..")

    unsolved = inside.run("--vla-run=z", BASE_L3, policy="zero", code=0)
    assert "18 unsolved" in unsolved.out.splitlines()[-1]
    assert re.search(r"test_toy.py x+", unsolved.out)


def test_a_changed_failure_is_recovered_and_passes(pytester: pytest.Pytester) -> None:
    # Flaky succeeds or fails by its seed, and the null arm of a seeded policy has another one.
    project = Inside(pytester.path, pytester=pytester, suite=SUITE.replace('"0:3"', '"0:12"'))
    run = project.run(
        "--vla-run=f", "--vla-axis=null", "-v", policy="tests.fakes.toy_policies:Flaky"
    )
    rows = {(row["task"], row["episode"], row["condition"]): row for row in project.rows("f")}
    pairs = {(t, e) for t, e, _ in rows}
    changed = [
        (rows[t, e, "clean"]["success"], rows[t, e, "null"]["success"]) for t, e in sorted(pairs)
    ]
    expected = {
        "ROBUST": changed.count((True, True)),
        "DEGRADED": changed.count((True, False)),
        "RECOVERED": changed.count((False, True)),
        "UNSOLVED": changed.count((False, False)),
    }
    assert expected["RECOVERED"] > 0, changed
    for word, count in expected.items():
        assert run.out.count(f"] {word}") == count
    assert {row["seed_note"] for row in rows.values() if row["condition"] == "null"} == {"other"}


def test_a_degraded_node_explains_itself_and_its_replay_command_reproduces_it(
    project: ToyProject,
) -> None:
    run = project.run("--vla-run=r", BASE_L3, "--vla-level=3", "--vla-episodes=0", code=1)
    assert "S>F degraded: toy reach_left episode 0, base-L3" in run.out
    assert "sigma_xy_m=1" in run.out
    assert "clean    success at step" in run.out
    assert "first incomplete: reached target_1" in run.out

    command = shlex.split(
        next(line for line in run.out.splitlines() if line.startswith("  replay")).split(
            "replay", 1
        )[1]
    )
    assert command[0] == "pytest"
    again = subprocess.run(
        [*project.command(policy=None)[:3], *command[1:]],
        cwd=project.path,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert again.returncode == 1, again.stdout
    assert "1 degraded" in again.stdout.splitlines()[-1]
    first = {row["key"]: row for row in project.outcomes("r")}
    replayed = project.outcomes("replay")
    assert len(replayed) == 2
    for row in replayed:
        assert row == first[row["key"]]


def test_a_users_own_assertion_keeps_pytests_own_word(pytester: pytest.Pytester) -> None:
    module = "def test_shift(pair):\n    assert pair.clean.steps < 3, 'too slow'\n"
    project = Inside(pytester.path, pytester=pytester, module=module)
    run = project.run("--vla-run=o", "--vla-axis=null", code=1)
    assert "6 failed" in run.out.splitlines()[-1]
    assert "AssertionError: too slow" in run.out


def test_the_condition_fixture_runs_nothing(pytester: pytest.Pytester) -> None:
    module = (
        "def test_levels(condition):\n"
        "    assert condition.name == 'null' or condition.parts[0].level.parameters\n"
    )
    project = Inside(pytester.path, pytester=pytester, module=module)
    run = project.run("--vla-run=c", code=0)
    assert "30 passed" in run.out
    assert project.rows("c") == []


def test_a_replay_command_works_from_where_pytest_was_started(project: ToyProject) -> None:
    below = project.path / "below"
    below.mkdir()
    project.path = below
    args = ("..", BASE_L3, "--vla-level=3", "--vla-episodes=0", "--vla-task=left", "--vla-run=r")
    run = project.run(*args, code=1)
    line = next(line for line in run.out.splitlines() if line.startswith("  replay"))
    command = shlex.split(line.split("replay", 1)[1])
    again = subprocess.run(
        [*project.command(policy=None)[:3], *command[1:]],
        cwd=below,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert again.returncode == 1, again.stdout
    assert "1 degraded" in again.stdout.splitlines()[-1]


def test_an_expected_failure_keeps_pytests_own_word(pytester: pytest.Pytester) -> None:
    module = f"import pytest\n@pytest.mark.xfail\n{MODULE.strip()}\n"
    project = Inside(pytester.path, pytester=pytester, module=module)
    run = project.run("--vla-run=x", BASE_L3, "--vla-level=3", code=0)
    assert "4 xfailed" in run.out.splitlines()[-1]


def test_a_run_over_a_selection_says_so(inside: Inside) -> None:
    run = inside.run("--vla-run=s", "-k", "base and L3", code=1)
    assert "6 of the 30 cells of toy_suite were selected" in " ".join(run.out.split())
    whole = inside.run("--vla-run=w", code=1)
    assert "were selected" not in whole.out


def test_a_replay_command_names_the_renderer_that_was_asked_for(project: ToyProject) -> None:
    project.environment["MUJOCO_GL"] = "osmesa"
    options = (BASE_L3, "--vla-level=3", "--vla-episodes=0", "--vla-task=left", "--vla-run=r")
    assert "replay   MUJOCO_GL=osmesa pytest " in project.run(*options, code=1).out


def test_a_pair_that_two_tests_ask_for_is_explained_once(pytester: pytest.Pytester) -> None:
    module = "".join(f"def test_{n}(pair):\n    pair.assert_not_degraded()\n" for n in "ab")
    project = Inside(pytester.path, pytester=pytester, module=module)
    run = project.run("--vla-axis=base", "--vla-level=3", "--vla-task=left", code=1)
    told = [line for line in run.out.splitlines() if line.startswith("S>F degraded")]
    assert told
    assert len(set(told)) == len(told)


def test_a_file_in_the_place_of_allures_folder_is_a_usage_error(pytester: pytest.Pytester) -> None:
    project = Inside(pytester.path, pytester=pytester)
    project.run("--vla-run=one", "--vla-axis=null", code=0)
    folder = project.directory("one") / "allure-results"
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("not a folder")
    run = project.run("--vla-run=one", "--vla-axis=null", code=4)
    assert "allure-results is no folder" in run.out
    assert "Traceback" not in run.out
