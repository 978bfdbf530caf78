"""The contract between a policy and what runs it: its rows, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_vla_shift.contract import check_contract
from pytest_vla_shift.policies.agreement import WIDTH, Row, SimulatorSide, side_by_side
from pytest_vla_shift.policies.fitting import profile_rows
from pytest_vla_shift.policies.profile import Profile, read_profile
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.threaded import in_thread
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.simulators.libero import CAMERAS, PROPRIO
from tests.fakes.toy_policies import Expert
from tests.policies.shipped_profiles import profiles
from tests.rollouts.toy import cell_of, toy_suite

LIBERO = SimulatorSide(
    simulator="libero",
    cameras=CAMERAS,
    height=256,
    width=256,
    action_dim=7,
    action_low=-1.0,
    action_high=1.0,
    position=(0, 3),
    rotation=(3, 6),
    settle_action=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0),
    proprio=PROPRIO,
)
GR00T = read_profile("gr00t-libero")

TOLD = {
    part.quantity
    for profile in profiles("robocasa")
    for state in profile.states
    for part in state.parts
}
ROBOCASA = SimulatorSide(
    simulator="robocasa",
    cameras=("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand"),
    height=256,
    width=256,
    action_dim=12,
    action_low=-1.0,
    action_high=1.0,
    position=(0, 3),
    rotation=(3, 6),
    settle_action=(0.0,) * 6 + (-1.0,) + (0.0,) * 4 + (-1.0,),
    proprio=tuple(sorted(TOLD)),
)
"""As its suite file and its own action layout say; the simulator is not in this package yet."""


@pytest.mark.parametrize("name", [profile.name for profile in profiles("libero")])
def test_every_profile_for_libero_fits_liberos_suites(name: str) -> None:
    assert [row for row in profile_rows(read_profile(name), LIBERO) if not row.fits] == []


@pytest.mark.parametrize("name", [profile.name for profile in profiles("robocasa")])
def test_every_profile_for_robocasa_fits_its_suite(name: str) -> None:
    assert [row for row in profile_rows(read_profile(name), ROBOCASA) if not row.fits] == []


@pytest.mark.parametrize("name", [profile.name for profile in profiles("robocasa")])
def test_a_profile_for_another_robot_does_not_fit(name: str) -> None:
    wrong = {row.item for row in profile_rows(read_profile(name), LIBERO) if not row.fits}
    assert {"simulator", "action"} <= wrong
    assert any(item.startswith("image ") for item in wrong)
    assert any(item.startswith("state ") for item in wrong)


def misfits(side: SimulatorSide, **changes: Any) -> dict[str, tuple[str, str]]:
    rows = profile_rows(replace(GR00T, **changes), side)
    return {row.item: (row.policy, row.ours) for row in rows if not row.fits}


def action(index: int, **changes: Any) -> dict[str, Any]:
    parts = list(GR00T.actions)
    parts[index] = replace(parts[index], **changes)
    return {"actions": tuple(parts)}


MISFITS: dict[str, tuple[SimulatorSide, dict[str, Any], dict[str, str]]] = {
    "simulator": (replace(LIBERO, simulator="toy"), {}, {"simulator": "toy"}),
    "camera": (
        replace(LIBERO, cameras=("agentview",)),
        {},
        {"image video.wrist_image": "no robot0_eye_in_hand; has agentview"},
    ),
    "no cameras": (
        replace(LIBERO, cameras=()),
        {},
        {
            "image video.image": "no agentview; has none",
            "image video.wrist_image": "no robot0_eye_in_hand; has none",
        },
    ),
    "size": (
        replace(LIBERO, height=128),
        {},
        {
            "image video.image": "agentview 128 x 256 uint8 RGB, upright",
            "image video.wrist_image": "robot0_eye_in_hand 128 x 256 uint8 RGB, upright",
        },
    ),
    "quantity": (
        replace(LIBERO, proprio=("eef_pos", "eef_quat")),
        {},
        {"state state.gripper": "no gripper_qpos; has eef_pos, eef_quat"},
    ),
    "width": (
        replace(LIBERO, action_dim=6),
        {},
        {"action": "6 numbers", "action action.gripper": "not there"},
    ),
    "range": (
        LIBERO,
        action(0, low=-0.05, high=0.05),
        {"action action.x": "position (0) in [-1, 1]"},
    ),
    "range of the simulator": (
        replace(LIBERO, action_low=-2.0),
        {},
        {
            f"action action.{name}": f"{'position' if at < 3 else 'rotation'} ({at}) in [-2, 1]"
            for at, name in enumerate(("x", "y", "z", "roll", "pitch", "yaw"))
        },
    ),
    "gripper": (
        replace(LIBERO, settle_action=(0.0,) * 6 + (1.0,)),
        {},
        {"action action.gripper": "gripper (6) in [-1, 1], +1 opens"},
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_found_and_nothing_else(case: str) -> None:
    side, changes, wanted = MISFITS[case]
    assert {item: ours for item, (_, ours) in misfits(side, **changes).items()} == wanted


def test_a_profile_that_resizes_takes_every_size() -> None:
    images = tuple(replace(image, resize="pad") for image in GR00T.images)
    assert misfits(replace(LIBERO, height=100, width=50), images=images) == {}


def test_a_simulator_that_does_not_say_is_taken_at_its_silence() -> None:
    assert misfits(replace(LIBERO, proprio=(), settle_action=())) == {}


def test_both_sides_are_said_in_words() -> None:
    rows = {row.item: row for row in profile_rows(GR00T, LIBERO, replan=3)}
    assert rows["image video.image"].policy == (
        "agentview 256 x 256 uint8 RGB, left and right swapped"
    )
    roll = rows["state state.roll"]
    assert (roll.policy, roll.ours) == (
        "float32, 1 number: eef_axis_angle[0] (angle to 2 pi)",
        "float64 eef_quat",
    )
    gripper = rows["action action.gripper"]
    assert (gripper.policy, gripper.ours) == (
        "column 0 in [0, 1], 1 opens, 0 closes",
        "gripper (6) in [-1, 1], -1 opens",
    )
    assert rows["chunk"].policy == "3 actions a decision"


@pytest.mark.parametrize("profile", profiles("libero") + profiles("robocasa"))
def test_the_table_is_80_columns_wide_at_most_and_loses_nothing(profile: Profile) -> None:
    rows = profile_rows(profile, LIBERO)
    table = side_by_side(rows, "policy", "suite a_suite_with_quite_a_long_name_of_its_own")
    lines = table.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.startswith("!") for line in lines) == sum(not row.fits for row in rows)
    joined = "".join(table.split())
    for row in rows:
        for word in row.item.split() + row.policy.split() + row.ours.split():
            assert word in joined or len(word) > 20, word


def test_a_long_word_is_broken_and_an_empty_cell_stays_one() -> None:
    table = side_by_side([Row("x" * 30, "", "y" * 70, fits=False)], "policy", "ours")
    assert table.splitlines()[1:] == [
        f"! {'x' * 22}  {'':26}  {'y' * 26}",
        f"  {'x' * 8:22}  {'':26}  {'y' * 26}",
        f"  {'':22}  {'':26}  {'y' * 18}",
    ]


LONG = "image images/video.robot0_agentview_left"


def test_a_name_is_broken_where_its_parts_meet() -> None:
    rows = [Row(LONG, "states.end_effector_position_relative", "as it is", fits=True)]
    lines = side_by_side(rows, "policy", "ours").splitlines()[1:]
    assert [line[2:24].rstrip() for line in lines] == [
        "image images/video.",
        "robot0_agentview_left",
    ]
    assert [line[26:52].rstrip() for line in lines] == [
        "states.end_effector_",
        "position_relative",
    ]


def test_words_are_kept_whole_wherever_a_line_can_hold_them() -> None:
    rows = [Row("a-b", "robot0_eye_in_hand on-the-left of_a_table 12/3", "x", fits=True)]
    lines = side_by_side(rows, "policy", "ours").splitlines()[1:]
    width = (80 - 2 - 3 - 4) // 2
    assert [line[7 : 7 + width].rstrip() for line in lines] == [
        "robot0_eye_in_hand on-the-left",
        "of_a_table 12/3",
    ]


@pytest.mark.parametrize("profile", profiles("libero") + profiles("robocasa"))
def test_no_shipped_profiles_name_is_cut_within_a_word(profile: Profile) -> None:
    """A line of a cell ends where a word does, or one of its parts."""
    for row in profile_rows(profile, LIBERO):
        texts = ("x", row.item, row.policy, row.ours)
        lines = side_by_side([Row(*texts[1:], fits=True)], "", "").splitlines()[1:]
        first = min(22, len(row.item))
        second = (WIDTH - 2 - first - 4) // 2
        starts = (2, 4 + first, 6 + first + second)
        for start, stop, text in zip(starts, (*starts[1:], WIDTH + 2), texts[1:], strict=True):
            rest = text
            for part in (line[start : stop - 2].strip() for line in lines):
                assert rest.startswith(part)
                assert rest[len(part) :][:1] in ("", " ") or part[-1] in "_./", part
                rest = rest[len(part) :].lstrip()
            assert rest == ""


# Before the first episode

SUITE = toy_suite()
PLANNED = [("node", SUITE, cell_of(SUITE, "null"))]


class Comparing(Expert):
    """Compares itself with whatever it is shown, and notes it."""

    def __init__(self, *rows: Row, error: Exception | None = None) -> None:
        super().__init__()
        self.rows, self.error = rows, error
        self.shown: list[SimulatorSide] = []

    def contract(self, side: SimulatorSide) -> Sequence[Row]:
        self.shown.append(side)
        if self.error is not None:
            raise self.error
        return self.rows


FITS, MISFIT = Row("camera", "front", "front", fits=True), Row("dtype", "f4", "f8", fits=False)


def test_a_policy_is_shown_the_suites_side_of_it() -> None:
    policy = Comparing(FITS)
    check_contract(policy, PLANNED)
    (side,) = policy.shown
    assert (side.simulator, side.cameras) == (SUITE.simulator, ("front", "wrist"))
    assert (side.height, side.width, side.action_dim) == (16, 16, 7)
    assert (side.position, side.rotation, side.settle_action[6]) == ((0, 3), (3, 6), -1.0)
    assert side.proprio == ("eef_pos", "eef_quat", "gripper_qpos", "joint_pos")


def test_a_policy_that_does_not_fit_is_refused_with_all_rows() -> None:
    with pytest.raises(UsageError, match="does not fit suite 'toy_suite'; what does not is") as no:
        check_contract(Comparing(FITS, MISFIT), PLANNED)
    assert [line.split() for line in str(no.value).splitlines()[1:]] == [
        ["policy", "suite", "toy_suite"],
        ["camera", "front", "front"],
        ["!", "dtype", "f4", "f8"],
    ]


def test_a_comparison_that_raises_is_a_usage_error_with_its_words() -> None:
    with pytest.raises(UsageError, match="raised in contract: KeyError: 'libero'"):
        check_contract(Comparing(error=KeyError("libero")), PLANNED)
    with pytest.raises(PolicyServerError, match="gone"):
        check_contract(Comparing(error=PolicyServerError("gone")), PLANNED)


def test_a_policy_without_a_comparison_is_checked_as_before() -> None:
    policy = in_thread(Expert, 5.0)
    try:
        assert not hasattr(policy, "contract")
        check_contract(policy, PLANNED)
    finally:
        policy.close()


def test_the_comparison_passes_through_a_policys_thread_and_a_changed_spec() -> None:
    def make() -> Comparing:
        return Respecified.of(  # type: ignore[return-value]
            Comparing(MISFIT), name="mine", source=None, settings=PolicySettings(replan=2)
        )

    policy = in_thread(make, 5.0)
    try:
        with pytest.raises(UsageError, match="policy 'mine' does not fit suite 'toy_suite'"):
            check_contract(policy, PLANNED)
    finally:
        policy.close()
