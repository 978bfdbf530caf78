"""The store: shared by processes, safe under kills and full disks, strict about what it reads."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.rollouts.action_file import UnreadableActions
from pytest_vla_shift.rollouts.record import RolloutRecord
from pytest_vla_shift.rollouts.rows import BadRow
from pytest_vla_shift.rollouts.store import Store, archive
from tests.plugin.toy_project import REPOSITORY
from tests.statistics.build import record as built


def record(episode: int = 0, *, success: bool = True, error: str | None = None) -> RolloutRecord:
    identity = {"episode": episode}
    return replace(
        built(episode=episode, success=success, error=error),
        identity=identity,
        key=digest(identity),
    )


def line_of(found: RolloutRecord) -> bytes:
    return json.dumps(found.to_json()).encode() + b"\n"


def results(store: Store) -> list[Path]:
    return sorted(store.root.glob("results-*.jsonl"))


def child(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.rollouts.store_child", *args],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# Reading what others write


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    one, other = Store(tmp_path, "gw0"), Store(tmp_path, "gw1")
    one.started(record(0).key, "cell")
    one.write(record(0))
    assert other.get(record(0).key) is None
    other.refresh()
    assert other.get(record(0).key) == record(0)
    other.write(record(1))
    assert other.records() == {r.key: r for r in (record(0), record(1))}
    one.refresh()
    assert one.records() == other.records()
    assert [file.name.split("-")[1] for file in results(one)] == ["gw0", "gw1"]
    assert Store(tmp_path, "later").records() == one.records()


def test_a_process_that_only_reads_leaves_no_file(tmp_path: Path) -> None:
    store = Store(tmp_path, "reader")
    store.close()
    assert results(store) == []


def test_a_line_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    line = line_of(record(0))
    file = store.root / "results-gw0-1.jsonl"
    file.write_bytes(line_of(record(1)) + line[:50])
    store.refresh()
    assert set(store.records()) == {record(1).key}
    assert store.bad_rows == []
    assert store.unfinished_lines() == [
        BadRow(file.name, 2, "cut off in the middle of the line")
    ]  # fmt: skip
    with file.open("ab") as stream:
        stream.write(line[50:])
    store.refresh()
    assert set(store.records()) == {record(0).key, record(1).key}
    assert store.unfinished_lines() == []


BAD = {
    "not JSON": (b"\x00\x01\xff", "codec can't decode"),
    "half a row": (line_of(record(9))[:80], "Unterminated|delimiter|Expecting"),
    "no object": (b"[1, 2]", "not an object"),
    "another schema": (b'{"kind": "rollout", "schema": 99}', "schema 99"),
    "a number that is none": (
        line_of(record(9)).rstrip().replace(b'"progress": 1.0', b'"progress": NaN'),
        "NaN is not a value of a record",
    ),
    "an edited key": (line_of(replace(record(9), key="0" * 20)).rstrip(), "key: it is not"),
    "a carriage return": (b'{"kind":\r"rollout"}', "kind 'rollout', schema None"),
    "a deep one": (b"[" * 200_000, "recursion"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named_and_hides_no_other(tmp_path: Path, case: str) -> None:
    line, reason = BAD[case]
    store = Store(tmp_path, "main")
    file = store.root / "results-gw0-1.jsonl"
    file.write_bytes(line_of(record(0)) + line + b"\n" + line_of(record(1)))
    store.refresh()
    assert set(store.records()) == {record(0).key, record(1).key}
    (bad,) = store.bad_rows
    assert (bad.file, bad.line) == (file.name, 2)
    assert re.search(reason, bad.reason), bad.reason
    assert store.unfinished_lines() == []


def test_two_outcomes_of_one_key_are_refused_with_file_line_and_key(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    store.write(record(0))
    other = store.root / "results-gw0-1.jsonl"
    other.write_bytes(line_of(record(1)) + line_of(record(0, success=False)))
    with pytest.raises(UsageError) as error:
        store.refresh()
    assert f"{other}, line 2" in str(error.value)
    assert record(0).key in str(error.value)
    assert "--vla-fresh" in str(error.value)
    with pytest.raises(UsageError, match="second, different outcome"):
        Store(tmp_path, "later")


def test_the_same_outcome_twice_is_one_record(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    store.write(record(0))
    again = replace(record(0), timing={"wall": 3.0}, where={"worker": "gw7"}, attempts=2)
    (store.root / "results-gw0-1.jsonl").write_bytes(line_of(again))
    store.refresh()
    assert store.records() == {record(0).key: record(0)}


def test_an_error_gives_way_to_an_outcome_and_never_the_reverse(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    store.write(record(0, error="simulator"))
    assert store.final(record(0).key) is not None, "of this session: not tried again"
    store.write(record(0))
    assert store.get(record(0).key) == record(0)
    store.write(record(0, error="simulator"))
    assert store.get(record(0).key) == record(0)


def test_an_error_of_an_earlier_session_is_not_final(tmp_path: Path) -> None:
    Store(tmp_path, "main").write(record(0, error="simulator"))
    later = Store(tmp_path, "main")
    assert later.get(record(0).key) is not None
    assert later.final(record(0).key) is None
    other = Store(tmp_path, "gw1")
    other.write(record(0, error="simulator"))
    later.refresh()
    assert later.final(record(0).key) is not None, "tried again by this session, and failed"


# Claims


def test_a_claim_excludes_other_processes_and_no_other_key(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    with child("hold", str(tmp_path), "k1") as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        taken = threading.Event()

        def claim() -> None:
            with store.claim("k1"):
                taken.set()

        waiting = threading.Thread(target=claim, daemon=True)
        waiting.start()
        with store.claim("k2"):
            assert not taken.wait(0.3)
        holder.stdin.write("stop\n")
        holder.stdin.flush()
        assert taken.wait(20)
        waiting.join()


def test_whoever_holds_a_claim_knows_what_others_recorded_of_it(tmp_path: Path) -> None:
    one, other = Store(tmp_path, "gw0"), Store(tmp_path, "gw1")
    with one.claim(record(0).key):
        one.write(record(0))
    with other.claim(record(1).key):
        assert other.final(record(1).key) is None
    with other.claim(record(0).key):
        assert other.final(record(0).key) == record(0)
    with one.claim_if_free(record(2).key) as claimed:
        assert claimed
        one.write(record(2))
    with other.claim_if_free(record(2).key) as claimed:
        assert claimed
        assert other.final(record(2).key) == record(2)


def test_a_store_does_not_read_its_own_lines_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, "gw0")
    monkeypatch.setattr("pytest_vla_shift.rollouts.store.read_row", lambda line: 1 / 0)
    for episode in range(3):
        with store.claim(record(episode).key):
            store.started(record(episode).key, "cell")
            store.write(record(episode))
    store.refresh()
    assert len(store.records()) == 3
    assert store.unfinished_lines() == store.bad_rows == []


def test_a_claim_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    with child("hold", str(tmp_path), "k1") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
        began = time.monotonic()
        with store.claim("k1"):
            assert time.monotonic() - began < 10


def test_a_claim_is_free_after_an_exception(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    with pytest.raises(ZeroDivisionError), store.claim("k1"):
        raise ZeroDivisionError
    with store.claim("k1"):
        pass


# Full disks


def test_a_full_disk_leaves_the_earlier_rows_whole(tmp_path: Path) -> None:
    rows = [replace(record(n), steps=0) for n in range(12)]
    (tmp_path / "rows.json").write_text(json.dumps([row.to_json() for row in rows]))
    limit = 3 * len(line_of(rows[0])) + 500
    with child("full", str(tmp_path), str(limit)) as process:
        out, _ = process.communicate(timeout=60)
    said = dict(line.split() for line in out.splitlines())
    assert process.returncode == 0
    written = {key for key, word in said.items() if word == "written"}
    assert set(said) == {row.key for row in rows}
    assert 1 <= len(written) < len(rows)

    store = Store(tmp_path, "reader")
    assert set(store.records()) == written, "a row that was reported as written is whole"
    assert store.bad_rows == []
    # What was cut off is the end of a file, and the next process writes the rest.
    assert all(bad.reason.startswith("cut off") for bad in store.unfinished_lines())
    assert len(store.unfinished_lines()) >= 1
    for row in rows:
        if row.key not in written:
            store.write(row)
    assert set(Store(tmp_path, "later").records()) == {row.key for row in rows}


def test_a_disk_that_has_room_again_gets_whole_rows_again(tmp_path: Path) -> None:
    rows = [replace(record(n), steps=0) for n in range(12)]
    (tmp_path / "rows.json").write_text(json.dumps([row.to_json() for row in rows]))
    limit = 3 * len(line_of(rows[0])) + 500
    with child("once", str(tmp_path), str(limit)) as process:
        out, _ = process.communicate(timeout=60)
    said = dict(line.split() for line in out.splitlines())
    failed = [key for key, word in said.items() if word != "written"]
    assert len(failed) == 1
    store = Store(tmp_path, "reader")
    assert set(store.records()) == {row.key for row in rows} - set(failed)
    # The line that was cut off stays the last of its file: nothing is appended to it.
    assert store.bad_rows == []
    assert len(store.unfinished_lines()) == 1
    assert len(results(store)) == 2


def test_actions_that_do_not_fit_leave_no_row_and_no_scrap(tmp_path: Path) -> None:
    rows = [record(0), replace(record(1), steps=0)]
    (tmp_path / "rows.json").write_text(json.dumps([row.to_json() for row in rows]))
    with child("full", str(tmp_path), "2900") as process:
        out, _ = process.communicate(timeout=60)
    assert dict(line.split() for line in out.splitlines()) == {
        rows[0].key: "StorageError",
        rows[1].key: "written",
    }
    store = Store(tmp_path, "reader")
    assert set(store.records()) == {rows[1].key}
    assert list((store.root / "actions").iterdir()) == []


# Actions and frames


def test_actions_come_back_bit_for_bit(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    actions = np.random.default_rng(0).standard_normal((31, 7))
    store.write(record(0), actions)
    found = store.actions(record(0).key)
    assert found is not None
    assert found.tobytes() == actions.tobytes()
    assert store.actions(record(1).key) is None


class Bomb:
    """Unpickling it makes a file."""

    path = ""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path(self.path),)  # type: ignore[return-value]


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive_file:
        archive_file.writestr(name, content)
    return buffer.getvalue()


def header(text: str) -> bytes:
    padded = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 7), }"

DAMAGED = {
    "empty": b"",
    "text": b"these are no actions",
    "cut off": npz(actions=np.zeros((50, 7)))[:-40],
    "another name": npz(deeds=np.zeros((2, 7))),
    "whole numbers": npz(actions=np.zeros((2, 7), dtype=np.int64)),
    "one dimension": npz(actions=np.zeros(7)),
    "no array": zipped("actions.npy", b"hello"),
    "an array of 50 TB": zipped("actions.npy", header(HUGE)),
    "bytes flipped": npz(actions=np.arange(70.0).reshape(10, 7)).replace(
        np.float64(33).tobytes(), np.float64(34).tobytes()
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_actions_are_told_with_their_file(tmp_path: Path, case: str) -> None:
    store = Store(tmp_path, "main")
    path = store.root / "actions" / "k.npz"
    path.write_bytes(DAMAGED[case])
    with pytest.raises(UnreadableActions, match=str(path)):
        store.actions("k")


def test_a_pickle_among_the_actions_is_never_executed(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    bomb = Bomb()
    bomb.path = str(tmp_path / "executed")
    objects = np.empty((1, 1), dtype=object)
    objects[0, 0] = bomb
    hostile = npz(actions=objects)
    pickle.loads(pickle.dumps(bomb))  # noqa: S301 - the bomb works
    assert (tmp_path / "executed").exists()
    (tmp_path / "executed").unlink()
    for content in (hostile, pickle.dumps(bomb), zipped("actions.npy", pickle.dumps(bomb))):
        (store.root / "actions" / "k.npz").write_bytes(content)
        with pytest.raises(UnreadableActions):
            store.actions("k")
        assert not (tmp_path / "executed").exists()


def test_frames_come_back_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path, "main")
    grey = np.full((16, 24, 3), 127, dtype=np.uint8)
    store.write(record(0), None, {"front": grey, "wrist": grey})
    frames = store.frames(record(0).key)
    assert set(frames) == {"front", "wrist"}
    assert frames["front"].shape == (16, 24, 3)
    assert np.abs(frames["front"].astype(int) - 127).max() <= 2
    (store.root / "frames" / record(0).key / "wrist.jpg").write_bytes(b"broken")
    assert set(store.frames(record(0).key)) == {"front"}
    assert store.frames(record(1).key) == {}


# Folders


def test_an_archive_takes_everything_and_deletes_nothing(tmp_path: Path) -> None:
    assert archive(tmp_path) is None
    for number, store in enumerate([Store(tmp_path, "main"), Store(tmp_path, "gw0")]):
        store.write(record(number), np.zeros((2, 7)))
        store.close()
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "k.mp4").write_bytes(b"old")
    (tmp_path / "rollouts" / "archive" / "003").mkdir(parents=True)

    target = archive(tmp_path)
    assert target == tmp_path / "rollouts" / "archive" / "004"
    assert target is not None
    assert len(list(target.glob("results-*.jsonl"))) == 2
    assert len(list((target / "actions").iterdir())) == 2
    assert (target / "videos" / "k.mp4").read_bytes() == b"old"
    assert not (tmp_path / "videos").exists()

    store = Store(tmp_path, "main")
    assert store.records() == {}
    assert store.actions(record(0).key) is None
    store.write(record(0, success=False))
    assert store.get(record(0).key) == record(0, success=False)


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--vla-reports"):
        Store(tmp_path / "file" / "run", "main")
