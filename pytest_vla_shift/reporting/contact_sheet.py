"""Contact sheets: one task's pictures under every axis and level, for people to look at.

RoboCasa-Shift VI-B2 inspects such sheets by hand after the automatic checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.suite import Suite
from pytest_vla_shift.reporting.pictures import BAND, GAP, caption, encode_png

if TYPE_CHECKING:
    from pytest_vla_shift.protocol.observation import Image

_PAPER = 255


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[tuple[str, Image | None]]]], title: str
) -> Image:
    """Rows of captioned pictures under a title.

    Args:
        rows: the row's name, then (caption, picture) of each cell; a cell without a picture is
            left blank. All pictures have one size.
        title: above everything.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        ValueError: there is no picture.
        UsageError: Pillow is not installed.
    """
    sizes = {image.shape for _, cells in rows for _, image in cells if image is not None}
    if len(sizes) != 1:
        raise ValueError(f"a contact sheet needs pictures of one size, not of {sorted(sizes)}")
    height, width, _ = sizes.pop()
    columns = max(len(cells) for _, cells in rows)
    total = columns * width + (columns - 1) * GAP
    parts = [caption(title, total)]
    for name, cells in rows:
        row = np.full((BAND + height + GAP, total, 3), _PAPER, np.uint8)
        for place, (text, image) in enumerate(cells):
            left = place * (width + GAP)
            row[:BAND, left : left + width] = caption(f"{name} {text}".strip(), width)
            if image is not None:
                row[BAND : BAND + height, left : left + width] = image
        parts.append(row)
    return np.vstack(parts)


def task_sheet(
    suite: Suite, task: tuple[str, str], frames: Mapping[str, Mapping[str, Image]]
) -> bytes:
    """One task: a row an axis; for each camera clean and every level, side by side.

    Args:
        suite: whose axes and cameras.
        task: for the title.
        frames: condition -> camera -> picture; conditions that are not there are left blank.

    Returns:
        PNG.
    """
    clean = frames.get("clean", {})
    axes = dict.fromkeys(c.axis for c in suite.conditions() if c.axis is not None)
    rows: list[tuple[str, list[tuple[str, Image | None]]]] = []
    for axis in axes:
        conditions = [c for c in suite.conditions() if c.axis == axis]
        if not any(c.name in frames for c in conditions):
            continue  # cut away
        cells: list[tuple[str, Image | None]] = []
        for camera in suite.cameras:
            cells.append((f"clean {camera}", clean.get(camera)))
            cells += [
                (f"{c.level} {camera}", frames.get(c.name, {}).get(camera)) for c in conditions
            ]
        rows.append((axis, cells))
    return encode_png(contact_sheet(rows, f"{suite.name}: {'/'.join(task)}"))


def sheet_name(task: tuple[str, str]) -> str:
    """The file's name: ``contact-<task suite>-<task>.png``."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", f"contact-{'-'.join(task)}.png")


def write_sheets(
    directory: Path,
    suite: Suite,
    frames: Mapping[tuple[str, str], Mapping[str, Mapping[str, Image]]],
) -> list[Path]:
    """Write one sheet a task that has pictures; returns the paths.

    Raises:
        OSError: the directory cannot be written.
        UsageError: Pillow is not installed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for task, found in sorted(frames.items()):
        shifted = [name for name in found if name != "clean"]
        if not shifted:
            continue
        path = directory / sheet_name(task)
        path.write_bytes(task_sheet(suite, task, found))
        written.append(path)
    return written
