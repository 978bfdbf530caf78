"""With xdist the same report comes out: nothing twice, nothing missing, the clean arm run once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.plugin.toy_project import ToyProject


def allure_results(project: ToyProject, run: str) -> list[dict[str, object]]:
    folder = project.directory(run) / "allure-results"
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*-result.json"))]


def test_two_workers_give_the_rows_and_the_report_of_one_process(project: ToyProject) -> None:
    one = project.run("--vla-run=one", code=1)
    two = project.run("--vla-run=two", "-n2", code=1)
    assert project.outcomes("two") == project.outcomes("one")
    assert project.summary("two") == project.summary("one")
    assert len(project.rows("two")) == 36, "a clean rollout ran more than once"
    assert len({row["key"] for row in project.rows("two", "started")}) == 36
    for run in (one, two):
        # The progress line stands alone, not behind the letters of the nodes before it.
        assert any(line.startswith("rollouts 36 of 36, ") for line in run.out.splitlines())
        assert "25 robust" in run.out.splitlines()[-1]
        assert "5 degraded" in run.out.splitlines()[-1]
    assert len(list((project.directory("two") / "rollouts").glob("results-*"))) == 2

    names = [
        Counter(str(result["historyId"]) for result in allure_results(project, name))
        for name in ("one", "two")
    ]
    assert names[0] == names[1]
    assert set(names[0].values()) == {1}
    # 30 nodes and one aggregate a condition.
    assert sum(names[0].values()) == 30 + 5


def test_a_crashed_pytest_worker_leaves_no_node_unreported(tmp_path: Path) -> None:
    module = (
        "import os, signal\n"
        "def test_shift(pair):\n"
        "    if pair.cell.id == 'toy-reach_left-e01-base-L2':\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    pair.assert_not_degraded()\n"
    )
    project = ToyProject(tmp_path, module=module)
    run = project.run("--vla-run=crash", "-n2", code=1)
    assert "1 failed" in run.out
    assert "1 of 30 planned nodes were not reported" in run.out
    results = allure_results(project, "crash")
    broken = [r for r in results if r["status"] == "broken"]
    assert [r["name"] for r in broken] == ["test_shift[toy-reach_left-e01-base-L2]"]
    cells = Counter(str(r["historyId"]) for r in results)
    assert set(cells.values()) == {1}
    assert sum(cells.values()) == 30 + 5


@pytest.mark.parametrize("processes", ["0", "2"])
def test_hooks_are_called_once_a_rollout_once_a_pair_and_once_a_run(
    tmp_path: Path, processes: str
) -> None:
    project = ToyProject(tmp_path)
    (project.path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "import os\n"
        "def log(config, word):\n"
        "    name = f'calls-{os.getpid()}.txt'\n"
        "    with (config.rootpath / name).open('a') as file:\n"
        "        file.write(word + '\\n')\n"
        "def pytest_vla_rollout_finished(config, record):\n"
        "    log(config, f'rollout {record.key}')\n"
        "def pytest_vla_pair_finished(config, pair):\n"
        "    log(config, f'pair {pair.cell.id} {pair.transition}')\n"
        "def pytest_vla_aggregate(config, report):\n"
        "    log(config, f'aggregate {report.reported}')\n"
    )
    project.run("--vla-run=h", f"-n{processes}", code=1)
    calls = Counter(
        line for file in project.path.glob("calls-*.txt") for line in file.read_text().splitlines()
    )
    assert set(calls.values()) == {1}
    kinds = Counter(line.split()[0] for line in calls)
    assert kinds == {"rollout": 36, "pair": 30, "aggregate": 1}
    assert "aggregate 30" in calls
