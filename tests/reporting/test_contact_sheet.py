"""Contact sheets show every axis and level where they belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.reporting.contact_sheet import (
    contact_sheet,
    sheet_name,
    task_sheet,
    write_sheets,
)
from pytest_vla_shift.reporting.pictures import BAND, GAP, decode_png
from tests.rollouts.toy import toy_suite

pytest.importorskip("PIL", reason="needs Pillow")


def flat(value: int) -> np.ndarray:
    return np.full((16, 16, 3), value, np.uint8)


def test_every_picture_is_under_its_axis_and_level() -> None:
    suite = toy_suite()
    names = ["clean", "base-L1", "base-L2", "base-L3", "blur-L1"]
    frames = {name: {"front": flat(10 + n), "wrist": flat(100 + n)} for n, name in enumerate(names)}
    image = decode_png(task_sheet(suite, ("toy", "reach_left"), frames))
    # A title; two rows; clean and three levels for each of two cameras.
    assert image.shape == (BAND + 2 * (BAND + 16 + GAP), 8 * 16 + 7 * GAP, 3)

    def cell(row: int, column: int) -> np.ndarray:
        top = BAND + row * (BAND + 16 + GAP) + BAND
        left = column * (16 + GAP)
        return image[top : top + 16, left : left + 16]

    assert [int(cell(0, column).mean()) for column in range(8)] == [
        *(10, 11, 12, 13),
        *(100, 101, 102, 103),
    ]
    # Blur has one level: the wrist's pictures follow at once, and the rest is blank.
    assert [int(cell(1, column).mean()) for column in range(5)] == [10, 14, 100, 104, 255]


def test_a_condition_that_is_not_there_is_blank_and_an_axis_that_was_cut_has_no_row() -> None:
    frames = {"clean": {"front": flat(1), "wrist": flat(2)}, "base-L2": {"front": flat(3)}}
    image = decode_png(task_sheet(toy_suite(), ("toy", "reach_left"), frames))
    assert image.shape[0] == BAND + BAND + 16 + GAP
    row = image[2 * BAND : 2 * BAND + 16]
    assert [int(row[:, left : left + 16].mean()) for left in (0, 20, 40, 60)] == [1, 255, 3, 255]


def test_one_file_a_task_with_pictures(tmp_path: Path) -> None:
    frames = {
        ("toy", "reach_left"): {"clean": {"front": flat(1)}, "base-L1": {"front": flat(2)}},
        ("toy", "reach_right"): {"clean": {"front": flat(1)}},
    }
    written = write_sheets(tmp_path / "new", toy_suite(), frames)
    assert [path.name for path in written] == ["contact-toy-reach_left.png"]
    assert decode_png(written[0].read_bytes()).shape[2] == 3
    assert sheet_name(("a", "b/../c")) == "contact-a-b_.._c.png"


def test_pictures_of_several_sizes_or_none_are_refused() -> None:
    with pytest.raises(ValueError, match="pictures of one size"):
        contact_sheet([("a", [("x", flat(1)), ("y", flat(1)[:8])])], "t")
    with pytest.raises(ValueError, match="pictures of one size"):
        contact_sheet([("a", [("x", None)])], "t")
