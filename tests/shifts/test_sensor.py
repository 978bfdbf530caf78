from __future__ import annotations

import io
import math
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.shifts import sensor
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.gaussian_blur import GaussianBlur
from pytest_vla_shift.shifts.motion_blur import motion_blurred
from pytest_vla_shift.shifts.protocol import Frame
from pytest_vla_shift.shifts.sensor import Sensor, quality
from tests.shifts.fake_scene import FakeScene

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image
    from pytest_vla_shift.shifts.protocol import Parameters

SIGMA = {
    "sigma_noise_255": 2.6,
    "sigma_blur_px": 0.25,
    "sigma_jpeg_log2": 0.42,
    "sigma_motion_px": 0.75,
}
"""LIBERO-CTRL, Table 1."""

LEVELS = {name: {"radius": radius, **SIGMA} for name, radius in (("L1", 2), ("L2", 4), ("L3", 8))}
NAMES = ("noise", "blur", "jpeg", "motion")
FRAME = Frame("agentview", step=3, seed=11)


def picture(height: int = 48, width: int = 64) -> Image:
    """Smooth, mid-grey and coloured: nothing is clipped and the encoder has an easy time."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = (110 + 40 * np.sin(rows / 7), 120 + 30 * np.cos(columns / 9), 128 + 0 * rows)
    return np.stack(planes, axis=-1).round().astype(np.uint8)


def one(name: str) -> dict[str, float]:
    """All severity on one coordinate."""
    return {**dict.fromkeys(NAMES, 0.0), name: 1.0, "motion_angle_deg": 30.0}


def mixed(**angle: float) -> dict[str, float]:
    return {**dict.fromkeys(NAMES, 0.5), "motion_angle_deg": 30.0, **angle}


def shown(level: Parameters, draw: dict[str, float], frame: Frame = FRAME) -> Image:
    return Sensor().image(picture(), level, draw, frame)


def test_it_keeps_the_contract_at_its_own_levels() -> None:
    check_axis(Sensor(), LEVELS)


def test_all_severity_on_one_coordinate_is_the_last_column_of_table_1() -> None:
    at_r8 = {name: Sensor().offsets(LEVELS["L3"], one(name))[name] for name in NAMES}
    assert at_r8["noise"] == pytest.approx(20.4, abs=0.5)
    assert at_r8["blur"] == pytest.approx(2.0)
    assert at_r8["jpeg"] == pytest.approx(3.3, abs=0.07)
    assert at_r8["motion"] == pytest.approx(6.0)
    assert quality(at_r8["jpeg"]) == 10


def test_each_coordinate_alone_is_its_own_degradation() -> None:
    level = LEVELS["L3"]
    blur = GaussianBlur().image(picture(), {"sigma_px": 2.0}, {}, FRAME)
    np.testing.assert_array_equal(shown(level, one("blur")), blur)
    motion = np.rint(motion_blurred(picture(), 6.0, 30.0))
    np.testing.assert_array_equal(shown(level, one("motion")), motion)
    noise = shown(level, one("noise")).astype(float) - picture()
    assert noise.std() == pytest.approx(20.8, rel=0.03)
    assert abs(noise.mean()) < 1.0
    compressed = shown(level, one("jpeg"))
    assert not np.array_equal(compressed, picture())
    assert np.abs(compressed.astype(float) - picture()).mean() < 12


def test_noise_is_independent_in_pixels_and_channels_and_normal() -> None:
    grey = np.full((64, 64, 3), 128, dtype=np.uint8)
    noise = Sensor().image(grey, LEVELS["L3"], one("noise"), FRAME).astype(float) - 128
    flat = noise.reshape(-1, 3)
    correlation = np.corrcoef(flat.T)
    assert np.abs(correlation - np.eye(3)).max() < 0.06
    neighbours = np.corrcoef(noise[:, 1:, 0].ravel(), noise[:, :-1, 0].ravel())[0, 1]
    assert abs(neighbours) < 0.06
    assert (np.abs(noise) < 20.8).mean() == pytest.approx(math.erf(1 / math.sqrt(2)), abs=0.02)


def test_noise_is_fresh_in_every_frame_camera_and_episode_and_repeats_for_one_frame() -> None:
    level, draw = LEVELS["L2"], one("noise")
    first = shown(level, draw)
    shown(level, draw, Frame("agentview", step=4, seed=11))
    np.testing.assert_array_equal(shown(level, draw), first)
    for other in (Frame("wrist", 3, 11), Frame("agentview", 4, 11), Frame("agentview", 3, 12)):
        difference = shown(level, draw, other).astype(float) - first
        # Two independent noises: sqrt(2) of one.
        assert difference.std() == pytest.approx(math.sqrt(2) * 10.4, rel=0.05)


def test_levels_share_the_noise_and_scale_it() -> None:
    noise = {name: shown(LEVELS[name], one("noise")).astype(float) - picture() for name in LEVELS}
    assert np.corrcoef(noise["L1"].ravel(), noise["L3"].ravel())[0, 1] > 0.99
    assert noise["L3"].std() / noise["L1"].std() == pytest.approx(4.0, rel=0.02)


def test_the_lens_comes_before_the_noise_and_the_encoder_last() -> None:
    grey = np.full((64, 64, 3), 128, dtype=np.uint8)
    blur_and_noise = {**one("noise"), "noise": math.sqrt(0.5), "blur": math.sqrt(0.5)}
    noisy = Sensor().image(grey, LEVELS["L3"], blur_and_noise, FRAME).astype(float)
    # Noise that was blurred with it would have a tenth of this spread.
    assert noisy.std() == pytest.approx(20.8 * math.sqrt(0.5), rel=0.03)
    out = shown(LEVELS["L3"], mixed())
    pillow = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    pillow.fromarray(out).save(stream, "JPEG", quality=quality(8 * 0.5 * 0.42))
    again = np.asarray(pillow.open(io.BytesIO(stream.getvalue()))).astype(float)
    # What comes out of an encoder changes little when it is encoded alike once more.
    assert np.abs(again - out).mean() < 2.0


def test_quality_halves_with_every_unit_and_stays_one_that_encoders_take() -> None:
    assert [quality(x) for x in (0.0, 1.0, 2.0, 3.3, 6.0, 20.0)] == [100, 50, 25, 10, 2, 1]


def test_compression_gets_worse_with_the_level() -> None:
    errors = [
        np.abs(shown(LEVELS[name], one("jpeg")).astype(float) - picture()).mean()
        for name in ("L1", "L2", "L3")
    ]
    assert errors == sorted(errors)
    assert errors[0] > 0


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 33, 3), (224, 224, 3)])
def test_any_size_is_taken(shape: tuple[int, int, int]) -> None:
    image = np.full(shape, 90, dtype=np.uint8)
    image.flags.writeable = False
    out = Sensor().image(image, LEVELS["L3"], mixed(), FRAME)
    assert out.shape == shape
    assert out.dtype == np.uint8
    assert out.flags.c_contiguous
    assert out.flags.writeable


def test_noise_at_the_ends_of_the_scale_is_clipped_not_wrapped() -> None:
    for end in (0, 255):
        flat = np.full((32, 32, 3), end, dtype=np.uint8)
        out = Sensor().image(flat, LEVELS["L3"], one("noise"), FRAME).astype(int)
        assert np.abs(out - end).max() < 128
        assert (out == end).mean() == pytest.approx(0.5, abs=0.05)


def test_the_scene_is_not_touched() -> None:
    scene = FakeScene()
    Sensor().apply(scene, LEVELS["L3"], mixed())
    assert scene.written == []


def test_a_radius_of_nothing_is_identity() -> None:
    assert Sensor().is_identity({**LEVELS["L1"], "radius": 0.0}, mixed())
    assert not Sensor().is_identity(LEVELS["L1"], mixed())


@pytest.mark.parametrize(
    "draw, message",
    [
        (dict.fromkeys(NAMES, 0.5), "'motion_angle_deg' is needed"),
        ({**one("blur"), "blur": -1.0}, "blur cannot be negative"),
        ({**one("blur"), "noise": 0.5}, "norm 1.118034, not 1"),
        ({"blur": 1.0, "motion_angle_deg": 0.0}, "'noise' is needed"),
    ],
)
def test_a_draw_that_was_not_made_for_it_is_refused(draw: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sensor().is_identity(LEVELS["L1"], draw)


def test_without_pillow_the_run_is_refused_and_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    sensor.encoder_available.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"pip install 'pytest-vla-shift\[libero\]'"):
            Sensor().check(LEVELS["L1"])
        Sensor().check({**LEVELS["L1"], "sigma_jpeg_log2": 0.0})
    finally:
        sensor.encoder_available.cache_clear()
