"""Suites are read strictly, frozen levels are the paper's, and the digest sees every field."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import cost, plan
from pytest_vla_shift.protocol.suite import (
    EPISODE_LIMIT,
    load_suite,
    parse_episodes,
    parse_suite,
    shipped,
    shipped_text,
)

SUITE = """
schema = 1
name = "small"
title = "Small"
simulator = "someones.module:factory"
env_seed = 7
policy_seed = 0
draw_seed = 0
settle_steps = 10
settle_speed_m_s = 0.05
null = true

[observation]
cameras = ["front", "wrist"]
height = 16
width = 24

[[tasks]]
suite = "toy"
tasks = ["left", "right"]
episodes = "0:3"
horizon = 60

[axes]
camera = "robocasa_shift"

[axes.blur]
shift = "gaussian_blur"
L1 = { sigma_px = 1.0 }
L2 = { sigma_px = 2 }
"""


def test_the_quickstart_is_78_nodes_and_84_rollouts() -> None:
    suite = load_suite("quickstart")
    counted = cost(plan(suite))
    assert (counted.nodes, counted.shifted, counted.clean, counted.rollouts) == (78, 78, 6, 84)
    assert counted.saved == 72
    assert [axis.name for axis in suite.axes] == ["base", "blur", "camera", "illumination"]
    assert suite.conditions()[0].name == "null"
    assert len(suite.conditions()) == 13


def test_every_shipped_suite_loads_with_the_catalogues_tasks() -> None:
    assert "quickstart" in shipped()
    for name in shipped():
        suite = load_suite(name)
        assert suite.name == name
        for task_suite, task in suite.tasks:
            known = catalog.find(task_suite)
            assert known is not None
            assert task in known.tasks
            assert known.simulator == suite.simulator


def test_quickstart_levels_are_the_frozen_table() -> None:
    table = tomllib.loads(
        (files("pytest_vla_shift.protocol") / "levels" / "robocasa_shift.toml").read_text("utf-8")
    )
    for axis in load_suite("quickstart").axes:
        frozen = table[axis.name]
        assert axis.shift == frozen.pop("shift")
        assert {level.name: dict(level.parameters) for level in axis.levels} == frozen
        assert [level.name for level in axis.levels] == ["L1", "L2", "L3"]


def test_all_stands_for_the_catalogues_tasks_and_its_horizon() -> None:
    text = SUITE.replace('["left", "right"]', '"all"').replace('"toy"', '"libero_goal"')
    suite = parse_suite(text.replace("horizon = 60\n", ""), "s.toml")
    known = catalog.find("libero_goal")
    assert known is not None
    assert {task for _, task in suite.tasks} == set(known.tasks)
    assert suite.tasks == tuple(sorted(suite.tasks))
    assert suite.horizons == {"libero_goal": known.horizon}


def test_the_condition_of_a_name_clean_included() -> None:
    suite = parse_suite(SUITE, "s.toml")
    assert suite.condition("clean").axis is None
    condition = suite.condition("camera-L2")
    (part,) = condition.parts
    assert part.level.parameters == {"theta_max_deg": 6.0}
    assert (condition.axis, condition.level, condition.number) == ("camera", "L2", 2)
    with pytest.raises(KeyError):
        suite.condition("camera-L9")


ANOTHER_PROTOCOL = {
    "name": ('name = "small"', 'name = "other"'),
    "simulator": ("someones.module", "anothers.module"),
    "env_seed": ("env_seed = 7", "env_seed = 0"),
    "policy_seed": ("policy_seed = 0", "policy_seed = 1"),
    "draw_seed": ("draw_seed = 0", "draw_seed = 1"),
    "settle_steps": ("settle_steps = 10", "settle_steps = 5"),
    "settle_speed": ("0.05", "0.04"),
    "null": ("null = true", "null = false"),
    "cameras": ('["front", "wrist"]', '["front"]'),
    "camera order": ('["front", "wrist"]', '["wrist", "front"]'),
    "height": ("height = 16", "height = 17"),
    "width": ("width = 24", "width = 25"),
    "task suite": ('suite = "toy"', 'suite = "toy2"'),
    "tasks": ('["left", "right"]', '["left"]'),
    "episodes": ('"0:3"', '"0:4"'),
    "horizon": ("horizon = 60", "horizon = 61"),
    "an axis": ('camera = "robocasa_shift"', ""),
    "an axis's shift": ('"gaussian_blur"', '"someones.module:Blur"'),
    "a magnitude": ("sigma_px = 2", "sigma_px = 2.5"),
    "a level": ("L2 = { sigma_px = 2 }", ""),
    "an axis's name": ("[axes.blur]", "[axes.soft]"),
}


@pytest.mark.parametrize("field", ANOTHER_PROTOCOL)
def test_the_digest_changes_with_every_field_of_the_protocol(field: str) -> None:
    before, after = ANOTHER_PROTOCOL[field]
    assert SUITE.count(before) == 1
    changed = parse_suite(SUITE.replace(before, after), "s.toml")
    assert changed.protocol_digest != parse_suite(SUITE, "s.toml").protocol_digest


def test_the_digest_leaves_out_what_is_only_for_people_and_how_it_is_spelt() -> None:
    digest = parse_suite(SUITE, "s.toml").protocol_digest
    same = SUITE.replace('title = "Small"', 'title = "Smaller"  # and a comment')
    same = same.replace('["left", "right"]', '["right", "left"]').replace('"0:3"', "[2, 0, 1]")
    same = same.replace("sigma_px = 1.0", "sigma_px = 1")
    assert parse_suite(same, "elsewhere.toml").protocol_digest == digest


WRONG = {
    "no schema": ("schema = 1\n", "", "s.toml: 'schema' is missing"),
    "unknown key": ("null = true", "null = true\nfps = 3", "s.toml: unknown key 'fps'"),
    "name with a dash": ('"small"', '"sm-all"', "s.toml: name 'sm-all' must be"),
    "empty title": ('"Small"', '""', "s.toml: 'title' must be a non-empty string, not ''"),
    "seed as text": ("env_seed = 7", 'env_seed = "7"', "'env_seed' must be an integer"),
    "seed as truth": ("env_seed = 7", "env_seed = true", "'env_seed' must be an integer"),
    "negative seed": ("draw_seed = 0", "draw_seed = -1", "'draw_seed' must be an integer of at"),
    "seed that numpy cannot take": ("env_seed = 7", "env_seed = 4294967296", "'env_seed' must be"),
    "fractional steps": ("settle_steps = 10", "settle_steps = 9.5", "'settle_steps' must be"),
    "infinite speed": ("0.05", "inf", "'settle_speed_m_s' must be a finite number"),
    "null as text": ("null = true", 'null = "yes"', "'null' must be true or false, not 'yes'"),
    "no cameras": ('["front", "wrist"]', "[]", "[observation]: 'cameras' must be a list with"),
    "camera twice": ('["front", "wrist"]', '["a", "a"]', "'cameras' must be a list without"),
    "camera as number": ('["front", "wrist"]', "[1]", "'cameras' must be a list of strings"),
    "no height": ("height = 16\n", "", "[observation]: 'height' is missing"),
    "height 0": ("height = 16", "height = 0", "'height' must be an integer of at least 1"),
    "fov": ("height = 16", "height = 16\nfov = 45", "[observation]: unknown key 'fov'"),
    "observation as number": ("[observation]", "observation = 3\n[x]", "must be a table"),
    "no tasks": ('["left", "right"]', "[]", "[[tasks]] no. 1: 'tasks' must be a list with"),
    "task twice": ('"right"]', '"left"]', "[[tasks]] no. 1: 'tasks' must be a list without"),
    "task with a space": ('"right"]', '"far right"]', "'far right' cannot be part of a node's id"),
    "task with a bracket": ('"right"]', '"a[b"]', "'a[b' cannot be part of a node's id"),
    "task in two blocks": (
        "[axes]",
        '[[tasks]]\nsuite = "toy"\ntasks = ["left"]\nepisodes = "5"\nhorizon = 60\n[axes]',
        "[[tasks]] no. 2: task 'left' is listed twice",
    ),
    "ids alike": (
        "[axes]",
        '[[tasks]]\nsuite = "toy-left"\ntasks = ["a"]\nepisodes = "5"\nhorizon = 60\n'
        '[[tasks]]\nsuite = "toy"\ntasks = ["left-a"]\nepisodes = "5"\nhorizon = 60\n[axes]',
        "[[tasks]] no. 3: 'toy' with 'left-a' and 'toy-left' with 'a' would give",
    ),
    "second horizon": (
        "[axes]",
        '[[tasks]]\nsuite = "toy"\ntasks = ["up"]\nepisodes = "5"\nhorizon = 61\n[axes]',
        "[[tasks]] no. 2: a second horizon for toy",
    ),
    "no horizon": ("horizon = 60\n", "", "[[tasks]] no. 1: 'horizon' is missing"),
    "horizon 0": ("horizon = 60", "horizon = 0", "'horizon' must be an integer of at least 1"),
    "all of an unknown suite": ('["left", "right"]', '"all"', "'toy' is in no catalogue"),
    "episodes": ('"0:3"', '"0-3"', "[[tasks]] no. 1: episodes: '0-3' is not like"),
    "no episodes": ('"0:3"', '"3:3"', "'3:3' names no episode"),
    "unknown key of a task": ("horizon = 60", "horizon = 60\nseed = 3", "unknown key 'seed'"),
    "axis name": ("[axes.blur]", '[axes."my blur"]', "[axes]: axis name 'my blur' is not allowed"),
    "axis called null": ("[axes.blur]", "[axes.null]", "axis name 'null' is not allowed"),
    "unknown table": ('"robocasa_shift"', '"robocasa"', "unknown level table 'robocasa'; there"),
    "axis not in the table": (
        'camera = "robocasa_shift"',
        'lens = "robocasa_shift"',
        "freezes no levels for axis 'lens'; it has base, blur, camera, illumination",
    ),
    "axis as number": ('camera = "robocasa_shift"', "camera = 3", "'camera' must be a table"),
    "level 0": ("L2 = {", "L0 = {", "[axes]: [blur]: 'L0' is not a level; use L1, L2"),
    "no levels": (
        "L1 = { sigma_px = 1.0 }\nL2 = { sigma_px = 2 }",
        "",
        "[axes]: [blur]: no levels",
    ),
    "magnitude is nan": ("sigma_px = 2 ", "sigma_px = nan ", "[L2]: 'sigma_px' must be a finite"),
    "magnitude is true": ("sigma_px = 2 ", "sigma_px = true ", "[L2]: 'sigma_px' must be a number"),
    "level as number": ("L2 = { sigma_px = 2 }", "L2 = 2", "[blur]: 'L2' must be a table, not 2"),
    "one task table": ("[[tasks]]", "[tasks]", "'tasks' must be an array of tables"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_the_file_and_the_field(case: str) -> None:
    before, after, message = WRONG[case]
    assert SUITE.count(before) == 1, before
    with pytest.raises(UsageError) as error:
        parse_suite(SUITE.replace(before, after), "s.toml")
    assert str(error.value).startswith("s.toml: ")
    assert message in str(error.value)


def test_a_suite_without_tasks_is_refused() -> None:
    start, end = SUITE.index("[[tasks]]"), SUITE.index("[axes]")
    with pytest.raises(UsageError, match=r"s\.toml: no \[\[tasks\]\] block"):
        parse_suite(SUITE[:start] + SUITE[end:], "s.toml")


def test_tasks_of_another_simulator_are_refused() -> None:
    text = shipped_text("quickstart").replace('simulator = "libero"', 'simulator = "robocasa"')
    with pytest.raises(UsageError) as error:
        parse_suite(text, "s.toml")
    assert "[[tasks]] no. 1: task suite 'libero_object' belongs to simulator 'libero'" in str(
        error.value
    )
    assert "the suite's simulator is 'robocasa'" in str(error.value)


def test_a_simulator_of_ones_own_may_run_catalogued_tasks() -> None:
    text = shipped_text("quickstart").replace('simulator = "libero"', 'simulator = "my.sim:make"')
    assert parse_suite(text, "s.toml").simulator == "my.sim:make"


def test_a_suite_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"unknown suite 'quikstart'; shipped suites: .*quickstart"
    ):
        load_suite("quikstart")
    with pytest.raises(UsageError, match=r"cannot read suite .*none\.toml"):
        load_suite(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"cannot read suite .*binary\.toml"):
        load_suite(tmp_path / "binary.toml")
    (tmp_path / "good.toml").write_text(SUITE)
    assert load_suite(tmp_path / "good.toml").source == str(tmp_path / "good.toml")


@pytest.mark.parametrize(
    "value, numbers",
    [
        ("0:3", (0, 1, 2)),
        ("3", (3,)),
        ("0,4,7:9", (0, 4, 7, 8)),
        (" 7 : 9 , 0 ", (0, 7, 8)),
        ("2:4,3:5", (2, 3, 4)),
        ([5, 1, 5], (1, 5)),
        (f"{EPISODE_LIMIT}", (EPISODE_LIMIT,)),
    ],
)
def test_episodes_are_sorted_numbers(value: object, numbers: tuple[int, ...]) -> None:
    assert parse_episodes(value, "here") == numbers


@pytest.mark.parametrize(
    "value",
    [
        *("", ",", "1:", ":3", "-1", "1:2:3", "0:3;5", "a", "5:3", "0:99999999999999", "1000000"),
        *([], [-1], [1.0], [True], ["1"], None, 3, {"a": 1}),
    ],
)
def test_other_episodes_are_refused_with_the_place(value: object) -> None:
    with pytest.raises(UsageError, match=r"^here: "):
        parse_episodes(value, "here")


def test_robocasa_shift_is_the_papers_1040_rollouts_with_the_official_horizons() -> None:
    suite = load_suite("robocasa_shift")
    counted = cost(plan(suite))
    assert (counted.nodes, counted.clean, counted.rollouts) == (960, 80, 1040)
    horizons = {task: suite.horizons[task_suite] for task_suite, task in suite.tasks}
    assert horizons == {
        "PreSoakPan": 2400,
        "RinseSinkBasin": 1350,
        "StackBowlsCabinet": 2100,
        "WashLettuce": 1650,
    }
    assert len(suite.conditions()) == 12
