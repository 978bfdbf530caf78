from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pytest_vla_shift.shifts.actuation import Actuation
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.protocol import ActionLayout, Command
from tests.shifts.fake_scene import FakeScene

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGMA = {
    "sigma_gain_log2": 0.014,
    "sigma_bias_percent": 0.74,
    "sigma_misalignment_deg": 0.90,
    "sigma_lag_ms": 16.0,
    "sigma_noise_percent": 2.35,
}
"""LIBERO-CTRL, Table 1."""

LEVELS = {name: {"radius": radius, **SIGMA} for name, radius in (("L1", 2), ("L2", 4), ("L3", 8))}
NAMES = ("gain", "bias", "misalignment", "lag", "noise")
VECTORS = {
    "bias_x": 0.6,
    "bias_y": 0.0,
    "bias_z": -0.8,
    "axis_x": 0.0,
    "axis_y": 0.0,
    "axis_z": 1.0,
}
LAYOUT = ActionLayout((0, 3), (3, 6), -1.0, 1.0, control_hz=20.0)
REST = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])


def one(name: str, sign: float = 1.0) -> dict[str, float]:
    """All severity on one coordinate."""
    return {**dict.fromkeys(NAMES, 0.0), name: sign, **VECTORS}


def mixed() -> dict[str, float]:
    return {**dict.fromkeys(NAMES, math.sqrt(0.2)), **VECTORS}


def lagging(milliseconds: float) -> dict[str, float]:
    """L3 with a lag of that many milliseconds."""
    return {**LEVELS["L3"], "sigma_lag_ms": milliseconds / 8}


def commands(length: int = 6, limit: float = 0.9) -> NDArray[np.float64]:
    made = np.random.default_rng(5).uniform(-limit, limit, (length, 7))
    made[:, 6] = np.where(np.arange(length) % 2, 1.0, -1.0)
    return made


def executed(
    commanded: NDArray[np.float64],
    level: dict[str, float],
    draw: dict[str, float],
    *,
    seed: int = 3,
    layout: ActionLayout = LAYOUT,
    rest: NDArray[np.float64] = REST,
) -> NDArray[np.float64]:
    """(T, D) what becomes of every command of a rollout."""
    return np.stack(
        [
            Actuation().action(
                commanded[: step + 1], level, draw, Command(step, seed, layout, rest)
            )
            for step in range(len(commanded))
        ]
    )


def test_it_keeps_the_contract_at_its_own_levels() -> None:
    check_axis(Actuation(), LEVELS)


def test_all_severity_on_one_coordinate_is_the_last_column_of_table_1() -> None:
    at_r8 = {name: Actuation().offsets(LEVELS["L3"], one(name))[name] for name in NAMES}
    assert 2 ** at_r8["gain"] == pytest.approx(1.083, abs=0.003)
    assert at_r8["bias"] == pytest.approx(5.95, abs=0.04)
    assert at_r8["misalignment"] == pytest.approx(7.17, abs=0.04)
    assert at_r8["lag"] == pytest.approx(130, abs=2.1)
    assert at_r8["noise"] == pytest.approx(18.8)


def test_the_gripper_and_what_else_there_is_pass_unchanged_and_undelayed() -> None:
    given = commands(20)
    np.testing.assert_array_equal(executed(given, LEVELS["L3"], mixed())[:, 6], given[:, 6])
    # A mobile robot's layout: base first, the arm after the gripper.
    layout = ActionLayout((4, 7), (7, 10), -1.0, 1.0, control_hz=20.0)
    wide = np.random.default_rng(0).uniform(-1, 1, (20, 12))
    done = executed(wide, LEVELS["L3"], mixed(), layout=layout, rest=np.zeros(12))
    others = [0, 1, 2, 3, 10, 11]
    np.testing.assert_array_equal(done[:, others], wide[:, others])
    assert (np.abs(done[:, 4:10] - wide[:, 4:10]).max(axis=0) > 1e-3).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gain_scales_the_arm_to_either_side(sign: float) -> None:
    done = executed(commands(), LEVELS["L3"], one("gain", sign))
    np.testing.assert_allclose(done[:, :6], commands()[:, :6] * 2 ** (sign * 0.112), rtol=1e-12)


