"""The severity audit passes a sound suite and names what is wrong with every other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.errors import SimulatorError
from pytest_vla_shift.protocol.observation import Observation
from pytest_vla_shift.protocol.plan import Cut
from pytest_vla_shift.protocol.suite import Suite, load_suite
from pytest_vla_shift.rollouts.request import settings_of
from pytest_vla_shift.rollouts.severity_audit import (
    SeverityReport,
    audit_severity,
    conditions_of,
    episodes_of,
)
from pytest_vla_shift.rollouts.severity_checks import promises_growth, reach_of
from pytest_vla_shift.shifts.protocol import Intervention, Receipt
from tests.fakes.toy_simulator import Toy
from tests.rollouts.toy import toy_suite

AXES = """
[axes.camera]
shift = "camera_orientation"
L1 = { theta_max_deg = 2.0 }
L2 = { theta_max_deg = 6.0 }

[axes.illumination]
L1 = { alpha = 0.8 }
L2 = { alpha = 0.4 }
"""


def four_axes(*changes: tuple[str, str]) -> Suite:
    """The toy suite with a camera and a light axis, blurred at two levels; pictures of 32."""
    return toy_suite(
        ("L1 = { sigma_px = 1.0 }\n", "L1 = { sigma_px = 1.0 }\nL2 = { sigma_px = 3.0 }\n" + AXES),
        ("height = 16\nwidth = 16", "height = 32\nwidth = 32"),
        *changes,
    )


def audit(suite: Suite, kind: type[Toy] = Toy, **options: object) -> SeverityReport:
    cut = Cut(tasks=("left",), episodes=(0,))
    return audit_severity(kind(settings_of(suite)), suite, **{"cut": cut, **options})  # type: ignore[arg-type]


def test_a_sound_suite_passes_whole() -> None:
    suite = four_axes()
    seen: list[str] = []
    report = audit_severity(
        Toy(settings_of(suite)), suite, episodes=2, progress=lambda r: seen.append(r.condition)
    )
    assert report.passed, [record.problems for record in report.records]
    # 2 tasks x 2 episodes x (clean and 9 shifted); the null arm shifts nothing and is left out.
    assert len(report.records) == len(seen) == 2 * 2 * 10
    assert "null" not in seen
    assert report.axes == {"base": False, "blur": True, "camera": False, "illumination": True}
    by_name = {r.condition: r for r in report.records if (r.task, r.episode) == ("reach_left", 0)}
    assert by_name["clean"].pixel_change == {}
    assert by_name["camera-L2"].pixel_change["wrist"] == 0.0
    assert by_name["camera-L2"].pixel_change["front"] > 0.0
    assert by_name["blur-L2"].pixel_change["wrist"] > by_name["blur-L1"].pixel_change["wrist"] > 0
    assert by_name["illumination-L1"].receipts[0].startswith("model.light[")
    assert set(report.frames) == {("toy", "reach_left"), ("toy", "reach_right")}
    assert report.frames["toy", "reach_left"]["camera-L1"]["front"].shape == (32, 32, 3)
    found = json.loads(json.dumps(report.to_json()))
    assert found["passed"] is True
    assert len(found["records"]) == 40


def test_four_tasks_three_episodes_and_thirteen_conditions_are_the_papers_156_records() -> None:
    suite = load_suite("robocasa_shift_on_libero")
    assert len(episodes_of(suite, Cut(), 3)) * len(conditions_of(suite, Cut())) == 156
    assert {episode.index for episode in episodes_of(suite, Cut(), 3)} == {0, 1, 2}


@pytest.mark.parametrize(
    "fault,kind,message",
    [
        ("jitter", "fingerprint", "before the shift, model.target_pos differ"),
        ("unsettled", "valid", "an object still moves"),
        ("missing", "valid", "missing asset: meshes/target_1.obj is not there"),
        ("nan", "observation", "proprio.eef_pos is not finite"),
    ],
)
def test_a_bad_reset_is_named(fault: str, kind: str, message: str) -> None:
    suite = four_axes(('"reach_left", "reach_right"', f'"reach_left_{fault}"'))
    report = audit(suite)
    assert not report.passed
    told = [problem for record in report.records for problem in record.problems]
    assert any(problem.startswith(f"{kind}: ") and message in problem for problem in told), told
    assert not report.records[0].passed


class OneCamera(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        return super().observe(cameras[:1], privileged=privileged)


class WrongSize(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        return replace(seen, images={name: i[:-1] for name, i in seen.images.items()})


class Blind(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        return replace(seen, images={name: np.zeros_like(i) for name, i in seen.images.items()})


class Noisy(Toy):
    def observe(self, cameras: Sequence[str] = (), *, privileged: bool = False) -> Observation:
        seen = super().observe(cameras, privileged=privileged)
        noise = np.random.default_rng().integers(0, 2, (32, 32, 3), dtype=np.uint8)
        return replace(seen, images={name: i ^ noise for name, i in seen.images.items()})


@pytest.mark.parametrize(
    "kind,message",
    [
        (OneCamera, "cameras ['front'] instead of ['front', 'wrist']"),
        (WrongSize, "front: uint8 of shape (31, 32, 3)"),
        (Blind, "front: the picture is of one colour"),
        (Noisy, "front: drawn twice, it is not the same"),
    ],
)
def test_unsound_pictures_are_named_in_every_record(kind: type[Toy], message: str) -> None:
    report = audit(four_axes(), kind)
    assert not report.passed
    assert all(not record.observation for record in report.records)
    assert f"observation: {message}" in report.records[0].problems


class MovesTheTarget(Toy):
    """Every shift moves the target by a hair as well."""

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        receipts = super().apply(interventions)
        self._prepared().target_pos[0] += 1e-12
        return receipts


class TurnsTheWrist(Toy):
    """Every shift turns the wrist camera as well."""

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        receipts = super().apply(interventions)
        self._prepared().camera_quat["wrist"][:] = (0.96, 0.28, 0.0, 0.0)
        return receipts


class Silent(Toy):
    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        super().apply(interventions)
        return []


class Pretends(Toy):
    """Confesses a change that it did not make."""

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        receipts = super().apply(())
        fields = {"camera": "model.cam_quat[front]", "base": "robot.base_pos"}
        return [*receipts, *(Receipt(fields.get(i.axis, "light"), 0.0, 1.0) for i in interventions)]


class Unchanged(Toy):
    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        return [Receipt(r.field, r.after, r.after) for r in super().apply(interventions)]


@pytest.mark.parametrize(
    "kind,conditions,message",
    [
        # The base's own receipts allow the robot to move, and nothing else.
        (MovesTheTarget, "base blur camera illumination", "position.target_1 differ from clean"),
        (TurnsTheWrist, "camera", "the picture of wrist changed, which the shift does not reach"),
        (Silent, "base blur camera illumination", "the shift left no receipt"),
        (Unchanged, "base blur camera illumination", "no receipt shows a change"),
    ],
)
def test_a_change_that_was_not_meant_or_not_made_is_named(
    kind: type[Toy], conditions: str, message: str
) -> None:
    report = audit(four_axes(), kind)
    assert not report.passed
    told = {r.axis for r in report.records if any(message in problem for problem in r.problems)}
    assert told == set(conditions.split())
    assert report.records[0].passed  # clean


def test_a_confessed_change_that_no_picture_shows_is_named() -> None:
    report = audit(four_axes(), Pretends)
    assert not report.passed
    told = "\n".join(report.across_levels)
    assert "reach_left e00 base: no picture changed at any level" in told
    assert "reach_left e00 camera: no picture changed at any level" in told
    assert "blur: front: pixel change does not grow with the level: 0.000, 0.000" in told
    assert "illumination: wrist: pixel change does not grow" in told


class SettlesElsewhere(Toy):
    """Under a shift the target comes to rest elsewhere."""

    shifted = False

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        self.shifted = True
        return super().apply(interventions)

    def prepare(self, episode):  # type: ignore[no-untyped-def]
        self.shifted = False
        return super().prepare(episode)

    def step(self, actions, *, stop_on_success: bool = True):  # type: ignore[no-untyped-def]
        result = super().step(actions, stop_on_success=stop_on_success)
        self._prepared().target_pos[0] += 0.001 * self.shifted
        return result


def test_a_scene_that_settles_elsewhere_is_named_where_the_robot_was_not_moved() -> None:
    report = audit(four_axes(), SettlesElsewhere)
    told = {r.axis for r in report.records if any("after settling" in p for p in r.problems)}
    assert told == {"blur", "camera", "illumination"}


class Crashes(Toy):
    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        if interventions[0].axis == "camera":
            raise SimulatorError("no such camera")
        return super().apply(interventions)


def test_an_error_of_one_condition_is_one_bad_record_and_the_rest_goes_on() -> None:
    report = audit(four_axes(), Crashes)
    bad = [record for record in report.records if not record.passed]
    assert [record.condition for record in bad] == ["camera-L1", "camera-L2"]
    assert bad[0].problems == ("valid: simulator: no such camera",)


class Brightens(Toy):
    """Its lights come back at the second level."""

    def apply(self, interventions: Sequence[Intervention]) -> list[Receipt]:
        receipts = super().apply(interventions)
        if (interventions[0].axis, interventions[0].level) == ("illumination", "L2"):
            for rgb in self._prepared().lights.values():
                rgb *= 2.4
        return receipts


def test_a_level_that_changes_pictures_less_than_the_one_below_fails_the_axis() -> None:
    report = audit(four_axes(), Brightens)
    assert all(record.passed for record in report.records)
    assert not report.passed
    assert len(report.across_levels) == 2  # a line a camera
    assert (
        "illumination: front: pixel change does not grow with the level" in report.across_levels[0]
    )


def test_a_level_under_which_nothing_changes_is_an_identity_and_no_fault() -> None:
    suite = four_axes(
        (
            "L1 = { sigma_xy_m = 0.001, sigma_yaw_deg = 0.0 }",
            "L1 = { sigma_xy_m = 0, sigma_yaw_deg = 0 }",
        )
    )
    report = audit(suite)
    assert report.passed
    (record,) = (r for r in report.records if r.condition == "base-L1")
    assert record.identity
    assert record.receipts == ()


def test_only_axes_without_a_draw_promise_growth() -> None:
    table = frozen_axes("robocasa_shift")
    assert {name for name, axis in table.items() if promises_growth(axis)} == {
        "illumination",
        "blur",
    }
    blur = table["blur"]
    assert not promises_growth(replace(blur, levels=blur.levels[::-1]))


@pytest.mark.parametrize(
    "fields,cameras,robot",
    [
        (["model.cam_quat[a]"], {"a"}, False),
        (["model.cam_pos[a]", "model.cam_quat[b]"], {"a", "b"}, False),
        (["model.light_diffuse[top]"], {"a", "b"}, False),
        (["model.vis.headlight.ambient"], {"a", "b"}, False),
        (["observation.rgb gaussian_blur.sigma_px"], {"a", "b"}, False),
        (["robot.base_pos", "controller.goal_pos"], {"a", "b"}, True),
        (["action actuation.radius", "instruction"], set(), False),
    ],
)
def test_what_a_receipt_reaches(fields: list[str], cameras: set[str], robot: bool) -> None:
    reach = reach_of([Receipt(name, 0.0, 1.0) for name in fields], ("a", "b"))
    assert set(reach.cameras) == cameras
    assert (reach.robot, reach.anything) == (robot, False)


def test_a_field_that_no_rule_knows_excludes_nothing() -> None:
    assert reach_of([Receipt("model.geom_friction[floor]", 0.0, 1.0)], ("a",)).anything
