"""The side-by-side video, decoded again: order, holding, captions, and what browsers need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla_shift.pair import Pair
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.plan import plan
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.reporting.pictures import BAND, GAP
from pytest_vla_shift.reporting.video import VideoArm, available, outcome, side_by_side
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.video import VideoMaker
from tests.statistics.build import record

av = pytest.importorskip("av")

Frames = NDArray[np.uint8]


def grey(levels: list[int], height: int = 64, width: int = 96) -> Frames:
    return np.stack([np.full((height, width, 3), level, np.uint8) for level in levels])


def decode(path: Path) -> Frames:
    with av.open(str(path)) as container:
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    clean = VideoArm(grey([40, 80, 120]), "clean", outcome(True, 12))
    shifted = VideoArm(grey([200, 180, 160, 140, 120, 100]), "blur L1", outcome(False, 24))
    return side_by_side(clean, shifted, tmp_path / "pair.mp4", fps=5)


def test_frames_stand_side_by_side_and_the_shorter_arm_holds_its_last(pair: Path) -> None:
    frames = decode(pair)
    assert len(frames) == 6 + 5  # the longer arm, and one second of the end
    middle = BAND + 32
    left = frames[:, middle, 48].mean(axis=-1)
    right = frames[:, middle, 96 + GAP + 48].mean(axis=-1)
    assert left == pytest.approx([40, 80] + [120] * 9, abs=4)
    assert right == pytest.approx([200, 180, 160, 140, 120] + [100] * 6, abs=4)


def test_the_outcome_appears_when_its_arm_has_ended(pair: Path) -> None:
    bands = decode(pair)[:, :BAND].astype(int)
    left, right = bands[:, :, :96], bands[:, :, 96 + GAP :]

    def changes(band: NDArray[np.int_]) -> list[int]:
        steps = np.abs(np.diff(band, axis=0)).max(axis=(1, 2, 3))
        return [int(i) + 1 for i in np.flatnonzero(steps > 100)]

    assert changes(left) == [3]
    assert changes(right) == [6]


def test_browsers_can_play_it_while_it_loads(pair: Path) -> None:
    with av.open(str(pair)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == 5
    data = pair.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_odd_sizes_are_padded(tmp_path: Path) -> None:
    arm = VideoArm(grey([10, 200], height=33, width=49), "clean", "")
    frames = decode(side_by_side(arm, arm, tmp_path / "odd.mp4", fps=10))
    assert frames.shape[1] % 2 == 0
    assert frames.shape[2] % 2 == 0


def test_the_same_pair_gives_the_same_file(tmp_path: Path) -> None:
    arm = VideoArm(grey([10, 90, 200]), "clean", "done")
    one = side_by_side(arm, arm, tmp_path / "1.mp4", fps=10).read_bytes()
    assert side_by_side(arm, arm, tmp_path / "2.mp4", fps=10).read_bytes() == one


def test_a_failed_encoding_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = VideoArm(grey([10, 90]), "clean", "done")

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(av.VideoFrame, "from_ndarray", broken, raising=True)
    with pytest.raises(OSError, match="No space left"):
        side_by_side(arm, arm, tmp_path / "pair.mp4", fps=5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "shifted, fps, message",
    [
        (grey([1], height=32), 5.0, "sizes differ"),
        (grey([1]).astype(np.float64), 5.0, "shifted frames are float64"),
        (grey([1])[:0], 5.0, "shifted frames"),
        (grey([1])[0], 5.0, "shifted frames"),
        (grey([1]), 0.0, "fps must be above 0"),
        (grey([1]), float("nan"), "fps must be above 0"),
    ],
)
def test_what_cannot_be_encoded_is_refused(
    tmp_path: Path, shifted: Frames, fps: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        side_by_side(
            VideoArm(grey([1]), "clean", ""), VideoArm(shifted, "x", ""), tmp_path / "a.mp4", fps
        )


def test_without_pyav_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    arm = VideoArm(grey([1]), "clean", "")
    with pytest.raises(UsageError, match=r"pip install 'pytest-vla-shift\[video\]'"):
        side_by_side(arm, arm, tmp_path / "a.mp4", fps=5)


@pytest.fixture
def broken_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyAV is installed, and a library that it links to is not."""
    package = tmp_path / "site" / "av"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libavcodec.so.61: wrong ELF class')")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "av")
    available.cache_clear()
    yield
    available.cache_clear()


@pytest.fixture
def degraded() -> Pair:
    suite = load_suite("quickstart")
    cell = plan(suite)[0]
    return Pair(suite, cell, record(), record(condition="null", success=False), 2, "pytest ...")


@pytest.mark.usefixtures("broken_pyav")
def test_a_pyav_that_cannot_be_imported_is_not_available(tmp_path: Path, degraded: Pair) -> None:
    assert not available()
    VideoMaker(Engine.__new__(Engine), tmp_path).make(degraded)
    assert degraded.video is None
    assert degraded.notes == ["no video: pip install 'pytest-vla-shift[video]'"]


@pytest.mark.usefixtures("broken_pyav")
def test_a_broken_pyav_is_quoted(tmp_path: Path) -> None:
    arm = VideoArm(grey([1]), "clean", "")
    with pytest.raises(UsageError, match="wrong ELF class"):
        side_by_side(arm, arm, tmp_path / "a.mp4", fps=5)


def test_a_video_that_cannot_be_made_is_a_note_and_no_error(
    tmp_path: Path, degraded: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("videos need a codec")

    monkeypatch.setattr(VideoMaker, "_write", refuse)
    VideoMaker(Engine.__new__(Engine), tmp_path).make(degraded)
    assert degraded.video is None
    assert degraded.notes == ["no video: videos need a codec"]


def test_outcomes_in_words() -> None:
    assert outcome(True, 83) == "success at step 83"
    assert outcome(False, 280) == "failed after 280 steps"
    assert outcome(None, 12) == "error after 12 steps"