def test_bias_adds_the_same_translation_to_every_command() -> None:
    added = executed(commands(), LEVELS["L3"], one("bias")) - commands()
    expected = np.zeros((6, 7))
    expected[:, :3] = 0.0592 * np.array([0.6, 0.0, -0.8])
    np.testing.assert_allclose(added, expected, atol=1e-12)


def test_percents_are_of_half_the_range() -> None:
    layout = ActionLayout((0, 3), (3, 6), -4.0, 4.0, control_hz=20.0)
    for name in ("bias", "noise"):
        small = executed(commands(), LEVELS["L3"], one(name)) - commands()
        large = executed(commands(), LEVELS["L3"], one(name), layout=layout) - commands()
        np.testing.assert_allclose(large, 4 * small, atol=1e-12)


def test_misalignment_turns_translation_and_rotation_vector_about_the_axis() -> None:
    draw = {**one("misalignment"), "axis_x": 0.48, "axis_y": -0.64, "axis_z": 0.6}
    turn = Rotation.from_rotvec(math.radians(7.2) * np.array([0.48, -0.64, 0.6]))
    done = executed(commands(), LEVELS["L3"], draw)
    np.testing.assert_allclose(done[:, :3], turn.apply(commands()[:, :3]), atol=1e-12)
    np.testing.assert_allclose(done[:, 3:6], turn.apply(commands()[:, 3:6]), atol=1e-12)


@pytest.mark.parametrize(
    "milliseconds, whole, fraction", [(50, 1, 0.0), (100, 2, 0.0), (16, 0, 0.32), (130, 2, 0.6)]
)
def test_lag_delays_by_whole_and_fractional_periods(
    milliseconds: float, whole: int, fraction: float
) -> None:
    given = commands(12)
    done = executed(given, lagging(milliseconds), one("lag"))
    padded = np.concatenate([np.tile(REST, (4, 1)), given])
    late, later = (padded[4 - n : 4 - n + 12] for n in (whole, whole + 1))
    expected = (1 - fraction) * late + fraction * later
    np.testing.assert_allclose(done[:, :6], expected[:, :6], atol=1e-12)


def test_a_lag_that_outlasts_the_rollout_leaves_the_arm_at_rest() -> None:
    done = executed(commands(5), lagging(2000), one("lag"))
    assert not done[:, :6].any()


def test_lag_at_another_control_rate_is_the_same_time() -> None:
    layout = ActionLayout((0, 3), (3, 6), -1.0, 1.0, control_hz=10.0)
    given = commands(8)
    slow = executed(given, lagging(100), one("lag"), layout=layout)
    np.testing.assert_allclose(slow, executed(given, lagging(50), one("lag")), atol=1e-12)


def test_noise_is_fresh_in_every_step_and_independent_in_every_arm_component() -> None:
    given = np.tile([0.1] * 7, (3000, 1))
    noise = (executed_at_once(given) - given)[:, :6]
    np.testing.assert_allclose(noise.std(axis=0), 0.188, rtol=0.06)
    assert np.abs(noise.mean(axis=0)).max() < 0.02
    assert np.abs(np.corrcoef(noise.T) - np.eye(6)).max() < 0.08
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.08


