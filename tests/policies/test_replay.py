from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.replay import Replay
from pytest_vla_shift.protocol.errors import PolicyError, UsageError
from pytest_vla_shift.protocol.observation import Episode
from tests.policies.observations import EPISODE, INFO, observation

ACTIONS = np.random.default_rng(0).uniform(-1, 1, (20, 7))
KEY = f"{EPISODE.task_suite}/{EPISODE.task}/{EPISODE.index}"

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def as_npy(path: Path, actions: Array) -> Path:
    np.save(path.with_suffix(".npy"), actions)
    return path.with_suffix(".npy")


def as_npz(path: Path, actions: Array) -> Path:
    np.savez(path.with_suffix(".npz"), actions)
    return path.with_suffix(".npz")


def as_keyed_npz(path: Path, actions: Array) -> Path:
    np.savez_compressed(path.with_suffix(".npz"), **{KEY: actions})  # type: ignore[arg-type]
    return path.with_suffix(".npz")


def as_jsonl(path: Path, actions: Array) -> Path:
    text = "".join(json.dumps(action) + "\n" for action in actions.tolist())
    path.with_suffix(".jsonl").write_text(text)
    return path.with_suffix(".jsonl")


def as_keyed_jsonl(path: Path, actions: Array) -> Path:
    rows = [{"episode": KEY, "action": action} for action in actions.tolist()]
    text = "\n".join(json.dumps(row) for row in rows)
    path.with_suffix(".jsonl").write_text(text)
    return path.with_suffix(".jsonl")


FORMATS = [as_npy, as_npz, as_keyed_npz, as_jsonl, as_keyed_jsonl]


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("replan", [1, 3, 8])
def test_every_format_plays_step_for_step_whatever_the_replanning(
    write: object, replan: int, tmp_path: Path
) -> None:
    assert callable(write)
    policy = Replay(file=str(write(tmp_path / "recording", ACTIONS)))
    policy.reset(INFO, 0)
    executed = [
        action for step in range(0, 24, replan) for action in policy.act(observation(step))[:replan]
    ]
    np.testing.assert_array_equal(executed[:20], ACTIONS)
    np.testing.assert_array_equal(executed[20:], np.zeros((len(executed) - 20, 7)))


def test_a_second_rollout_starts_again(tmp_path: Path) -> None:
    policy = Replay(file=str(as_npy(tmp_path / "a", ACTIONS)))
    assert check_policy(policy, observation(), INFO) == []
    assert policy.spec.action_dim == 7
    assert policy.spec.cameras == ()


def test_the_revision_is_the_files_digest(tmp_path: Path) -> None:
    one = Replay(file=str(as_npy(tmp_path / "a", ACTIONS))).spec.revision
    same = Replay(file=str(as_npy(tmp_path / "b", ACTIONS))).spec.revision
    other = Replay(file=str(as_npy(tmp_path / "c", ACTIONS + 1e-9))).spec.revision
    assert one.startswith("sha256:")
    assert one == same != other


def test_an_episode_that_is_not_in_the_file_is_never_replaced_by_another(tmp_path: Path) -> None:
    policy = Replay(file=str(as_keyed_npz(tmp_path / "a", ACTIONS)))
    assert policy.unsupported(EPISODE.task_suite, EPISODE.task) is None
    assert policy.unsupported("libero_goal", EPISODE.task) == (
        f"the replay file has no episode of libero_goal/{EPISODE.task}"
    )
    missing = replace(INFO, episode=Episode(EPISODE.task_suite, EPISODE.task, 8))
    with pytest.raises(PolicyError, match=r"no actions for .*/8"):
        policy.reset(missing, 0)


class Hostile:
    def __init__(self, witness: Path) -> None:
        self._witness = witness

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self._witness,))


def hostile_npy(folder: Path, witness: Path) -> Path:
    array = np.empty((1, 7), dtype=object)
    array[0, 0] = Hostile(witness)
    np.save(folder / "hostile.npy", array, allow_pickle=True)
    return folder / "hostile.npy"


def hostile_npz(folder: Path, witness: Path) -> Path:
    inner = hostile_npy(folder, witness)
    with zipfile.ZipFile(folder / "hostile.npz", "w") as archive:
        archive.write(inner, "actions.npy")
    return folder / "hostile.npz"


def bare_pickle(folder: Path, witness: Path) -> Path:
    (folder / "bare.npy").write_bytes(pickle.dumps(Hostile(witness)))
    return folder / "bare.npy"


@pytest.mark.parametrize("write", [hostile_npy, hostile_npz, bare_pickle])
def test_a_hostile_pickle_is_refused_and_never_runs(write: object, tmp_path: Path) -> None:
    assert callable(write)
    witness = tmp_path / "witness"
    file = write(tmp_path, witness)
    with pytest.raises(UsageError, match="not a plain NumPy array"):
        Replay(file=str(file))
    assert not witness.exists()
    if write is hostile_npy:  # it is hostile indeed: read carelessly, it runs
        with np.errstate(all="ignore"):
            np.load(file, allow_pickle=True)
        assert witness.exists()


def keyed(path: Path, **arrays: Array) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.npy", None, "No such file"),
        ("a.csv", b"0,0", r"none of .npy, .npz, .jsonl"),
        ("a.npy", b"", "not a plain NumPy array"),
        ("a.npy", b"\x93NUMPY\x01\x00", "not a plain NumPy array"),
        ("a.npz", b"PK no", "not an .npz archive"),
        ("a.jsonl", b"", "no actions in it"),
        ("a.jsonl", b"\xff\xfe", "not UTF-8"),
        ("a.jsonl", b"[0, 0]\n[0", "line 2 is not JSON"),
        ("a.jsonl", b"[0, 0]\n[0]", "different widths"),
        ("a.jsonl", b"[0, null]", "line 1 is neither"),
        ("a.jsonl", b"[0, true]", "line 1 is neither"),
        ("a.jsonl", b"[0, NaN]", "nan in action 0, component 1"),
        ("a.jsonl", b"[0, 1e999]", "inf in action 0, component 1"),
        ("a.jsonl", b"[0, 1" + b"0" * 400 + b"]", "line 1: int too large"),
        ("a.jsonl", b"[]", r"shape \(1, 0\)"),
        ("a.jsonl", b'{"episode": "libero_goal/x", "action": [0]}', "is not <task_suite>"),
        (
            "a.jsonl",
            b'{"episode": "s/t/01", "action": [0]}\n{"episode": "s/t/1", "action": [0]}',
            "already",
        ),
    ],
)
def test_what_cannot_be_played_is_a_usage_error_before_any_rollout(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Replay(file=str(path))


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"a": ACTIONS, "b": ACTIONS}, "'a' is not <task_suite>/<task>/<episode>"),
        ({"s/t/0": ACTIONS, "s/t/1": ACTIONS[:, :6]}, "different widths"),
        ({"s/t/0": ACTIONS[0]}, r"shape \(7,\)"),
        ({"s/t/0": ACTIONS[:0]}, r"shape \(0, 7\)"),
        ({"s/t/0": ACTIONS > 0}, "type bool is not numeric"),
        ({}, "no actions in it"),
    ],
)
def test_archives_that_do_not_say_what_belongs_where_are_refused(
    arrays: dict[str, Array], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        Replay(file=str(keyed(tmp_path / "a.npz", **arrays)))
