"""Which nodes a run has: -k, -m, the cutting options, --vla-list, and what was deselected."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.inprocess import run
from tests.plugin.toy_project import EXPERT, SUITE, ToyProject

Collect = Callable[..., list[str]]


@pytest.fixture
def collected(pytester: pytest.Pytester) -> Collect:
    """Collect in this process; the cells of the nodes that would run, in order."""
    ToyProject(pytester.path)

    def collect(*args: str) -> list[str]:
        result = run(pytester, f"--vla-policy={EXPERT}", "--collect-only", "-q", *args)
        assert result.ret in (0, 5), result.stdout.str()
        return re.findall(r"^test_toy\.py::test_shift\[(.*)\]$", result.stdout.str(), re.M)

    return collect


CONDITIONS = ["null", "base-L1", "base-L2", "base-L3", "blur-L1"]


def test_every_cell_is_a_node_in_the_order_of_the_plan(collected: Collect) -> None:
    assert collected() == [
        f"toy-{task}-e0{episode}-{condition}"
        for task in ("reach_left", "reach_right")
        for episode in range(3)
        for condition in CONDITIONS
    ]


@pytest.mark.parametrize(
    "args, count, pattern",
    [
        (["-k", "right and base and L2"], 3, r"right-e0.-base-L2"),
        (["-k", "left and not base"], 6, r"left-e0.-(null|blur-L1)"),
        (["-k", "e01"], 10, r"-e01-"),
        (["-m", "vla(axis='base', level=2)"], 6, r"base-L2"),
        (["-m", "vla(axis='null')"], 6, r"null"),
        (["-m", "vla(axis='null', level=0)"], 6, r"null"),
        (["-m", "vla(task='reach_left', episode=1)"], 5, r"left-e01-"),
        (["-m", "vla(condition='base-L3') and not vla(task_suite='other')"], 6, r"base-L3"),
        (["-m", "vla(suite='toy_suite')"], 30, r""),
        (["-m", "vla(level=1)"], 12, r"(base|blur)-L1"),
        (["-m", "not vla"], 0, r""),
        (["--vla-task=right"], 15, r"reach_right"),
        (["--vla-task=right,left"], 30, r""),
        (["--vla-episodes=0,2"], 20, r"-e0[02]-"),
        (["--vla-episodes=1:3"], 20, r"-e0[12]-"),
        (["--vla-axis=base"], 18, r"-base-"),
        (["--vla-axis=null,blur"], 12, r"-(null|blur-L1)"),
        (["--vla-level=2"], 12, r"-(null|base-L2)"),
        (["--vla-axis=base", "--vla-level=1,L3", "--vla-task=left"], 6, r"left-e0.-base-L[13]"),
        (["--vla-axis=base", "-k", "L3", "-m", "vla(episode=2)"], 2, r"-e02-base-L3"),
        (["test_toy.py::test_shift[toy-reach_left-e01-base-L2]"], 1, r"left-e01-base-L2"),
    ],
)
def test_a_selection_keeps_exactly_what_it_names(
    collected: Collect, args: list[str], count: int, pattern: str
) -> None:
    cells = collected(*args)
    assert len(cells) == len(set(cells)) == count
    assert all(re.search(pattern, cell) for cell in cells)


def test_collecting_only_touches_no_run(pytester: pytest.Pytester, collected: Collect) -> None:
    assert len(collected()) == 30
    assert len(collected("-n2")) == 30
    assert not (pytester.path / "reports").exists()


def test_deselected_nodes_are_not_planned_and_cut_ones_neither(project: ToyProject) -> None:
    finished = project.run("--vla-run=s", "-k", "right and L1", "--vla-episodes=0:2", code=0)
    manifest = json.loads((project.directory("s") / "run.json").read_text())
    cells = [f"toy-reach_right-e0{e}-{axis}-L1" for e in range(2) for axis in ("base", "blur")]
    assert manifest["nodes"] == [f"test_toy.py::test_shift[{cell}]" for cell in cells]
    assert manifest["planned"] == 4
    assert "not reported" not in finished.out
    assert "16 deselected, 4 robust" in finished.out.splitlines()[-1]
    assert len(project.rows("s")) == 6


def test_thousands_of_nodes_are_collected_at_a_fraction_of_a_millisecond_each(
    pytester: pytest.Pytester,
) -> None:
    # benchmarks/collection.py measures it: 0.14 ms of CPU a node.
    seconds = []
    for name, episodes in (("small", "0:1"), ("large", "0:500")):
        suite = SUITE.replace('"0:3"', f'"{episodes}"')
        project = ToyProject(pytester.path / name, suite=suite)
        began = time.process_time()
        result = run(pytester, f"--vla-policy={EXPERT}", "--collect-only", "-qq", str(project.path))
        seconds.append(time.process_time() - began)
        assert result.ret == 0
    assert result.outlines[0].endswith(": 5000")
    assert seconds[1] - seconds[0] < 5.0


# --vla-list


def listed(pytester: pytest.Pytester, *args: str) -> list[str]:
    """The lines that ``--vla-list`` prints between collection and the last line."""
    result = run(pytester, "--vla-list", *args)
    assert result.ret == 0, result.stdout.str()
    lines = [line for line in result.outlines if line.strip()]
    start = next(n for n, line in enumerate(lines) if line.startswith("collected "))
    return lines[start + 1 : -1]


WHOLE = [
    "toy_suite: Toy",
    "  protocol {digest}, simulator tests.fakes.toy_simulator:factory",
    "  toy/reach_left",
    "    episodes 0-2, horizon 60",
    "  toy/reach_right",
    "    episodes 0-2, horizon 60",
    "  axis null",
    "  axis base: L1 L2 L3",
    "  axis blur: L1",
    "  30 nodes, 36 rollouts: 30 shifted or null, 6 clean",
    "  (sharing saves 24 clean rollouts)",
    "  about 2 min with 1 process(es)",
    "  at 4.0 s a rollout (assumed, since nothing is recorded in this run yet)",
]


@pytest.mark.parametrize("policy", [[], [f"--vla-policy={EXPERT}"]])
def test_the_plan_is_listed_and_nothing_runs(pytester: pytest.Pytester, policy: list[str]) -> None:
    ToyProject(pytester.path)
    lines = listed(pytester, *policy)
    digest = re.search(r"protocol ([0-9a-f]{20})", "\n".join(lines))
    assert digest is not None
    assert lines == [line.format(digest=digest[1]) for line in WHOLE]
    assert max(map(len, lines)) <= 80
    assert not (pytester.path / "reports").exists()


@pytest.mark.parametrize("option", ["--vla-list", "--collect-only"])
@pytest.mark.parametrize(
    "options, message",
    [
        (["--vla-policy-url=tcp://127.0.0.1:{port}"], "which --vla-policy-command would fill"),
        (["--vla-policy-command=serve {port}"], "needs --vla-policy-url"),
        (["--vla-policy-url=nowhere", "--vla-policy-command=serve"], "not like tcp://HOST:PORT"),
        (["--vla-gpus=77"], "--vla-gpus: GPU '77'"),
        (["--vla-gpus=77", "-n2"], "--vla-gpus: GPU '77'"),
        (["--vla-render-gpus=77"], "'77'"),
        (["--vla-executor=ray", "-n2"], "--vla-executor=ray"),
        (["--vla-executor=ray", "--vla-envs=0"], "--vla-executor=ray"),
    ],
)
def test_what_a_run_would_refuse_a_listing_refuses(
    pytester: pytest.Pytester, option: str, options: list[str], message: str
) -> None:
    ToyProject(pytester.path)
    before = dict(os.environ)
    result = run(pytester, option, f"--vla-policy={EXPERT}", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in f"{result.stdout}{result.stderr}"
    assert not (pytester.path / "reports").exists()
    assert dict(os.environ) == before


def test_a_listing_shows_what_is_left_and_shares_the_time(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    lines = listed(pytester, "-n2", "-k", "right and L1", "--vla-episodes=0,2")
    assert lines[2:] == [
        "  toy/reach_right",
        "    episodes 0, 2, horizon 60",
        "  axis base: L1",
        "  axis blur: L1",
        "  4 nodes, 6 rollouts: 4 shifted or null, 2 clean",
        "  (sharing saves 2 clean rollouts)",
        "  about 12 s with 2 process(es)",
        "  at 4.0 s a rollout (assumed, since nothing is recorded in this run yet)",
    ]
    lanes = listed(pytester, "-n2", "--vla-envs=3", "-k", "right and L1", "--vla-episodes=0,2")
    assert lanes[-2] == "  about 4 s with 2 process(es), 3 rollouts at once in each"


def test_two_tests_of_one_suite_share_their_rollouts(pytester: pytest.Pytester) -> None:
    module = "def test_a(pair): pass\ndef test_b(pair): pass\ndef test_c(condition): pass\n"
    ToyProject(pytester.path, module=module)
    lines = listed(pytester)
    assert "  60 nodes, 36 rollouts: 30 shifted or null, 6 clean" in lines
    assert "  (sharing saves 24 clean rollouts)" in lines


def test_two_suites_are_listed_one_after_the_other_with_their_sum(
    pytester: pytest.Pytester,
) -> None:
    ToyProject(pytester.path / "one")
    ToyProject(pytester.path / "two", suite=SUITE.replace("toy_suite", "a_second"))
    (pytester.path / "two" / "test_toy.py").rename(pytester.path / "two" / "test_second.py")
    lines = listed(pytester)
    assert [line for line in lines if line[0] != " "] == [
        "a_second: Toy",
        "toy_suite: Toy",
        "all suites:",
    ]
    after = lines[lines.index("all suites:") :]
    assert after[1] == "  60 nodes, 72 rollouts: 60 shifted or null, 12 clean"


def test_a_listing_of_nothing_says_so(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    assert listed(pytester, "-k", "nothing_like_this") == ["no node is left: nothing would run"]


def test_the_time_is_estimated_from_this_runs_records(pytester: pytest.Pytester) -> None:
    project = ToyProject(pytester.path)
    project.run("--vla-run=r", "--vla-axis=null", code=0)
    before = {file: file.read_bytes() for file in project.directory("r").rglob("*.jsonl")}
    assert listed(pytester, "--vla-run=r")[-1].endswith("(the mean of 12 recorded in this run)")
    assert {file: file.read_bytes() for file in project.directory("r").rglob("*.jsonl")} == before
    (project.directory("r") / "rollouts" / "results-x-1.jsonl").write_text(
        json.dumps({**project.rows("r")[0], "steps": 1}) + "\n"
    )
    assert "records cannot be used" in listed(pytester, "--vla-run=r")[-1]


def test_a_cut_that_leaves_nothing_is_a_usage_error(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    for chosen in ("--vla-list", f"--vla-policy={EXPERT}"):
        result = run(pytester, chosen, "--vla-axis=blur", "--vla-level=3")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["ERROR: --vla-task, *together leave nothing*"])


def test_quickstart_is_listed_in_80_columns_where_the_words_permit(
    pytester: pytest.Pytester,
) -> None:
    (pytester.path / "test_quickstart.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.vla_suite('quickstart')\n"
        "def test_shift(pair): pass\n"
    )
    lines = listed(pytester)
    assert "  78 nodes, 84 rollouts: 78 shifted or null, 6 clean" in lines
    # A task's own name may be longer than a line.
    assert all(len(line) <= 80 for line in lines if not line.startswith("  libero_"))
    assert Path(pytester.path / "reports").exists() is False
