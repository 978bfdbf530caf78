"""The side-by-side video of a pair: both arms replayed from their recorded actions.

Rollouts render only when the policy looks, so there is nothing to cut a video from. A replay is
bit-identical to the rollout; that it ends the same way is checked each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.pair import Pair
from pytest_vla_shift.protocol.errors import InfrastructureError, UsageError
from pytest_vla_shift.reporting.video import VideoArm, available, outcome, side_by_side
from pytest_vla_shift.rollouts.engine import Engine
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.replay import replay_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVERY = 4
"""Control steps between two frames: 5 frames a second of simulated time at 20 Hz."""

SPEED = 2.0
"""Played at twice the simulated time."""


class VideoMaker:
    """Makes the videos of one process.

    Args:
        engine: replays the arms.
        directory: the run's directory; videos go into its folder ``videos``.
    """

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine = engine
        self._directory = directory / "videos"
        # The clean arm of the last episode: its conditions follow each other.
        self._clean: tuple[str, NDArray[np.uint8]] | None = None

    def make(self, pair: Pair) -> None:
        """Encode the pair's video and note its path on the pair.

        What goes wrong here never turns a verdict: it becomes a note on the pair.
        """
        if not available():
            pair.notes.append("no video: pip install 'pytest-vla-shift[video]'")
            return
        path = self._directory / f"{pair.shifted.key}.mp4"
        if not path.exists():
            try:
                self._write(pair, path)
            except (InfrastructureError, UsageError, OSError) as error:
                pair.notes.append(f"no video: {error}")
                return
        pair.video = path

    def _write(self, pair: Pair, path: Path) -> None:
        clean, shifted = self._clean_frames(pair), self._frames(pair, pair.shifted)
        self._directory.mkdir(parents=True, exist_ok=True)
        side_by_side(
            VideoArm(clean, "clean", outcome(pair.clean.success, pair.clean.steps)),
            VideoArm(
                shifted,
                pair.cell.condition.name,
                outcome(pair.shifted.success, pair.shifted.steps),
            ),
            path,
            fps=SPEED * self._engine.info(pair.suite).control_hz / EVERY,
        )

    def _clean_frames(self, pair: Pair) -> NDArray[np.uint8]:
        if self._clean is None or self._clean[0] != pair.clean.key:
            self._clean = pair.clean.key, self._frames(pair, pair.clean)
        return self._clean[1]

    def _frames(self, pair: Pair, record: RolloutRecord) -> NDArray[np.uint8]:
        engine, suite = self._engine, pair.suite
        is_clean = record.key == pair.clean.key
        request = (engine.clean_request if is_clean else engine.request)(suite, pair.cell)
        return replay_frames(engine, request, record, camera=suite.cameras[0], every=EVERY)
