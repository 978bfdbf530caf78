"""Pictures: lossless frames, clean beside shifted, and refusals that say what is wrong."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.reporting.pictures import (
    BAND,
    GAP,
    caption,
    decode_png,
    encode_png,
    strip,
)

RNG = np.random.default_rng(3)
NOISE = RNG.integers(0, 256, (40, 60, 3), dtype=np.uint8)
OTHER = RNG.integers(0, 256, (40, 60, 3), dtype=np.uint8)


def test_png_round_trip_is_lossless_also_for_flipped_views() -> None:
    for image in (NOISE, NOISE[::-1], NOISE[::-1, ::-1]):
        assert np.array_equal(decode_png(encode_png(image)), image)


def test_strip_shows_both_arms_unaltered_clean_on_the_left() -> None:
    picture = decode_png(strip({"front": NOISE}, {"front": OTHER}, ("clean", "camera L2")))
    assert picture.shape == (BAND + 40, 60 + GAP + 60, 3)
    assert np.array_equal(picture[BAND:, :60], NOISE)
    assert np.array_equal(picture[BAND:, 60 + GAP :], OTHER)


def test_strip_has_a_row_for_each_camera_even_of_another_size() -> None:
    small = NOISE[:20, :30]
    arms = {"front": NOISE, "wrist": small}
    picture = decode_png(strip(arms, arms, ("clean", "null")))
    assert picture.shape == (2 * BAND + 60, 60 + GAP + 60, 3)
    assert np.array_equal(picture[2 * BAND + 40 :, 30 + GAP : 60 + GAP], small)


def test_captions_are_drawn_and_cut_to_the_picture() -> None:
    band = caption("clean: agentview", 200)
    assert band.shape == (BAND, 200, 3)
    assert (band < 128).any()
    long = caption("a caption that is much longer than its picture is wide", 60)
    assert long.shape == (BAND, 60, 3)
    assert (long[:, -3:] == 255).all()
    assert not np.array_equal(caption("clean", 60), caption("camera", 60))


@pytest.mark.parametrize(
    "clean, shifted, message",
    [
        ({"a": NOISE}, {"b": NOISE}, "cameras differ"),
        ({}, {}, "never looks"),
        ({"a": NOISE}, {"a": NOISE[:30]}, "a: sizes differ"),
        ({"a": NOISE}, {"a": NOISE.astype(np.float32)}, "shifted a is float32"),
        ({"a": NOISE[..., 0]}, {"a": NOISE}, "clean a is uint8 of shape"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    clean: dict[str, np.ndarray], shifted: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        strip(clean, shifted, ("clean", "camera L2"))


def test_something_else_than_a_png_is_refused() -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        decode_png(b"GIF89a")
    with pytest.raises(ValueError, match="not a PNG"):
        decode_png(encode_png(NOISE)[:200])


def test_without_pillow_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-vla-shift\[video\]'"):
        decode_png(encode_png(NOISE))
    with pytest.raises(UsageError, match=r"pip install 'pytest-vla-shift\[video\]'"):
        caption("a caption that nobody has drawn yet", 200)


def test_a_png_takes_no_more_room_than_pillows_own() -> None:
    pil = pytest.importorskip("PIL.Image")
    rows, columns = np.mgrid[0:96, 0:128]
    smooth = np.stack([rows + columns, 2 * rows, 255 - columns], axis=2).astype(np.uint8)
    noisy = smooth + np.random.default_rng(1).integers(0, 6, smooth.shape, dtype=np.uint8)
    buffer = io.BytesIO()
    pil.fromarray(noisy).save(buffer, format="PNG", compress_level=1)
    assert len(encode_png(noisy)) < 1.1 * len(buffer.getvalue())
