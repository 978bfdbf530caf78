"""The shipped suite is the published protocol: its counts, its configurations, its scales."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.plan import Extras, cost, plan
from pytest_vla_shift.protocol.suite import Suite, load_suite, shipped_text
from scripts.libero_ctrl_suite import suite_text

PUBLISHED = tomllib.loads(
    (Path(__file__).with_name("published_libero_ctrl.toml")).read_text("utf-8")
)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("libero_ctrl")


def test_the_file_is_what_its_script_writes() -> None:
    assert shipped_text("libero_ctrl") == suite_text()


def test_it_is_8400_cells_and_with_the_nominal_pass_10400_rollouts(suite: Suite) -> None:
    published = PUBLISHED["protocol"]
    cells = plan(suite)
    assert len(cells) == published["perturbed_rollouts"] == 8400
    alone, nominal = cost(cells), cost(plan(suite, extras=Extras(nominal=True)))
    assert (alone.shifted, alone.clean) == (8400, 400)
    assert (nominal.shifted, nominal.clean) == (8400, published["nominal_rollouts"])
    assert nominal.rollouts == 10_400


def test_every_task_has_ten_configurations_and_every_one_all_conditions(suite: Suite) -> None:
    published = PUBLISHED["protocol"]
    assert len(suite.tasks) == published["tasks"]
    for task in suite.tasks:
        states = suite.episodes[task]
        assert len(states) == published["configurations_per_task"]
        assert max(states) < published["initial_states_per_task"]
    by_episode = Counter(cell.episode for cell in plan(suite))
    assert len(by_episode) == 400
    assert set(by_episode.values()) == {7 * published["severities"]}


def test_horizons_are_the_published_ones(suite: Suite) -> None:
    assert dict(suite.horizons) == PUBLISHED["horizon"]
    assert all(catalog.find(name) is not None for name in suite.horizons)


def test_severities_are_the_published_radii_and_scales(suite: Suite) -> None:
    radii = PUBLISHED["severity_radius"]
    per_unit = {"_cm": ("_m", 0.01)}
    for axis in suite.axes:
        if axis.name == "language":
            assert [dict(level.parameters) for level in axis.levels] == [
                {"depth": 1.0},
                {"depth": 2.0},
                {"depth": 3.0},
            ]
            continue
        for level in axis.levels:
            assert level.parameters["radius"] == radii[level.name]
        published = sorted(
            value * per_unit[name[-3:]][1] if name.endswith("_cm") else value
            for name, value in PUBLISHED["sigma"][axis.name].items()
        )
        found = sorted(v for k, v in axis.levels[0].parameters.items() if k != "radius")
        assert found == pytest.approx(published)


def test_simultaneous_is_exactly_the_six_axes_at_each_level(suite: Suite) -> None:
    compounds = [c for c in suite.conditions() if c.is_compound]
    assert [c.name for c in compounds] == [f"simultaneous-L{n}" for n in (1, 2, 3)]
    for condition in compounds:
        assert condition.axes == (
            *("actuation", "camera", "language", "lighting", "robot_pose", "sensor"),
        )
        for part in condition.parts:
            (single,) = (
                c for c in suite.conditions() if c.name == f"{part.axis.name}-{part.level.name}"
            )
            assert single.parts == (part,)
