"""What a rollout is: its draw, its seed, and a key that sees everything that could matter."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import differing_fields, digest
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.rollouts import stages
from pytest_vla_shift.rollouts.request import RolloutRequest, check_axes, request
from pytest_vla_shift.shifts import apply
from pytest_vla_shift.simulators.protocol import SimulatorInfo
from tests.fakes.toy_policies import Expert, Flaky
from tests.fakes.toy_simulator import INFO
from tests.rollouts.toy import requested, toy_suite

SPEC = PolicySpec("p", "1", ("front",), chunk=8, replan=4, seeded=True)
EPISODE = Episode("toy", "reach_left", 1)


def made(
    suite: Suite,
    condition: str = "base-L2",
    spec: PolicySpec = SPEC,
    info: SimulatorInfo = INFO,
    args: dict[str, str] | None = None,
    episode: Episode = EPISODE,
) -> RolloutRequest:
    return request(suite, episode, suite.condition(condition), info, spec, args or {})


def test_the_same_arguments_make_the_same_request() -> None:
    assert made(toy_suite()) == made(toy_suite())


def test_one_draw_serves_all_levels_of_an_axis() -> None:
    suite = toy_suite()
    draws = [made(suite, f"base-L{level}").interventions[0].draw for level in (1, 2, 3)]
    assert draws[0] == draws[1] == draws[2]
    assert draws[0]
    magnitudes = [made(suite, f"base-L{n}").interventions[0].parameters for n in (1, 2, 3)]
    assert [m["sigma_xy_m"] for m in magnitudes] == [0.001, 0.2, 1.0]


def test_draws_differ_between_episodes_tasks_axes_and_draw_seeds() -> None:
    suite = toy_suite(
        ("[axes.blur]", '[axes.base2]\nshift = "base"\nL1 = { sigma_xy_m = 0.1,'
         " sigma_yaw_deg = 0.0 }\n[axes.blur]")
    )  # fmt: skip
    requests = [
        *(made(suite, episode=Episode("toy", "reach_left", index)) for index in range(3)),
        made(suite, episode=Episode("toy", "reach_right", 1)),
        made(suite, "base2-L1"),
        made(toy_suite(("draw_seed = 0", "draw_seed = 1"))),
    ]
    draws = {tuple(sorted(r.interventions[0].draw.items())) for r in requests}
    assert len(draws) == len(requests)


def test_a_draw_does_not_depend_on_what_was_drawn_before() -> None:
    suite = toy_suite()
    first = made(suite).interventions[0].draw
    np.random.seed(0)
    for index in range(2, 100):  # beyond what is kept
        made(suite, episode=Episode("toy", "reach_left", index))
    assert made(suite).interventions[0].draw == first


def test_the_identity_has_all_that_could_change_a_number() -> None:
    found = made(toy_suite(), args={"size": "small"})
    assert found.identity == {
        "schema": 2,
        "simulator": {
            "name": INFO.name,
            "versions": {"toy": "1"},
            "recipe": 1,
            "renderer": "none",
            "env_seed": 0,
        },
        "suite": "toy_suite",
        "episode": ["toy", "reach_left", 1],
        "condition": {
            "name": "base-L2",
            "interventions": [
                {
                    "axis": "base",
                    "shift": "base",
                    "level": "L2",
                    "parameters": {"sigma_xy_m": 0.2, "sigma_yaw_deg": 0.0},
                    "draw": dict(found.interventions[0].draw),
                    "seed": found.interventions[0].seed,
                    "revision": 1,
                    "versions": {},
                }
            ],
        },
        "horizon": 60,
        "settle": {"steps": 10, "speed_m_s": 0.05},
        "success_rule": "simulator's own check, first true step ends the rollout",
        "stages": stages.REVISION,
        "observation": {
            "cameras": ["front"],
            "size": [16, 16],
            "origin": "upper left, upright",
            "order": "RGB",
            "dtype": "uint8",
            "privileged": False,
        },
        "policy": {
            "name": "p",
            "revision": "1",
            "args": {"size": "small"},
            "chunk": 8,
            "replan": 4,
            "action_dim": 7,
            "seeded": True,
            "language": True,
        },
        "policy_seed": found.policy_seed,
        "replicate": 0,
    }
    assert found.key == digest(found.identity)


SUITES = {
    "env_seed = 0": "env_seed = 1",
    "policy_seed = 0": "policy_seed = 1",
    "draw_seed = 0": "draw_seed = 1",
    "settle_steps = 10": "settle_steps = 11",
    "settle_speed_m_s = 0.05": "settle_speed_m_s = 0.06",
    "height = 16": "height = 17",
    "width = 16": "width = 17",
    "horizon = 60": "horizon = 61",
    'name = "toy_suite"': 'name = "other"',
    "sigma_xy_m = 0.2": "sigma_xy_m = 0.21",
}


@pytest.mark.parametrize("before", SUITES)
def test_another_suite_is_another_key(before: str) -> None:
    assert made(toy_suite((before, SUITES[before]))).key != made(toy_suite()).key


@pytest.mark.parametrize(
    "spec, field",
    [
        (replace(SPEC, name="q"), "policy.name"),
        (replace(SPEC, revision="2"), "policy.revision"),
        (replace(SPEC, chunk=9), "policy.chunk"),
        (replace(SPEC, replan=3), "policy.replan"),
        (replace(SPEC, action_dim=8), "policy.action_dim"),
        (replace(SPEC, cameras=("front", "wrist")), "observation.cameras"),
        (replace(SPEC, cameras=("wrist",)), "observation.cameras"),
        (replace(SPEC, privileged=True), "observation.privileged"),
        (replace(SPEC, seeded=False), "policy.seeded"),
        (replace(SPEC, checkpoint="night-7"), "policy.checkpoint"),
    ],
)
def test_another_policy_is_another_key_that_names_the_field(spec: PolicySpec, field: str) -> None:
    one, other = made(toy_suite()), made(toy_suite(), spec=spec)
    assert one.key != other.key
    assert differing_fields(one.identity, other.identity) == [field]


def test_an_argument_that_says_where_something_lies_is_in_no_key() -> None:
    spec = replace(SPEC, located=("profile",))
    suite = toy_suite()

    def key(**args: str) -> str:
        return made(suite, spec=spec, args=args).key

    assert key(profile="here/mine.toml") == key(profile="there/mine.toml") == key()
    assert key(chunk="8") != key()


@pytest.mark.parametrize(
    "seeded, seedable, note",
    [(True, True, "shared"), (False, True, "inert"), (False, False, "not supported")],
)
def test_what_a_seed_does_is_noted(seeded: bool, seedable: bool, note: str) -> None:
    spec = replace(SPEC, seeded=seeded, seedable=seedable)
    assert made(toy_suite(), spec=spec).seed_note == note


@pytest.mark.parametrize(
    "info, field",
    [
        (replace(INFO, name="other"), "simulator.name"),
        (replace(INFO, versions={"toy": "2"}), "simulator.versions.toy"),
        (replace(INFO, versions={"toy": "1", "mujoco": "3"}), "simulator.versions.mujoco"),
        (replace(INFO, recipe=2), "simulator.recipe"),
        (replace(INFO, renderer="egl"), "simulator.renderer"),
    ],
)
def test_another_simulator_is_another_key_that_names_the_field(
    info: SimulatorInfo, field: str
) -> None:
    one, other = made(toy_suite()), made(toy_suite(), info=info)
    assert one.key != other.key
    assert differing_fields(one.identity, other.identity) == [field]


def test_what_encodes_or_filters_a_picture_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def bound() -> object:
        condition = made(toy_suite(), "blur-L1").identity["condition"]
        assert isinstance(condition, dict)
        assert isinstance(condition["interventions"], list)
        return condition["interventions"][0]

    before = bound()
    assert isinstance(before, dict)
    assert before["versions"] == {"scipy": version("scipy")}
    monkeypatch.setattr("pytest_vla_shift.shifts.apply.version", lambda _: "99")
    apply.shift_versions.cache_clear()
    after = bound()
    apply.shift_versions.cache_clear()
    assert after == {**before, "versions": {"scipy": "99"}}


def test_policy_arguments_are_in_the_key() -> None:
    keys = {made(toy_suite(), args=args).key for args in ({}, {"a": "1"}, {"a": "2"}, {"b": "1"})}
    assert len(keys) == 4


def test_what_is_only_for_people_is_not_in_the_key() -> None:
    assert made(toy_suite(('title = "Toy"', 'title = "Other"'))).key == made(toy_suite()).key


def test_every_cell_has_a_key_of_its_own_and_shares_the_episodes_clean_one() -> None:
    suite = toy_suite()
    cells = plan(suite)
    keys = [request(suite, c.episode, c.condition, INFO, SPEC, {}).key for c in cells]
    clean = [made(suite, "clean", episode=episode).key for episode in suite.all_episodes()]
    assert len({*keys, *clean}) == len(cells) + 6


@pytest.mark.parametrize(
    "seeded, notes",
    [
        (True, {"clean": "shared", "base-L1": "shared", "null": "other"}),
        (False, {"clean": "inert", "base-L1": "inert", "null": "inert"}),
    ],
)
def test_both_arms_share_a_seed_but_for_the_null_arm_of_a_seeded_policy(
    seeded: bool, notes: dict[str, str]
) -> None:
    policy = Flaky() if seeded else Expert()
    requests = {name: requested(toy_suite(), name, policy) for name in notes}
    assert {name: found.seed_note for name, found in requests.items()} == notes
    clean, null = requests["clean"].policy_seed, requests["null"].policy_seed
    assert requests["base-L1"].policy_seed == clean
    assert (null != clean) == seeded
    assert requested(toy_suite(), "clean", policy, index=1).policy_seed != clean


def test_zero_magnitude_intervenes_nowhere_and_is_not_the_clean_rollout() -> None:
    suite = toy_suite(("sigma_xy_m = 0.2", "sigma_xy_m = 0.0"))
    shifted, clean = requested(suite, "base-L2"), requested(suite, "clean")
    assert shifted.interventions == clean.interventions == ()
    assert differing_fields(clean.identity, shifted.identity) == ["condition.name"]
    assert shifted.key != clean.key


COMPOUND = (
    ("null = true", "null = true\nsimultaneous = true"),
    ("L1 = { sigma_px = 1.0 }", "L1 = { sigma_px = 1.0 }\nL2 = { sigma_px = 2.0 }"),
)
PRESET = (
    "L1 = { sigma_xy_m = 0.001, sigma_yaw_deg = 0.0 }",
    "presets = [{ x = 1.0, y = 0.0, yaw = 0.0 }, { x = 0.0, y = 1.0, yaw = 0.0 },"
    " { x = 0.6, y = 0.8, yaw = 0.0 }]\nL1 = { sigma_xy_m = 0.001, sigma_yaw_deg = 0.0 }",
)


def test_a_compound_is_exactly_the_interventions_of_its_single_axes() -> None:
    suite = toy_suite(*COMPOUND)
    for index in range(3):
        episode = Episode("toy", "reach_right", index)
        both = made(suite, "simultaneous-L2", episode=episode)
        singles = [made(suite, f"{axis}-L2", episode=episode) for axis in ("base", "blur")]
        assert both.interventions == tuple(s.interventions[0] for s in singles)
        assert {s.policy_seed for s in singles} == {both.policy_seed}


def test_an_axis_that_changes_nothing_is_left_out_of_a_compound_and_named() -> None:
    suite = toy_suite(*COMPOUND, ("sigma_px = 2.0", "sigma_px = 0.0"))
    both = made(suite, "simultaneous-L2")
    assert [i.axis for i in both.interventions] == ["base"]
    assert both.identities == {"blur": "identity: nothing would change under this draw"}


def test_presets_go_by_the_place_of_the_initial_state_at_every_level() -> None:
    suite = toy_suite(PRESET, ('"0:3"', "[4, 9, 13]"))
    for place, index in enumerate((4, 9, 13)):
        for task in ("reach_left", "reach_right"):
            episode = Episode("toy", task, index)
            draws = [
                made(suite, f"base-L{n}", episode=episode).interventions[0].draw for n in (1, 3)
            ]
            assert draws == [suite.axes[0].presets[place]] * 2


def test_a_state_that_is_no_configuration_has_no_preset() -> None:
    with pytest.raises(UsageError, match="initial state 7 of reach_left is no configuration"):
        made(toy_suite(PRESET), episode=Episode("toy", "reach_left", 7))


def test_randomness_within_a_rollout_is_the_episodes_and_the_axiss() -> None:
    suite = toy_suite(*COMPOUND)
    seeds = {
        made(suite, f"{axis}-L2", episode=Episode("toy", task, index)).interventions[0].seed
        for axis in ("base", "blur")
        for task in ("reach_left", "reach_right")
        for index in range(3)
    }
    assert len(seeds) == 12
    assert made(suite, "base-L1").interventions[0].seed == made(suite).interventions[0].seed


@pytest.mark.parametrize("seeded", [True, False])
def test_a_replicate_is_another_rollout_with_another_seed_in_both_arms(seeded: bool) -> None:
    suite, spec = toy_suite(), replace(SPEC, seeded=seeded)

    def again(condition: str, replicate: int) -> RolloutRequest:
        return request(suite, EPISODE, suite.condition(condition), INFO, spec, {}, replicate)

    first, second = again("base-L2", 0), again("base-L2", 1)
    assert second.interventions == first.interventions
    assert second.key != first.key
    assert second.policy_seed != first.policy_seed
    assert again("clean", 1).policy_seed == second.policy_seed


def test_a_preset_that_does_not_fit_its_shift_is_refused_before_any_rollout() -> None:
    broken = (PRESET[0], PRESET[1].replace("yaw", "roll").replace("sigma_roll", "sigma_yaw"))
    with pytest.raises(UsageError, match=r"axis 'base' L1: .*'yaw' is needed"):
        check_axes(toy_suite(broken))


def test_axes_are_checked_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    check_axes(toy_suite())
    with pytest.raises(UsageError, match=r"toy\.toml: axis 'blur' L1: .*sigma_px"):
        check_axes(toy_suite(("sigma_px = 1.0", "sigma_px = -1.0")))
    with pytest.raises(UsageError, match="unknown shift 'gausian_blur'"):
        check_axes(toy_suite(('"gaussian_blur"', '"gausian_blur"')))


def test_the_keys_of_a_thousand_cells_take_less_than_a_second() -> None:
    # 8 ms a cell, all of it looking the shift up, made 10,000 cells wait for over a minute.
    suite = toy_suite(('"0:3"', '"0:100"'))
    cells = plan(suite)
    assert len(cells) == 1000
    request(suite, cells[-1].episode, cells[-1].condition, INFO, SPEC, {})
    began = time.process_time()
    for cell in cells:
        request(suite, cell.episode, cell.condition, INFO, SPEC, {})
    assert time.process_time() - began < 1.0