def executed_at_once(given: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise alone needs no history."""
    return np.stack(
        [
            Actuation().action(given[[step]], LEVELS["L3"], one("noise"), command(step))
            for step in range(len(given))
        ]
    )


def command(step: int, seed: int = 3) -> Command:
    return Command(step, seed, LAYOUT, REST)


def test_noise_depends_on_step_and_seed_alone_and_levels_scale_it() -> None:
    given = commands()
    first = executed(given, LEVELS["L3"], one("noise"))
    np.testing.assert_array_equal(executed(given, LEVELS["L3"], one("noise")), first)
    other = executed(given, LEVELS["L3"], one("noise"), seed=4)
    assert not np.isclose(first[:, :6], other[:, :6]).any()
    small = executed(given, LEVELS["L1"], one("noise"))
    np.testing.assert_allclose(first - given, 4 * (small - given), atol=1e-12)


def test_a_command_beyond_the_range_does_not_hide_the_shift() -> None:
    given = np.tile([5.0, -5.0, 5.0, -5.0, 5.0, -5.0, -3.0], (4, 1))
    done = executed(given, LEVELS["L3"], one("gain", -1.0))
    scale = 2**-0.112
    np.testing.assert_allclose(done[:, :6], np.tile([scale, -scale] * 3, (4, 1)), rtol=1e-12)
    assert (done[:, 6] == -3.0).all()


def test_the_steps_follow_in_the_order_that_is_written_down() -> None:
    level, draw = {**LEVELS["L3"], "sigma_lag_ms": 50 / 8 * math.sqrt(5)}, mixed()
    given = commands(3)
    c = {name: 8 * math.sqrt(0.2) * value for name, value in SIGMA.items()}
    late = given[1] * 2 ** c["sigma_gain_log2"]
    turn = Rotation.from_rotvec([0, 0, math.radians(c["sigma_misalignment_deg"])])
    expected = np.concatenate([turn.apply(late[:3]), turn.apply(late[3:6])])
    expected[:3] += c["sigma_bias_percent"] / 100 * np.array([0.6, 0.0, -0.8])
    quiet = {**level, "sigma_noise_percent": 0.0}
    np.testing.assert_allclose(executed(given, quiet, draw)[2, :6], expected, atol=1e-12)
    loud = executed(given, level, draw)[2, :6] - expected
    unit = command(2).generator().standard_normal(6)
    np.testing.assert_allclose(loud, c["sigma_noise_percent"] / 100 * unit, atol=1e-12)


def test_neither_the_commands_nor_the_rest_action_is_written_to() -> None:
    given, rest = commands(), REST.copy()
    given.flags.writeable = rest.flags.writeable = False
    done = Actuation().action(given, LEVELS["L3"], mixed(), Command(5, 3, LAYOUT, rest))
    assert done.flags.writeable
    assert not np.shares_memory(done, given)


def test_scene_and_pictures_stay() -> None:
    scene = FakeScene()
    Actuation().apply(scene, LEVELS["L3"], mixed())
    assert scene.written == []
    assert not Actuation().transforms_images


def test_its_draw_has_unit_vectors_that_point_anywhere() -> None:
    draws = [Actuation().draw(np.random.default_rng(i)) for i in range(400)]
    for prefix in ("bias", "axis"):
        vectors = np.array([[draw[f"{prefix}_{c}"] for c in "xyz"] for draw in draws])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0)
        assert np.abs(vectors.mean(axis=0)).max() < 0.12
    gains = [draw["gain"] for draw in draws]
    assert min(gains) < 0 < max(gains)
    assert min(draw[name] for draw in draws for name in NAMES[1:]) >= 0


def test_a_radius_of_nothing_is_identity() -> None:
    still = {**LEVELS["L1"], "radius": 0.0}
    assert Actuation().is_identity(still, mixed())
    np.testing.assert_array_equal(executed(commands(), still, mixed()), commands())


@pytest.mark.parametrize(
    "draw, message",
    [
        ({name: one("lag")[name] for name in NAMES}, "'bias_x' is needed"),
        ({**one("lag"), "bias_x": 0.7}, "bias_x, bias_y, bias_z have norm 1.063015, not 1"),
        ({**one("lag"), "axis_z": 0.0}, "axis_x, axis_y, axis_z have norm 0.000000, not 1"),
        ({**one("lag"), "axis_z": math.nan}, "axis_x, axis_y, axis_z have norm nan"),
        (one("lag", -1.0), "lag cannot be negative"),
        ({**one("lag"), "gain": 1.0}, "norm 1.414214, not 1"),
    ],
)
def test_a_draw_that_was_not_made_for_it_is_refused(draw: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Actuation().is_identity(LEVELS["L1"], draw)
