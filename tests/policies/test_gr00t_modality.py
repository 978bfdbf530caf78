"""What a GR00T server says of itself, against a profile."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.policies.profile import Profile, find_profile
from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, Modality
from pytest_vla_shift.policies.wires.gr00t_modality import agree, names, read
from tests.fakes.gr00t_peers import config

LIBERO = find_profile("libero", "gr00t")
KITCHEN = find_profile("robocasa", "gr00t")
KITCHEN365 = find_profile("robocasa365", "gr00t")


def said(profile: Profile = LIBERO, **changed: Modality) -> dict[str, Modality]:
    return read(config(profile, **changed))


def misfits(profile: Profile, **changed: Modality) -> dict[str, tuple[str, str]]:
    rows = agree(profile, said(profile, **changed)).rows
    return {row.item: (row.policy, row.ours) for row in rows if not row.fits}


def test_a_server_that_wants_what_the_profile_has_fits_and_changes_nothing() -> None:
    for profile in (LIBERO, KITCHEN, KITCHEN365):
        agreed = agree(profile, said(profile))
        assert agreed.profile == profile
        assert all(row.fits for row in agreed.rows)
        assert agreed.chunk == 16
        assert {"images", "states", "language", "actions", "chunk"} <= {
            row.item for row in agreed.rows
        }


def test_names_may_have_their_modality_before_them() -> None:
    prefixed = {
        "video": Modality(tuple(i.key for i in LIBERO.images), (0,)),
        "state": Modality(tuple(s.key for s in LIBERO.states), (0,)),
        "action": Modality(tuple(LIBERO.action_widths), tuple(range(8))),
    }
    agreed = agree(LIBERO, prefixed)
    assert agreed.profile == LIBERO
    assert all(row.fits for row in agreed.rows)
    assert agreed.chunk == 8


def test_nothing_is_compared_that_a_server_does_not_say() -> None:
    agreed = agree(LIBERO, {})
    assert (agreed.profile, agreed.rows, agreed.chunk) == (LIBERO, (), None)


def test_the_servers_chunk_is_believed() -> None:
    # One release's LIBERO configuration has 40 steps where others have 16.
    assert agree(LIBERO, said(action=Modality(("x",), tuple(range(40))))).chunk == 40


@pytest.mark.parametrize(
    "ours, theirs", [(KITCHEN, KITCHEN365), (KITCHEN365, KITCHEN)], ids=["newer", "older"]
)
def test_the_other_family_of_kitchen_keys_is_taken_over(ours: Profile, theirs: Profile) -> None:
    agreed = agree(ours, said(theirs))
    assert all(row.fits for row in agreed.rows)
    assert [(i.key, i.camera) for i in agreed.profile.images] == [
        (i.key, i.camera) for i in theirs.images
    ]
    assert agreed.profile.instruction == theirs.instruction
    assert agreed.profile.digest != ours.digest  # another observation is another key


def test_every_alias_goes_both_ways_and_never_to_a_third() -> None:
    assert names("video.res256_image_side_0") == [
        "video.res256_image_side_0",
        "video.robot0_agentview_left",
    ]
    assert names("video.robot0_eye_in_hand") == [
        "video.robot0_eye_in_hand",
        "video.res256_image_wrist_0",
    ]
    assert names("video.image") == ["video.image"]


def test_what_a_server_does_not_want_is_not_sent() -> None:
    blind = Modality(("image",), (0,))
    agreed = agree(LIBERO, said(video=blind, state=Modality(("x", "y", "z"), (0,))))
    assert all(row.fits for row in agreed.rows)
    assert agreed.profile.cameras == ("agentview",)
    assert [state.key for state in agreed.profile.states] == ["state.x", "state.y", "state.z"]


@pytest.mark.parametrize(
    "changed, item, shown",
    [
        ({"video": Modality(("image", "front"), (0,))}, "images", "video.image, video.front"),
        ({"state": Modality(("x", "joints"), (0,))}, "states", "state.x, state.joints"),
        ({"language": Modality(("task",), (0,))}, "language", "task"),
        ({"video": Modality(("image",), (-1, 0))}, "images: moments", "2, at [-1, 0]"),
        ({"state": Modality(("x",), (-1, 0))}, "states: moments", "2, at [-1, 0]"),
        ({"action": Modality(("x", "y"), (0, 1))}, "actions", "action.x, action.y"),
        ({"action": Modality(("x",), (0, 2, 4))}, "chunk", "at [0, 2, 4]"),
        ({"action": Modality(("x",), ())}, "chunk", "at []"),
    ],
    ids=["camera", "state", "sentence", "frames", "history", "actions", "stride", "none"],
)
def test_what_does_not_fit_is_told_from_both_sides(
    changed: dict[str, Modality], item: str, shown: str
) -> None:
    found = misfits(LIBERO, **changed)
    assert item in found
    policy, ours = found[item]
    assert policy == shown
    assert ours


def test_an_action_that_the_profile_would_drop_does_not_fit() -> None:
    more = Modality(("x", "y", "z", "roll", "pitch", "yaw", "gripper", "torso"), (0, 1))
    policy, ours = misfits(LIBERO, action=more)["actions"]
    assert "action.torso" in policy
    assert "action.torso" not in ours


def test_only_configurations_are_read_from_an_answer() -> None:
    answer = {"video": Modality(("a",), (0,)), "state": None, "metadata": 5, "action": 5}
    assert read(answer) == {"video": Modality(("a",), (0,))}
    assert read([]) == {}
    assert read(None) == {}
    assert read(np.zeros(3)) == {}
    with pytest.raises(CodecError):
        read({"video": {"modality_keys": 5}})
