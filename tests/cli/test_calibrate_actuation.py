from __future__ import annotations

import pytest

from pytest_vla_shift.cli import main
from pytest_vla_shift.commands.calibration.actuation import PUBLISHED, Row, measure, shifts, table
from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.observation import Episode
from tests.fakes.toy_policies import Expert
from tests.rollouts.test_rollout_actions import axis, suite_of

ACTUATION = frozen_axes("libero_ctrl")["actuation"]
EPISODE = Episode("libero_spatial", "some_task", 4)


def test_every_preset_is_replayed_at_every_radius_and_each_parameter_alone_at_the_last() -> None:
    found = list(shifts(ACTUATION, 12, EPISODE))
    presets = [shift for what, shift in found if what.startswith("preset ")]
    assert [s.parameters["radius"] for s in presets] == [2.0] * 10 + [4.0] * 10 + [8.0] * 10
    assert {shift.parameters["radius"] for shift in presets} == set(PUBLISHED)
    assert [dict(shift.draw) for shift in presets[:10]] == [dict(p) for p in ACTUATION.presets]
    alone = {what: shift for what, shift in found if not what.startswith("preset ")}
    assert sorted(alone) == ["bias", "gain", "gain-", "lag", "misalignment", "noise"]
    for what, shift in alone.items():
        assert shift.draw[what.rstrip("-")] == (-1.0 if what.endswith("-") else 1.0)
        assert shift.draw["axis_x"] == ACTUATION.presets[2]["axis_x"]
        assert shift.parameters["radius"] == 8.0


def test_the_noise_of_a_preset_is_the_same_at_every_radius_and_another_in_another_episode() -> None:
    seeds: dict[str, set[int]] = {}
    for what, shift in shifts(ACTUATION, 0, EPISODE):
        seeds.setdefault(what, set()).add(shift.seed)
    assert all(len(found) == 1 for found in seeds.values())
    other = dict(shifts(ACTUATION, 0, Episode("libero_spatial", "some_task", 5)))
    assert seeds["noise"] != {other["noise"].seed}


def test_clean_rollouts_are_replayed_and_failed_ones_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOY_FAULTS", "reach_left/1=simerror")
    suite = suite_of(axis("actuation", {"bias": 1.0}))
    # The toy's other axes are no shifts of the actions.
    object.__setattr__(suite, "axes", tuple(a for a in suite.axes if a.name == "actuation"))
    notes: list[str] = []
    rows = list(measure(suite, Expert(), notes.append))
    assert notes == ["left out: reach_left episode 1, clean: simulator: the toy refuses on request"]
    # Five clean rollouts; three presets at one level and six parameters alone.
    assert len(rows) == 5 * (3 + 6)
    assert {row.radius for row in rows} == {8.0}
    bias = [row for row in rows if row.what == "bias"]
    assert [row.mean_mm for row in bias] == [
        row.mean_mm for row in rows if row.what == "preset 0"
    ], "the presets of this suite are bias alone"
    assert all(0 < row.mean_mm < row.peak_mm for row in rows)


def rows(what: str, radius: float, means: list[float]) -> list[Row]:
    return [Row("task", 0, what, radius, 90, mean, 2 * mean) for mean in means]


def test_the_table_shows_medians_and_quartiles_beside_the_published_figure() -> None:
    shown = table(
        [
            *rows("preset 0", 2.0, [4.0, 5.0, 6.0, 7.0, 8.0]),
            *rows("preset 1", 8.0, [30.0]),
            *rows("lag", 8.0, [25.0, 35.0]),
        ]
    )
    assert "1 clean rollouts" in shown[0]
    assert "90 steps" in shown[0]
    two, eight, lag = shown[3:]
    assert two.startswith("all presets, r = 2")
    assert "6.0 (  5.0 to   7.0)    12.0 ( 10.0 to  14.0)    about 10" in two
    assert eight.split()[-2:] == ["about", "40"]
    assert lag.split()[:6] == ["lag", "alone,", "r", "=", "8", "2"]
    assert "30.0" in lag


@pytest.mark.parametrize("option", ["--tasks", "--episodes"])
def test_less_than_one_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "actuation", option, "0"]) == 2
    assert f"{option} 0: at least one" in capsys.readouterr().err
