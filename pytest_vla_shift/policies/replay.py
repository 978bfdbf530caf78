"""Actions from a file: recorded elsewhere, executed here."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.protocol.errors import PolicyError, UsageError
from pytest_vla_shift.protocol.observation import Episode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation

    Actions = NDArray[np.float64]

CHUNK = 8

_EPISODE = re.compile(r"(?P<suite>[^/]+)/(?P<task>[^/]+)/(?P<index>\d+)")


class Replay:
    """Plays recorded actions back, step for step, and holds still when they are used up.

    The file is one of

    * ``.npy``: one (T, D) array, played in every episode;
    * ``.npz``: one such array, or one an episode, named ``<task_suite>/<task>/<episode>``, for
      example ``libero_goal/open_the_middle_drawer_of_the_cabinet/7``;
    * ``.jsonl``: one action a line, ``[dx, dy, ...]``, played in every episode, or
      ``{"episode": "<task_suite>/<task>/<episode>", "action": [dx, dy, ...]}``.

    After the last action it returns zeros: no motion, and a gripper that keeps doing what it did.
    Playing depends on the observation's step alone, so chunk boundaries do not matter. Nothing
    is unpickled: a file that needs it is refused. The whole file is read, checked and digested
    when the policy is made, before any rollout.

    Args:
        file: path of the recording; relative to the working directory.

    Raises:
        UsageError: the file is missing, of another format, or holds what cannot be executed.
    """

    def __init__(self, file: str) -> None:
        path = Path(file).expanduser()
        try:
            content = path.read_bytes()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"replay: cannot read {file!r}: {reason}") from error
        readers = {".npy": _from_npy, ".npz": _from_npz, ".jsonl": _from_jsonl}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise UsageError(f"replay: {file!r} is none of {', '.join(readers)}")
        try:
            arrays = reader(content)
            self._everywhere, self._episodes = _by_episode(arrays)
        except ValueError as error:
            raise UsageError(f"replay: {file!r}: {error}") from error
        self._current: Actions | None = None
        self._spec = PolicySpec(
            name="replay",
            revision=f"sha256:{hashlib.sha256(content).hexdigest()}",
            action_dim=next(iter(arrays.values())).shape[1],
            chunk=CHUNK,
            replan=CHUNK,
            language=False,
        )

    @property
    def spec(self) -> PolicySpec:
        """Its revision is the digest of the file; its width the file's."""
        return self._spec

    def session(self) -> Replay:
        """Another one over the same recordings."""
        return copy.copy(self)

    def unsupported(self, task_suite: str, task: str) -> str | None:
        """A reason if the file holds no episode of this task."""
        if self._everywhere is not None:
            return None
        if any((e.task_suite, e.task) == (task_suite, task) for e in self._episodes):
            return None
        return f"the replay file has no episode of {task_suite}/{task}"

    def reset(self, episode: EpisodeInfo, seed: int) -> None:  # noqa: ARG002
        """Rewind to the episode's actions.

        Raises:
            PolicyError: the file has other episodes of the task, but not this one.
        """
        actions = self._episodes.get(episode.episode, self._everywhere)
        if actions is None:
            e = episode.episode
            raise PolicyError(
                f"the replay file has no actions for {e.task_suite}/{e.task}/{e.index}"
            )
        self._current = actions

    def act(self, observation: Observation) -> NDArray[np.floating]:
        """(8, D): the recording from ``observation.step`` on, then zeros."""
        if self._current is None:
            raise RuntimeError("act before reset: no episode yet")
        chunk = np.zeros((CHUNK, self._spec.action_dim))
        rest = self._current[observation.step : observation.step + CHUNK]
        chunk[: len(rest)] = rest
        return chunk

    def close(self) -> None:
        """Nothing to free."""


def _by_episode(arrays: Mapping[str, Actions]) -> tuple[Actions | None, dict[Episode, Actions]]:
    """The array for every episode, or the arrays of some; each finite, (T, D), of one width."""
    if not arrays:
        raise ValueError("no actions in it")
    widths: set[int] = set()
    for name, actions in arrays.items():
        if actions.ndim != 2 or 0 in actions.shape:
            raise ValueError(f"{name}: shape {actions.shape}, expected (T, D) with T, D >= 1")
        bad = np.argwhere(~np.isfinite(actions))
        if bad.size:
            step, index = (int(i) for i in bad[0])
            raise ValueError(f"{name}: {actions[step, index]} in action {step}, component {index}")
        widths.add(actions.shape[1])
    if len(widths) > 1:
        raise ValueError(f"actions of different widths: {sorted(widths)}")
    if len(arrays) == 1 and "/" not in next(iter(arrays)):
        return next(iter(arrays.values())), {}
    episodes: dict[Episode, Actions] = {}
    for name, actions in arrays.items():
        match = _EPISODE.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not <task_suite>/<task>/<episode>")
        episode = Episode(match["suite"], match["task"], int(match["index"]))
        if episode in episodes:
            raise ValueError(f"{name!r} names an episode that is there already")
        episodes[episode] = actions
    return None, episodes


def _array(name: str, content: bytes) -> Actions:
    """One array in NumPy's own format, which is read by its own reader: no pickle, no guessing."""
    try:
        array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, OverflowError) as error:
        raise ValueError(f"{name}: not a plain NumPy array: {error}") from error
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: type {array.dtype} is not numeric")
    return np.ascontiguousarray(array, dtype=np.float64)


def _from_npy(content: bytes) -> dict[str, Actions]:
    return {"actions": _array("actions", content)}


def _from_npz(content: bytes) -> dict[str, Actions]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(m, archive.read(m)) for m in archive.namelist() if m.endswith(".npy")]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"not an .npz archive: {error}") from error
    return {m.removesuffix(".npy"): _array(m, data) for m, data in members}


def _from_jsonl(content: bytes) -> dict[str, Actions]:
    rows: dict[str, list[list[float]]] = {}
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row: object = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"line {number} is not JSON: {error}") from error
        name: object = "actions"
        action = row
        if isinstance(row, dict):
            name, action = row.get("episode"), row.get("action")
        if (
            not isinstance(name, str)
            or not isinstance(action, list)
            or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in action)
        ):
            raise ValueError(
                f"line {number} is neither a list of numbers nor"
                ' {"episode": "<task_suite>/<task>/<episode>", "action": [numbers]}'
            )
        try:
            rows.setdefault(name, []).append([float(x) for x in action])
        except OverflowError as error:
            raise ValueError(f"line {number}: {error}") from error
    for name, actions in rows.items():
        if len({len(action) for action in actions}) > 1:
            raise ValueError(f"{name}: actions of different widths")
    return {name: np.array(actions, dtype=np.float64) for name, actions in rows.items()}
