"""What a LeRobot checkpoint declares against profiles, suites and simulators."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.lerobot_declared import RESIZES
from pytest_vla_shift.policies.lerobot_policy import LeRobotPolicy
from pytest_vla_shift.policies.probe import probe_observation
from tests.fakes.lerobot_checkpoints import IMAGE, IMAGE2, write_checkpoint
from tests.policies.lerobot_peer import answer, make, refusal, seen, side, values

pytestmark = pytest.mark.usefixtures("lerobot_library")


def test_what_a_preprocessor_renames_is_sent_under_the_name_before(folder: Path) -> None:
    renames = {IMAGE: "observation.images.camera1", IMAGE2: "observation.images.camera2"}
    sizes = dict.fromkeys(renames.values(), (16, 16))
    policy = make(write_checkpoint(folder, "smolvla", images=sizes, renames=renames))
    answer(policy)
    assert set(sizes) <= seen(policy).keys()
    assert policy.spec.language


def test_pictures_get_the_names_that_the_checkpoint_has(folder: Path) -> None:
    names = (IMAGE, "observation.images.wrist_image")
    policy = make(write_checkpoint(folder, images=dict.fromkeys(names, (16, 16))))
    assert policy.profile.name == "lerobot-libero-wrist-image"
    answer(policy)
    assert set(names) <= seen(policy).keys()


def test_cameras_may_be_said(folder: Path) -> None:
    write_checkpoint(folder, images={"observation.images.front": (16, 16)})
    assert "nothing: say" in refusal(folder)
    policy = make(folder, cameras="front:robot0_eye_in_hand")
    assert policy.spec.cameras == ("robot0_eye_in_hand",)
    answer(policy)
    assert "observation.images.front" in seen(policy)


@pytest.mark.parametrize("text", ["front", "front:", ":a", "a:b,a:c", ""])
def test_cameras_that_cannot_be_read_are_refused(folder: Path, text: str) -> None:
    assert "is not like" in refusal(write_checkpoint(folder), cameras=text)


def test_a_picture_that_it_does_not_take_is_refused(folder: Path) -> None:
    write_checkpoint(folder, images={IMAGE: (16, 16)})
    said = refusal(folder, cameras="image:agentview,other:robot0_eye_in_hand")
    assert re.search(r"^! image other +no such input +robot0_eye_in_hand$", said, re.MULTILINE)


def test_a_camera_that_stays_empty_needs_no_picture(folder: Path) -> None:
    images = {IMAGE: (16, 16), "observation.images.empty_camera_0": (16, 16)}
    assert make(write_checkpoint(folder, images=images)).spec.cameras == ("agentview",)


def test_a_checkpoint_without_pictures_looks_at_nothing(folder: Path) -> None:
    assert make(write_checkpoint(folder, images={})).spec.cameras == ()


def test_one_that_declares_a_placeholder_gets_the_profiles_pictures(folder: Path) -> None:
    images = {"observation.images.camera": (16, 16)}
    policy = make(write_checkpoint(folder, "groot", images=images))
    assert policy.spec.cameras == ("agentview", "robot0_eye_in_hand")


def test_a_size_that_the_suite_does_not_render_is_refused(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    assert side(policy) == []
    assert [row.item for row in side(policy, height=32, width=32)] == [
        f"image {IMAGE}",
        f"image {IMAGE2}",
    ]


def test_a_picture_is_brought_to_size_only_if_that_is_asked_for(folder: Path) -> None:
    policy = make(write_checkpoint(folder), resize="stretch")
    assert side(policy, height=32, width=32) == []
    plain = probe_observation(policy.profile)
    large = {camera: np.zeros((32, 32, 3), np.uint8) for camera in plain.images}
    policy.act(replace(plain, images=large))
    assert values(seen(policy)[IMAGE]).shape == (1, 3, 16, 16)


@pytest.mark.parametrize("field", RESIZES)
def test_a_policy_that_resizes_by_itself_gets_what_the_suite_renders(
    folder: Path, field: str
) -> None:
    _gets_the_suites_size(make(write_checkpoint(folder, "smolvla", **{field: [32, 32]})))  # type: ignore[arg-type]


def test_the_suites_size_is_given_to_any_policy_if_the_user_says_so(folder: Path) -> None:
    _gets_the_suites_size(make(write_checkpoint(folder), resize="any"))


def _gets_the_suites_size(policy: LeRobotPolicy) -> None:
    assert side(policy, height=24, width=24) == []
    plain = probe_observation(policy.profile)
    large = {camera: np.zeros((24, 24, 3), np.uint8) for camera in plain.images}
    policy.act(replace(plain, images=large))
    assert values(seen(policy)[IMAGE]).shape == (1, 3, 24, 24)


def test_another_simulator_is_refused(folder: Path) -> None:
    policy = make(write_checkpoint(folder))
    assert "simulator" in [row.item for row in side(policy, simulator="robocasa")]


@pytest.mark.parametrize(
    "changes,row",
    [
        ({"state": 9}, "! state         9 numbers"),
        ({"action": 14}, "! action        14 numbers"),
        (
            {"inputs": {"observation.environment_state": {"type": "ENV", "shape": [3]}}},
            "not told",
        ),
        ({"scaled": ("observation.state",)}, "action is scaled by MEAN_STD"),
        ({"scaled": ("action",)}, "observation.state is scaled by"),
    ],
)
def test_a_contract_that_does_not_fit_is_shown_side_by_side(
    folder: Path, changes: dict[str, object], row: str
) -> None:
    said = refusal(write_checkpoint(folder, **changes))  # type: ignore[arg-type]
    assert "do not agree" in said
    assert "checkpoint" in said
    assert row in said


def test_a_trial_that_fails_is_refused_with_the_librarys_words(folder: Path) -> None:
    write_checkpoint(folder, weights={"gain": float("nan")})
    assert "cannot answer a trial observation" in refusal(folder)
    assert "NaN" in refusal(folder)
