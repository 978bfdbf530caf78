"""Without a policy the plugin says what to do; projects that are not about it are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.inprocess import run
from tests.plugin.toy_project import EXPERT, ToyProject


def test_without_a_policy_a_suite_is_one_skipped_node_a_test_that_says_what_to_do(
    pytester: pytest.Pytester,
) -> None:
    module = (
        "def test_a(pair): raise AssertionError('ran')\n"
        "def test_b(condition): raise AssertionError('ran')\n"
        "def test_c(cell): raise AssertionError('ran')\n"
        "def test_ordinary(): pass\n"
    )
    ToyProject(pytester.path / "mine", module=module)
    result = run(pytester, "-rs")
    result.assert_outcomes(skipped=3, passed=1)
    reasons = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert sum(int(line.split("]")[0].split("[")[1]) for line in reasons) == 3
    assert all("robustness suite: give it a policy" in line for line in reasons)
    assert all("pytest --vla-policy=tiny mine (--vla-list" in line for line in reasons)
    assert not (pytester.path / "reports").exists()


def test_one_line_says_so_even_where_pytest_shows_no_reasons(pytester: pytest.Pytester) -> None:
    module = "def test_a(pair): pass\ndef test_b(pair): pass\n"
    ToyProject(pytester.path / "mine", module=module)
    result = run(pytester)
    lines = [line for line in result.outlines if "robustness suite" in line]
    assert len(lines) == 1
    assert "2 tests skipped" in lines[0]
    assert "--vla-policy=tiny mine" in lines[0]


def test_without_a_policy_a_broken_suite_is_not_even_read(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path, suite="this is no TOML")
    run(pytester).assert_outcomes(skipped=1)


OTHERS = """
import pytest

@pytest.fixture
def cell():
    return "a battery"

@pytest.fixture
def pair(cell):
    return cell, "another"

@pytest.fixture(params=["new", "used"])
def condition(request):
    return request.param

def test_fixtures(cell, pair, condition):
    assert cell == "a battery"
    assert pair == ("a battery", "another")
    assert condition in ("new", "used")

@pytest.mark.parametrize("cell", ["A1", "B2"])
def test_parametrised(cell):
    assert cell in ("A1", "B2")

@pytest.mark.parametrize("cell, pair", [(1, 2)])
def test_both(cell, pair):
    assert (cell, pair) == (1, 2)
"""


@pytest.mark.parametrize("options", [[], [f"--vla-policy={EXPERT}"]])
def test_a_project_with_fixtures_of_these_names_is_left_alone(
    pytester: pytest.Pytester, options: list[str]
) -> None:
    pytester.makepyfile(test_batteries=OTHERS)
    result = run(pytester, "-v", *options)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*test_parametrised[[]A1[]]*PASSED*"])
    assert "robustness" not in result.stdout.str()


def test_such_a_project_with_an_unrelated_suite_toml_is_left_alone_too(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_batteries=OTHERS)
    (pytester.path / "suite.toml").write_text("kind = 'of batteries'\n")
    run(pytester).assert_outcomes(passed=5)


def test_such_a_project_beside_a_suite_runs_with_it(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    (tmp_path / "batteries").mkdir()
    (tmp_path / "batteries" / "test_batteries.py").write_text(OTHERS)
    finished = project.run("--vla-run=b", "--vla-axis=null", code=0)
    assert "6 robust" in finished.out.splitlines()[-1]
    assert "5 passed" in finished.out.splitlines()[-1]
    assert "not reported" not in finished.out


@pytest.mark.parametrize("options", [[], [f"--vla-policy={EXPERT}"]])
@pytest.mark.parametrize("fixture", ["pair", "condition", "cell"])
def test_a_test_without_a_suite_is_told_what_is_missing(
    pytester: pytest.Pytester, options: list[str], fixture: str
) -> None:
    pytester.makepyfile(test_lost=f"def test_it({fixture}): pass\n")
    result = run(pytester, *options)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*UsageError: test_lost.py::test_it asks for a cell, but its module has no suite: put a*"]
    )
    assert "suite.toml" in result.stdout.str()


@pytest.mark.parametrize("options", [[], ["--vla-fresh"], ["-n2"], ["--vla-list"]])
def test_a_policy_without_any_suite_changes_nothing(
    pytester: pytest.Pytester, options: list[str]
) -> None:
    pytester.makepyfile(test_plain="def test_it(): pass\n")
    result = pytester.runpytest_subprocess(f"--vla-policy={EXPERT}", *options)
    assert result.ret == 0, result.stdout.str()
    if "--vla-list" not in options:
        result.assert_outcomes(passed=1)
    assert "robustness" not in result.stdout.str()
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_a_policy_and_no_tests_at_all_is_pytests_own_exit_code(pytester: pytest.Pytester) -> None:
    result = run(pytester, f"--vla-policy={EXPERT}")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    "mark",
    ["vla_suite", "vla_suite()", "vla_suite(3)", "vla_suite('a', 'b')", "vla_suite(name='a')"],
)
def test_a_malformed_suite_mark_is_told(pytester: pytest.Pytester, mark: str) -> None:
    pytester.makepyfile(
        test_marked=f"import pytest\n@pytest.mark.{mark}\ndef test_it(pair): pass\n"
    )
    result = run(pytester)
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "vla_suite takes one text: a shipped suite's name or a path" in text
