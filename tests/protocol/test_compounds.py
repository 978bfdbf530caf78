"""Several axes at once, presets, the nominal pass and the replicate: what they add to a plan."""

from __future__ import annotations

import pytest

from pytest_vla_shift.protocol.conditions import compound_name
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import Cut, CutCheck, Extras, cost, plan
from pytest_vla_shift.protocol.suite import Suite, parse_suite
from tests.protocol.test_suite import SUITE

PRESETS = """
[axes.pose]
shift = "base"
presets = [
    { x = 1.0, y = 0.0, yaw = 0.5 },
    { x = 0.0, y = 1.0, yaw = -0.5 },
    { x = 0.6, y = 0.8, yaw = 0.0 },
]
L1 = { sigma_xy_m = 0.1, sigma_yaw_deg = 1.0 }
L2 = { sigma_xy_m = 0.2, sigma_yaw_deg = 2.0 }
"""
NONE, ALL = Extras(), Cut()
TEXT = SUITE.replace("null = true", "null = false\nsimultaneous = true") + PRESETS


@pytest.fixture
def suite() -> Suite:
    return parse_suite(TEXT, "s.toml")


def names(suite: Suite, extras: Extras = NONE, cut: Cut = ALL) -> list[str]:
    """Conditions of the first episode, in order."""
    cells = plan(suite, cut, extras)
    first = cells[0].episode
    return [
        c.condition.name + f" r{c.replicate}" * bool(c.replicate)
        for c in cells
        if c.episode == first
    ]


def test_all_axes_at_once_have_the_levels_that_all_of_them_have(suite: Suite) -> None:
    found = {c.name: c for c in suite.conditions() if c.is_compound}
    assert list(found) == ["simultaneous-L1", "simultaneous-L2"]  # camera alone has an L3
    compound = found["simultaneous-L2"]
    assert compound.axes == ("blur", "camera", "pose")
    assert (compound.axis, compound.level, compound.number) == ("simultaneous", "L2", 2)
    singles = {c.name: c for c in suite.conditions() if len(c.parts) == 1}
    for part in compound.parts:
        assert singles[f"{part.axis.name}-L2"].parts == (part,)


def test_a_suite_without_it_has_no_compound() -> None:
    suite = parse_suite(TEXT.replace("simultaneous = true", "simultaneous = false"), "s.toml")
    assert not any(c.is_compound for c in suite.conditions())
    assert suite.protocol_digest != parse_suite(TEXT, "s.toml").protocol_digest


def test_any_subset_can_be_asked_for_in_any_order(suite: Suite) -> None:
    extras = Extras(compounds=(("pose", "camera"), ("camera", "pose"), ("blur", "pose")))
    assert [c.name for c in extras.conditions(suite)] == [
        *("blur+pose-L1", "blur+pose-L2"),
        *("camera+pose-L1", "camera+pose-L2"),
    ]
    assert names(suite, extras)[-4:] == [c.name for c in extras.conditions(suite)]


def test_what_the_suite_has_already_is_not_run_twice(suite: Suite) -> None:
    for all_of_them in (("simultaneous",), ("blur", "camera", "pose")):
        assert Extras(compounds=(all_of_them,)).conditions(suite) == ()
    assert compound_name(["b", "a"], ["a", "b"]) == "simultaneous"
    assert compound_name(["b", "a"], ["a", "b", "c"]) == "a+b"


@pytest.mark.parametrize(
    "compound, message",
    [
        (("camera", "wind"), "suite 'small' has no axis 'wind'; it has blur, camera, pose"),
        (("camera",), "'camera' is not two axes or more"),
        (("camera", "camera"), "'camera+camera' is not two axes or more"),
    ],
)
def test_a_compound_that_cannot_be_is_refused(
    suite: Suite, compound: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=r"--vla-compound: ") as raised:
        Extras(compounds=(compound,)).conditions(suite)
    assert message in str(raised.value)


def test_a_compound_is_cut_by_level_and_kept_whatever_axes_are_kept(suite: Suite) -> None:
    extras = Extras(compounds=(("camera", "pose"),))
    assert names(suite, extras, Cut(axes=("camera",), levels=("L2",))) == [
        "camera-L2",
        "camera+pose-L2",
    ]
    assert names(suite, cut=Cut(axes=("simultaneous",))) == ["simultaneous-L1", "simultaneous-L2"]


def test_the_nominal_pass_is_over_what_the_suite_says_and_shares_the_clean_rollouts() -> None:
    text = TEXT.replace('episodes = "0:3"', 'episodes = [1, 4, 6]\nnominal = "0:8"')
    suite = parse_suite(text, "s.toml")
    without, cells = plan(suite), plan(suite, extras=Extras(nominal=True))
    nominal = [c for c in cells if c.condition.name == "nominal"]
    assert [c for c in cells if c not in nominal] == without
    assert [c.id for c in nominal[:2]] == ["toy-left-e00-nominal", "toy-left-e01-nominal"]
    assert [c.episode.index for c in nominal] == [*range(8), *range(8)]
    before, after = cost(without), cost(cells)
    assert (before.clean, after.clean) == (6, 16)
    assert after.rollouts == before.rollouts + 10
    assert after.nodes == before.nodes + 16


