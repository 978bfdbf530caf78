"""What somebody truncated, overwrote or planted in a store: named, and the rest is kept."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.rollouts.action_file import UnreadableActions
from pytest_vla_shift.rollouts.rows import BadRow, OtherSchema, read_row
from pytest_vla_shift.rollouts.store import Store
from tests.rollouts.test_store import line_of, record

OLD = Path(__file__).parent / "schema_1"
ROWS = [replace(record(n), instruction="put it there: π") for n in range(3)]
FILE = b"".join(line_of(row) for row in ROWS)
TWO = b"".join(line_of(row) for row in ROWS[:2])


def store_with(folder: Path, content: bytes) -> Store:
    rollouts = folder / "rollouts"
    rollouts.mkdir(parents=True, exist_ok=True)
    (rollouts / "results-gw0-1.jsonl").write_bytes(content)
    return Store(folder, "main")


# Rows


def test_a_file_cut_at_any_byte_keeps_every_row_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    ends = [0, *(n + 1 for n, byte in enumerate(TWO) if byte == ord("\n"))]
    for cut in range(len(TWO) + 1):
        store = store_with(folder, TWO[:cut])
        whole = sum(end <= cut for end in ends) - 1
        assert set(store.records()) == {row.key for row in ROWS[:whole]}, cut
        assert store.bad_rows == []
        cut_off = [] if cut in ends else [whole + 1]
        assert [bad.line for bad in store.unfinished_lines()] == cut_off


@given(start=st.integers(0, len(FILE)), garbage=st.binary(min_size=1, max_size=200))
@settings(max_examples=150, deadline=None)
def test_bytes_overwritten_anywhere_cost_the_rows_that_they_hit_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, start: int, garbage: bytes
) -> None:
    content = FILE[:start] + garbage + FILE[start + len(garbage) :]
    store = store_with(tmp_path_factory.getbasetemp() / "overwritten", content)
    first = 0
    for row in ROWS:
        line = line_of(row)
        # The newline before it is a row's as well: without that, it is the end of another line.
        hit = start < first + len(line) and first - 1 < start + len(garbage)
        if not hit:
            assert store.get(row.key) == row
        first += len(line)
    # Whatever was read is one of the rows, but for a value that the garbage may have spelt.
    assert set(store.records()) <= {row.key for row in ROWS}
    assert all(bad.file == "results-gw0-1.jsonl" for bad in store.bad_rows)


def edited(**fields: object) -> bytes:
    return json.dumps({**ROWS[0].to_json(), **fields}).encode()


GARBAGE = {
    "NULs": b"\0" * 4000,
    "ten megabytes": b"x" * 10_000_000,
    "deep": b'{"kind":' + b"[" * 100_000,
    "a deep row": line_of(ROWS[0]).strip().replace(b"[]", b"[" * 5000 + b"]" * 5000, 1),
    "a name twice": line_of(ROWS[0]).strip()[:-1] + b', "success": false}',
    "a huge whole number": edited(steps=10**400),
    "a number of 5000 digits": edited(steps=7).replace(b'"steps": 7', b'"steps": ' + b"9" * 5000),
    "an infinite time": edited(timing={"wall": 1}).replace(b'"wall": 1', b'"wall": 1e999'),
    "a huge time": edited(timing={"wall": 10**400}),
    "Latin-1": edited(instruction="?").replace(b'"?"', b'"\xe4"'),
    "UTF-16": line_of(ROWS[0]).decode().strip().encode("utf-16"),
    "half a character": edited(instruction="?").replace(b'"?"', b'"\\ud83d"'),
    "half a character in bytes": edited(instruction="?").replace(b'"?"', b'"\xed\xa0\xbd"'),
    "truth for a count": edited(steps=True),
    "a schema that is true": edited(schema=True),
    "a schema in words": edited(schema="2"),
    "another schema and nothing else": b'{"kind": "rollout", "schema": 1}',
}  # fmt: skip


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_between_rows_is_one_bad_row_with_a_short_reason(tmp_path: Path, case: str) -> None:
    line = GARBAGE[case].replace(b"\n", b"")
    store = store_with(tmp_path, line_of(ROWS[1]) + line + b"\n" + line_of(ROWS[2]))
    assert store.records() == {row.key: row for row in ROWS[1:]}
    (bad,) = store.bad_rows
    assert bad.where == "results-gw0-1.jsonl, line 2"
    assert 0 < len(bad.reason) < 400
    # The rollout can be written, and is read, by whoever comes next.
    store.write(ROWS[0])
    assert Store(tmp_path, "later").get(ROWS[0].key) == ROWS[0]


def test_a_tail_without_an_end_is_looked_at_once(tmp_path: Path) -> None:
    store = store_with(tmp_path, line_of(ROWS[0]) + b"x" * 10_000_000)
    (bad,) = store.unfinished_lines()
    assert bad == BadRow("results-gw0-1.jsonl", 2, "cut off in the middle of the line")
    file = store.root / "results-gw0-1.jsonl"
    before = os.stat(file).st_atime_ns  # noqa: PTH116
    os.utime(file, ns=(before - 10**12, os.stat(file).st_mtime_ns))  # noqa: PTH116
    store.refresh()
    assert os.stat(file).st_atime_ns == before - 10**12  # noqa: PTH116


def no_file(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("plant", [no_file, pipe, dangling, endless])
def test_what_is_no_file_of_records_is_named_once_and_never_opened(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    store = store_with(tmp_path, FILE)
    plant(store.root / "results-gw1-2.jsonl")
    for opened in (store, Store(tmp_path, "later")):
        opened.refresh()
        opened.refresh()
        assert opened.records() == {row.key: row for row in ROWS}
        (bad,) = opened.bad_rows
        assert bad.where == "results-gw1-2.jsonl"


def test_a_link_to_a_file_of_records_is_read(tmp_path: Path) -> None:
    store = store_with(tmp_path / "run", FILE)
    file = store.root / "results-gw0-1.jsonl"
    shutil.move(file, tmp_path / "elsewhere.jsonl")
    file.symlink_to(tmp_path / "elsewhere.jsonl")
    assert set(Store(tmp_path / "run", "later").records()) == {row.key for row in ROWS}


# Schemas


def test_rows_of_schema_1_are_refused_by_name_and_never_mixed(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(UsageError) as error:
        Store(tmp_path / "run", "main")
    message = str(error.value)
    assert "results-main-4648ff44f40a.jsonl, line 2: a rollout of schema 1" in message
    assert "reads and writes schema 2" in message
    assert "--vla-run=NAME" in message
    assert "--vla-fresh" in message


def test_a_row_of_a_newer_schema_is_refused_too(tmp_path: Path) -> None:
    newer = {"kind": "rollout", "schema": 3, "identity": {"schema": 3}, "key": "k", "new": []}
    with pytest.raises(OtherSchema, match="schema 3"):
        read_row(json.dumps(newer).encode())
    store = store_with(tmp_path, FILE)
    with (store.root / "results-gw0-1.jsonl").open("ab") as stream:
        stream.write(json.dumps(newer).encode() + b"\n")
    with pytest.raises(UsageError, match="line 4: a rollout of schema 3"):
        store.refresh()


# Actions, pictures, fingerprints


def archive_of(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", ".").replace("_up_", "../"), content)
    return buffer.getvalue()


def npy(shape: tuple[int, ...], content: bytes = b"", descr: str = "<f8") -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape})
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


class Bomb:
    """Unpickling it makes a file."""

    path = ""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (self.path,)


HOSTILE = {
    "claims 50 TB": lambda: archive_of(actions__npy=npy((999_999_999_999, 7))),
    "claims more than it has": lambda: archive_of(actions__npy=npy((4, 7), bytes(100))),
    "has more than it claims": lambda: archive_of(actions__npy=npy((1, 7), bytes(5600))),
    "packs 80 MB": lambda: archive_of(actions__npy=npy((10_000, 1000), bytes(80_000_000))),
    "a negative shape": lambda: archive_of(actions__npy=npy((-1, -1), bytes(8))),
    "a structured type": lambda: archive_of(actions__npy=npy((1, 7), bytes(56), "[('a', '<f8')]")),
    "objects": lambda: archive_of(actions__npy=npy((1, 1), pickle.dumps([1]), "|O")),
    "the header is code": lambda: archive_of(
        actions__npy=npy((1, 7), bytes(56)).replace(b"False", b"exit(")
    ),
    "only paths that lead out": lambda: archive_of(_up_actions__npy=npy((1, 7), bytes(56))),
    "a pickle": lambda: pickle.dumps([1.0]),
    "an empty archive": lambda: archive_of(),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_actions_are_refused_with_their_file(tmp_path: Path, case: str) -> None:
    store = Store(tmp_path, "main")
    (store.root / "actions" / "k.npz").write_bytes(HOSTILE[case]())
    with pytest.raises(UnreadableActions, match=r"actions/k\.npz"):
        store.actions("k")


def test_a_folder_in_the_place_of_actions_is_told_and_nothing_hangs_on_a_pipe(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path, "main")
    (store.root / "actions" / "a.npz").mkdir()
    os.mkfifo(store.root / "actions" / "b.npz")
    for key in "ab":
        with pytest.raises(UnreadableActions, match="not a file"):
            store.actions(key)


@pytest.mark.parametrize("order", ["C", "F"])
def test_honest_actions_of_either_order_load(tmp_path: Path, order: str) -> None:
    store = Store(tmp_path, "main")
    actions = np.asarray(np.arange(21.0).reshape(3, 7), order="C" if order == "C" else "F")
    np.savez_compressed(store.root / "actions" / "k.npz", actions=actions)
    found = store.actions("k")
    assert found is not None
    np.testing.assert_array_equal(found, actions)


def jpeg_header(height: int, width: int) -> bytes:
    """A picture that claims a size and has nothing in it."""
    frame = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8\xff\xc0" + frame + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\xff\xd9"


@pytest.mark.parametrize(
    "content",
    [b"", b"no picture", b"\xff\xd8\xff", jpeg_header(65_000, 65_000), jpeg_header(8, 8)[:20]],
    ids=["empty", "text", "cut off", "4 gigapixels", "half a header"],
)
def test_a_picture_that_is_none_is_left_out(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("PIL")
    store = Store(tmp_path, "main")
    store.write(ROWS[0], None, {"front": np.zeros((8, 8, 3), np.uint8)})
    folder = store.root / "frames" / ROWS[0].key
    (folder / "wrist.jpg").write_bytes(content)
    (folder / "side.jpg").mkdir()
    assert set(store.frames(ROWS[0].key)) == {"front"}


FIELDS = {"state.qpos": "a" * 32, "model.body_pos": "b" * 32}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 10,
        b"[" * 200_000,
        b'{"state.qpos": 1}',
        b'{"state.qpos": "c"}',
        pickle.dumps(FIELDS),
    ],
    ids=["empty", "NULs", "deep", "a number", "of another state", "a pickle"],
)
def test_a_damaged_fingerprint_is_none_and_is_made_again(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path, "main")
    name = digest(FIELDS)
    store.write(replace(ROWS[0], fingerprint=name), None, None, FIELDS)
    assert store.fingerprint(name) == FIELDS
    (store.root / "fingerprints" / f"{name}.json").write_bytes(content)
    later = Store(tmp_path, "later")
    assert later.fingerprint(name) is None
    later.write(replace(ROWS[1], fingerprint=name), None, None, FIELDS)
    assert later.fingerprint(name) == FIELDS
    assert Store(tmp_path, "reader").fingerprint(name) == FIELDS


def test_a_fingerprints_name_leads_nowhere_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "run", "main")
    (tmp_path / "secret.json").write_text(json.dumps(FIELDS))
    assert store.fingerprint("../../../secret") is None
    assert store.fingerprint(str(tmp_path / "secret")) is None
    assert store.fingerprint("") is None


def test_no_pickle_of_a_store_is_ever_executed(tmp_path: Path) -> None:
    bomb = Bomb()
    bomb.path = str(tmp_path / "executed")
    hostile = pickle.dumps(bomb)
    pickle.loads(hostile)  # noqa: S301 - the bomb works
    (tmp_path / "executed").rmdir()
    store = store_with(tmp_path / "run", FILE + hostile.replace(b"\n", b"") + b"\n")
    key = ROWS[0].key
    (store.root / "frames" / key).mkdir()
    for place in (f"actions/{key}.npz", f"frames/{key}/front.jpg", f"fingerprints/{'a' * 20}.json"):
        (store.root / place).write_bytes(hostile)
    with pytest.raises(UnreadableActions):
        store.actions(key)
    assert store.frames(key) == {}
    assert store.fingerprint("a" * 20) is None
    assert len(store.bad_rows) == 1
    assert not (tmp_path / "executed").exists()
