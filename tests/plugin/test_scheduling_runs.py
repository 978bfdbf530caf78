"""The xdist scheduler in real pytest processes: workers that crash, runs that stop early."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.plugin.test_xdist import allure_results
from tests.plugin.toy_project import ToyProject

SOLVED = "--vla-axis=null,blur"
"""Conditions that the expert always solves: 2 tasks x 3 episodes x 2."""

CRASHING = """
import os, signal
from pathlib import Path
import pytest

def crash_once(config, name):
    mark = config.rootpath / f"crashed-{name}"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGSEGV)

def pytest_runtest_setup(item):
    for name in os.environ.get("CRASH_IN_SETUP", "").split():
        if name in item.nodeid:
            crash_once(item.config, name)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    for name in os.environ.get("CRASH_AFTER_CALL", "").split():
        if name in item.nodeid:
            result = yield
            crash_once(item.config, name)
            return result
    return (yield)
"""


def crashing(path: Path, **nodes: str) -> ToyProject:
    """A project whose pytest workers segfault at nodes, the first time that they are run."""
    project = ToyProject(path, environment=nodes)
    (project.path / "conftest.py").write_text(CRASHING)
    return project


def statuses(project: ToyProject, run: str) -> dict[str, str]:
    """Node name -> status in Allure, of nodes and not of the controller's aggregates."""
    found = [r for r in allure_results(project, run) if str(r["name"]).startswith("test_shift[")]
    names = Counter(str(result["name"]) for result in found)
    assert set(names.values()) == {1}, "a node has two results"
    return {str(result["name"]): str(result["status"]) for result in found}


def workers_of_episodes(project: ToyProject, run: str) -> dict[tuple[object, object], set[str]]:
    found: dict[tuple[object, object], set[str]] = defaultdict(set)
    for row in project.rows(run):
        where = row["where"]
        assert isinstance(where, dict)
        found[row["task"], row["episode"]].add(str(where["worker"]))
    return found


def test_an_episode_is_run_by_one_worker_which_knows_what_comes_next(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    (project.path / "conftest.py").write_text(
        "import json\n"
        "from pytest_vla_shift.scheduling import assigned\n"
        "def pytest_runtest_setup(item):\n"
        "    ids = [other.nodeid for other in item.session.items]\n"
        "    given = assigned(item.config)\n"
        "    known = None if given is None else [ids[index] for index in given]\n"
        "    worker = getattr(item.config, 'workerinput', {}).get('workerid', 'main')\n"
        "    with (item.config.rootpath / f'known-{worker}.jsonl').open('a') as file:\n"
        "        file.write(json.dumps([item.nodeid, known]) + '\\n')\n"
    )
    run = project.run("--vla-run=two", "-n2", "-v", "--vla-axis=null,base", code=1)
    assert "scheduling tests via EpisodeScheduling" in run.out
    assert {len(workers) for workers in workers_of_episodes(project, "two").values()} == {1}
    total = 0
    for name in ("gw0", "gw1"):
        lines = [json.loads(line) for line in (tmp_path / f"known-{name}.jsonl").open()]
        ran = [node for node, _ in lines]
        total += len(ran)
        for place, (_, known) in enumerate(lines):
            assert known == ran[place + 1 : place + 1 + len(known)]
        # Four cells an episode: the next one is sent when only the last is left.
        assert [len(known) for _, known in lines[:5]] == [3, 2, 1, 4, 3]
        assert lines[-1][1] == []
    assert total == 24
    project.run("--vla-run=one", "--vla-task=left", SOLVED, code=0)
    assert all(json.loads(line)[1] is None for line in (tmp_path / "known-main.jsonl").open())


def test_a_crash_costs_its_node_and_the_same_command_again_completes(tmp_path: Path) -> None:
    """The first node of a worker, one after its rollout, and the very last one."""
    project = crashing(
        tmp_path,
        CRASH_IN_SETUP="reach_left-e00-blur-L1 reach_right-e02-null",
        CRASH_AFTER_CALL="reach_left-e01-null",
    )
    crashed = {
        f"test_shift[toy-{name}]"
        for name in ("reach_left-e00-blur-L1", "reach_right-e02-null", "reach_left-e01-null")
    }
    run = project.run("--vla-run=c", "-n2", SOLVED, code=1)
    assert "3 of 12 planned nodes were not reported" in run.out
    assert "3 failed" in run.out.splitlines()[-1]
    assert "9 robust" in run.out.splitlines()[-1]
    found = statuses(project, "c")
    assert {name for name, status in found.items() if status == "broken"} == crashed
    assert Counter(found.values()) == {"broken": 3, "passed": 9}

    again = project.run("--vla-run=c", "-n2", SOLVED, code=0)
    assert "12 robust" in again.out.splitlines()[-1]
    assert set(statuses(project, "c").values()) == {"passed"}
    assert set(Counter(str(row["key"]) for row in project.rows("c")).values()) == {1}
    assert len(project.rows("c")) == 12 + 6


def test_without_replacements_the_run_ends_and_says_what_is_missing(tmp_path: Path) -> None:
    project = crashing(tmp_path, CRASH_IN_SETUP="reach_left-e00-blur-L1 reach_left-e01-blur-L1")
    run = project.run("--vla-run=c", "-n2", "--max-worker-restart=0", SOLVED, code=1)
    assert "worker restarting disabled" in run.out
    found = statuses(project, "c")
    assert len(found) == 12
    broken = Counter(found.values())["broken"]
    assert broken >= 2
    assert f"{broken} of 12 planned nodes were not reported" in run.out
    project.run("--vla-run=c", "-n2", "--max-worker-restart=0", SOLVED, code=0)
    assert set(statuses(project, "c").values()) == {"passed"}


@pytest.mark.parametrize("option, failures", [("-x", 1), ("--maxfail=2", 2)])
def test_a_run_stops_at_its_first_failures(tmp_path: Path, option: str, failures: int) -> None:
    project = ToyProject(tmp_path, environment={"TOY_STEP_SECONDS": "0.01"})
    # The last of an episode's three levels fails, and each worker stops by itself as well.
    run = project.run("--vla-run=x", "-n2", "--vla-axis=base", option, code=2)
    assert f"stopping after {failures} failures" in run.out
    assert "planned nodes were not reported" in run.out


def test_workers_that_collect_different_nodes_are_refused(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    (project.path / "conftest.py").write_text(
        "import os\n"
        "def pytest_collection_modifyitems(items):\n"
        "    if os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':\n"
        "        items.reverse()\n"
    )
    run = project.run("--vla-run=d", "-n2", SOLVED, code=1)
    assert "Different tests were collected between gw" in run.out
    assert project.rows("d") == []


def test_another_way_to_distribute_is_the_users_own(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    run = project.run("--vla-run=w", "-n2", "-v", "--dist=worksteal", "--vla-task=left", SOLVED)
    assert run.code == 0
    assert "scheduling tests via WorkStealingScheduling" in run.out


def test_a_run_without_a_policy_keeps_xdists_scheduler(tmp_path: Path) -> None:
    project = ToyProject(tmp_path)
    run = project.run("-n2", "-v", policy=None, code=0)
    assert "scheduling tests via LoadScheduling" in run.out