def test_a_catalogued_task_is_nominal_on_all_of_its_initial_states() -> None:
    text = TEXT.replace('"toy"', '"libero_goal"').replace('["left", "right"]', '"all"')
    suite = parse_suite(text.replace("horizon = 60\n", ""), "s.toml")
    cells = plan(suite, Cut(axes=("blur",), levels=("L1",)), Extras(nominal=True))
    assert sum(c.condition.name == "nominal" for c in cells) == 500


def test_the_nominal_pass_is_cut_by_tasks_and_episodes_alone() -> None:
    text = TEXT.replace('episodes = "0:3"', 'episodes = [1, 4, 6]\nnominal = "0:8"')
    suite = parse_suite(text, "s.toml")
    cut = Cut(tasks=("left",), episodes=(4, 7), configurations=(0,), axes=("blur",), levels=("L1",))
    assert [c.id for c in plan(suite, cut, Extras(nominal=True))] == [
        "toy-left-e04-nominal",
        "toy-left-e07-nominal",
    ]


def test_a_replicate_doubles_the_compared_cells_and_needs_clean_rollouts_of_its_own(
    suite: Suite,
) -> None:
    once, twice = plan(suite), plan(suite, extras=Extras(replicate=True, nominal=True))
    compared = [c for c in twice if c.condition.name != "nominal"]
    assert len(compared) == 2 * len(once)
    assert [c for c in compared if not c.replicate] == once
    assert {c.id for c in compared if c.replicate} == {f"{c.id}-r1" for c in once}
    assert cost(twice).clean == 2 * cost(once).clean
    assert len({c.id for c in twice}) == len(twice)


def test_a_configuration_is_the_place_among_the_tasks_episodes_in_the_suite() -> None:
    suite = parse_suite(TEXT.replace('"0:3"', "[9, 2, 5]"), "s.toml")
    places = {i: suite.configuration(Episode("toy", "left", i)) for i in (2, 5, 9, 3)}
    assert places == {2: 0, 5: 1, 9: 2, 3: None}
    cells = plan(suite, Cut(configurations=(1, 2)))
    assert {c.episode.index for c in cells} == {5, 9}


def test_a_configuration_that_no_task_has_is_named(suite: Suite) -> None:
    check = CutCheck(Cut(configurations=(3,)))
    check.see(suite)
    problem = check.problem()
    assert problem is not None
    assert problem.startswith(
        "--vla-configuration: no suite of this run has '3'; there are 0, 1, 2"
    )


@pytest.mark.parametrize(
    "before, after, message",
    [
        ('"0:3"', '"0:4"', "axis 'pose' has 3 presets, but a task has 4 episodes"),
        ("{ x = 0.6, y = 0.8, yaw = 0.0 }", "{ x = 0.6 }", "the presets differ in their names"),
        ("[axes.blur]", "[axes.simultaneous]", "axis name 'simultaneous' is not allowed"),
        ("[axes.blur]", "[axes.nominal]", "axis name 'nominal' is not allowed"),
        ("presets = [", 'presets = "nowhere"\nold = [', "unknown presets 'nowhere'"),
        ('"0:3"', '"0:3"\nnominal = "x"', "nominal: 'x' is not like"),
        ("simultaneous = true", "simultaneous = 1", "'simultaneous' must be true or false"),
    ],
)
def test_what_cannot_be_is_refused(before: str, after: str, message: str) -> None:
    assert TEXT.count(before) == 1
    with pytest.raises(UsageError, match=r"s\.toml") as raised:
        parse_suite(TEXT.replace(before, after), "s.toml")
    assert message in str(raised.value)


def test_all_at_once_needs_several_axes_with_a_level_in_common() -> None:
    head = TEXT[: TEXT.index("[axes]")]
    one = head + "[axes]\n[axes.blur]\nshift = 'gaussian_blur'\nL1 = { sigma_px = 1 }\n"
    with pytest.raises(UsageError, match="'simultaneous' needs at least two axes"):
        parse_suite(one, "s.toml")
    apart = one + "[axes.soft]\nshift = 'gaussian_blur'\nL2 = { sigma_px = 1 }\n"
    with pytest.raises(UsageError, match="the axes share no level"):
        parse_suite(apart, "s.toml")


def test_scales_are_shared_by_all_levels_of_an_axis() -> None:
    text = TEXT.replace(
        "[axes.pose]",
        "[axes.tilt]\nshift='s'\nsigma={a_deg=2, b_m=0.1}\nL1={radius=2}\n[axes.pose]",
    )
    suite = parse_suite(text, "s.toml")
    (part,) = suite.condition("tilt-L1").parts
    assert part.level.parameters == {"radius": 2.0, "sigma_a_deg": 2.0, "sigma_b_m": 0.1}
    with pytest.raises(UsageError, match="'sigma_a_deg' is given by sigma as well"):
        parse_suite(text.replace("{radius=2}", "{radius=2, sigma_a_deg=1}"), "s.toml")
