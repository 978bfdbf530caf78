"""What collection passes over, and what it leaves as it was."""

from __future__ import annotations

import pytest

TEST = "def test_it(): pass\n"


def _collected(pytester: pytest.Pytester, *options: str) -> set[str]:
    found = pytester.runpytest_subprocess("--collect-only", "-q", *options)
    return {line for line in found.outlines if "::" in line}


def test_the_folder_of_a_run_is_passed_over_and_no_other(pytester: pytest.Pytester) -> None:
    """A run of thousands of rollouts has tens of thousands of folders."""
    for place in ("reports/one", "reports/two", "results/merged", "mine", "mine/rollouts"):
        (pytester.path / place).mkdir(parents=True)
    for run, sign in (("reports/one", "run.lock"), ("results/merged", "run.json")):
        (pytester.path / run / sign).touch()
        (pytester.path / run / "rollouts").mkdir()
        (pytester.path / run / "rollouts" / "test_no_test_of_ours.py").write_text(TEST)
    for place, name in (("reports/two", "two"), ("mine/rollouts", "mine"), (".", "top")):
        (pytester.path / place / f"test_{name}.py").write_text(TEST)
    expected = {
        "mine/rollouts/test_mine.py::test_it",
        "reports/two/test_two.py::test_it",
        "test_top.py::test_it",
    }
    assert _collected(pytester) == expected
    assert _collected(pytester, "--vla-policy=zero") == expected


@pytest.mark.parametrize("wanted", [True, False])
def test_the_garbage_collector_is_after_collection_as_it_was(
    pytester: pytest.Pytester, wanted: bool
) -> None:
    pytester.makeconftest(
        f"import gc\n"
        f"(gc.enable if {wanted} else gc.disable)()\n"
        f"def pytest_collection_modifyitems():\n"
        f"    print('collecting', gc.isenabled())\n"
        f"def pytest_runtestloop():\n"
        f"    print('running', gc.isenabled())\n"
    )
    pytester.makepyfile(TEST)
    found = pytester.runpytest_subprocess("-s", "--vla-policy=zero", "--collect-only")
    assert "collecting False" in found.outlines
    assert f"running {wanted}" in found.outlines
