"""``--vla-shard``: parts that are whole episodes, together everything, alike on every machine."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.protocol.plan import Cut, Extras, plan
from pytest_vla_shift.protocol.suite import parse_suite
from pytest_vla_shift.rollouts.manifest import kept_plan_path, read_plan
from pytest_vla_shift.shards import EpisodeGroup, divide, weigh
from tests.plugin.inprocess import run
from tests.plugin.test_compounds import TEXT
from tests.plugin.toy_project import EXPERT, SUITE, ToyProject

# The division itself

GROUPS = st.dictionaries(
    st.builds(
        EpisodeGroup,
        st.just("suite"),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["left", "right", "up"]),
        st.integers(0, 20),
    ),
    st.integers(1, 40),
    max_size=60,
)


@settings(deadline=None)
@given(GROUPS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_every_group_is_in_one_shard_and_none_is_much_heavier(weights, shards, random) -> None:  # type: ignore[no-untyped-def]
    found = divide(weights, shards)
    assert found.keys() == weights.keys()
    assert set(found.values()) <= set(range(1, shards + 1))
    load = Counter(dict.fromkeys(range(1, shards + 1), 0))
    for group, shard in found.items():
        load[shard] += weights[group]
    assert max(load.values()) - min(load.values()) <= max(weights.values(), default=0)
    shuffled = list(weights.items())
    random.shuffle(shuffled)
    assert divide(dict(shuffled), shards) == found


def equal_groups(tasks: int, episodes: int) -> dict[EpisodeGroup, int]:
    return {
        EpisodeGroup("suite", "toy", f"task{task}", episode): 7
        for task in range(tasks)
        for episode in range(episodes)
    }


def test_groups_of_one_weight_are_dealt_out_evenly() -> None:
    counts = Counter(divide(equal_groups(10, 5), 4).values())
    assert sorted(counts.values()) == [12, 12, 13, 13]


def test_no_shard_gets_the_same_episode_of_every_task() -> None:
    # By index, shard k of 5 would have episode k of all ten tasks, and nothing else.
    found = divide(equal_groups(10, 5), 5)
    for shard in range(1, 6):
        episodes = Counter(group.episode for group, at in found.items() if at == shard)
        assert len(episodes) >= 3
        assert max(episodes.values()) <= 5


def test_the_division_is_the_same_everywhere_and_always() -> None:
    # Frozen: with another division, shards that were run with different releases would overlap.
    found = divide(equal_groups(2, 3), 3)
    assert {(group.task, group.episode): shard for group, shard in found.items()} == {
        ("task0", 0): 1,
        ("task0", 1): 2,
        ("task0", 2): 1,
        ("task1", 0): 3,
        ("task1", 1): 3,
        ("task1", 2): 2,
    }


def test_a_group_weighs_its_rollouts_with_one_clean_one_each_replicate() -> None:
    suite = parse_suite(TEXT, "toy")
    cells = plan(suite, Cut(levels=("L1",)), Extras(nominal=True, replicate=True))
    weights = {(g.task, g.episode): n for g, n in weigh([*cells, *cells[:5]]).items()}
    # base, blur and both at once, twice, with two clean ones; or the nominal one alone.
    assert weights["reach_left", 1] == weights["reach_right", 4] == 8
    assert weights["reach_left", 0] == 1
    assert len(weights) == 12


# In pytest

Collect = Callable[..., list[str]]


@pytest.fixture
def collected(pytester: pytest.Pytester) -> Collect:
    """Collect in this process; the nodes that would run, in order."""
    ToyProject(pytester.path, suite=TEXT)
    (pytester.path / "test_plain.py").write_text("def test_plain(): pass\n")

    def collect(*args: str, code: int = 0) -> list[str]:
        result = run(pytester, f"--vla-policy={EXPERT}", "--collect-only", "-q", *args)
        assert result.ret == code, result.stdout.str()
        return re.findall(r"^test_\w+\.py::.*$", result.stdout.str(), re.M)

    return collect


@pytest.mark.parametrize("selection", [[], ["-k", "base or nominal or plain"]])
def test_shards_are_disjoint_whole_episodes_and_together_everything(
    collected: Collect, selection: list[str]
) -> None:
    options = ["--vla-nominal", "--vla-replicate", *selection]
    whole = collected(*options)
    parts = [collected(f"--vla-shard={i}/3", *options) for i in (1, 2, 3)]
    assert sorted(node for part in parts for node in part) == sorted(whole)
    for part in parts:
        assert part == [node for node in whole if node in part], "pytest's order is kept"
    episodes = [
        {re.sub(r".*\[(.*-e\d\d)-.*", r"\1", node) for node in part if "[" in node}
        for part in parts
    ]
    assert sum(map(len, episodes)) == 12
    assert len(set.union(*episodes)) == 12


def test_nodes_that_are_no_cells_are_of_the_first_shard(collected: Collect) -> None:
    assert "test_plain.py::test_plain" in collected("--vla-shard=1/2")
    assert "test_plain.py::test_plain" not in collected("--vla-shard=2/2")


def test_a_listing_is_of_the_shard(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    for shard in (1, 2, 3):
        result = run(pytester, "--vla-list", f"--vla-shard={shard}/3")
        assert result.ret == 0
        result.stdout.fnmatch_lines(["  10 nodes, 12 rollouts: 10 shifted or null, 2 clean"])


def test_a_shard_runs_its_part_in_a_folder_of_its_own_and_plans_the_whole(
    project: ToyProject,
) -> None:
    ended = project.run("--vla-run=r", "--vla-shard=2/3", "-k", "not L3", code=1)
    assert "collected 30 items / 22 deselected / 8 selected" in ended.out
    assert "note: shard 2 of 3: 8 of the 24 selected cells of toy_suite;" in ended.out
    assert "note: 24 of the 30 cells of toy_suite were selected;" in ended.out
    assert not project.directory("r").exists()
    assert len(project.rows("r-shard2of3")) == 10

    directory = project.directory("r-shard2of3")
    kept = read_plan(kept_plan_path(directory))
    assert kept is not None
    assert (kept.shard, len(kept.nodes), len(kept.others)) == ((2, 3), 8, 16)
    cells = [node.cell for node in kept.selection]
    assert len(cells) == len(set(cells)) == 24
    assert cells == sorted(cells, key=lambda cell: cell[: cell.index("-e") + 4])
    manifest = json.loads((directory / "run.json").read_text())
    assert (manifest["planned"], manifest["shard"], manifest["in_other_shards"]) == (8, [2, 3], 16)


def test_a_shard_under_xdist_runs_the_same_part(project: ToyProject) -> None:
    project.run("--vla-run=one", "--vla-shard=1/2", "--vla-axis=blur,null")
    project.run("--vla-run=two", "--vla-shard=1/2", "--vla-axis=blur,null", "-n2")
    assert project.outcomes("one-shard1of2") == project.outcomes("two-shard1of2")
    assert len(project.rows("one-shard1of2")) == 9


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_shard_that_no_episode_falls_into_says_so_and_is_fine(
    project: ToyProject, workers: list[str]
) -> None:
    ended = project.run("--vla-run=r", "--vla-shard=7/7", *workers, code=0)
    assert "shard 7 of 7: no episode of this selection is in it; 30 nodes are in other" in ended.out
    kept = read_plan(kept_plan_path(project.directory("r-shard7of7")))
    assert kept is not None
    assert (kept.nodes, len(kept.selection)) == ((), 30)


def test_ordinary_tests_alone_are_of_the_first_shard_and_no_trouble_in_others(
    pytester: pytest.Pytester,
) -> None:
    ToyProject(pytester.path)
    (pytester.path / "test_plain.py").write_text("def test_plain(): assert False\n")
    policy = f"--vla-policy={EXPERT}"
    assert run(pytester, policy, "test_plain.py", "--vla-shard=1/2").ret == 1
    result = run(pytester, policy, "test_plain.py", "--vla-shard=2/2")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["shard 2 of 2: no episode of this selection is in it; 1 nodes *"])


def test_a_selection_of_nothing_is_still_no_test_at_all(pytester: pytest.Pytester) -> None:
    ToyProject(pytester.path)
    nothing = ["--vla-shard=1/2", "-k", "nothing_like_this"]
    assert run(pytester, f"--vla-policy={EXPERT}", *nothing).ret == 5


def test_what_one_shard_refuses_all_refuse(project: ToyProject) -> None:
    (project.path / "picky.py").write_text(
        "from tests.fakes.toy_policies import Expert\n"
        "class Picky(Expert):\n"
        "    def unsupported(self, task_suite, task):\n"
        "        return 'no right hand' if task == 'reach_right' else None\n"
    )
    weights = weigh(plan(parse_suite(SUITE, "toy")))
    shards = divide(weights, 6)
    (left, *_) = (shards[group] for group in weights if group.task == "reach_left")
    assert left not in (shards[group] for group in weights if group.task == "reach_right")
    ended = project.run(f"--vla-shard={left}/6", policy="picky:Picky", code=4)
    assert "cannot do toy/reach_right: no right hand" in ended.out
