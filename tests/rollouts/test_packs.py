"""Packed runs: the same bytes for the same outcomes, read back whole, and refused otherwise."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.rollouts import packs
from pytest_vla_shift.rollouts.packs import (
    FACTS,
    ROLLOUTS,
    Pack,
    is_pack,
    published,
    read_pack,
    write_pack,
)
from tests.rollouts.packed import small_pack


def as_published() -> Pack:
    found = small_pack()
    return replace(found, records={key: published(row) for key, row in found.records.items()})


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    write_pack(tmp_path / "demo", as_published())
    return tmp_path / "demo"


def content_of(directory: Path) -> bytes:
    return lzma.decompress((directory / ROLLOUTS).read_bytes())


def put(directory: Path, content: bytes, **facts: object) -> None:
    """Another content under its own right digest, as whoever means harm would."""
    (directory / ROLLOUTS).write_bytes(lzma.compress(content))
    told = json.loads((directory / FACTS).read_text())
    told = {**told, "sha256": sha256(content).hexdigest(), **facts}
    (directory / FACTS).write_text(json.dumps(told))


def test_what_is_read_is_what_was_written(packed: Path) -> None:
    assert is_pack(packed)
    assert not is_pack(packed.parent)
    assert read_pack(packed) == as_published()
    assert sorted(path.name for path in packed.iterdir()) == sorted((FACTS, ROLLOUTS))
    assert [path.name for path in packed.parent.iterdir()] == ["demo"]


def test_the_same_outcomes_give_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    elsewhere = {
        key: published(replace(row, timing={"wall": 9.0}, where={"worker": "main", "node": "n7"}))
        for key, row in small_pack().records.items()
    }
    write_pack(tmp_path / "again", replace(small_pack(), records=elsewhere))
    for name in (FACTS, ROLLOUTS):
        assert (tmp_path / "again" / name).read_bytes() == (packed / name).read_bytes()


def test_a_folder_that_is_there_is_left_alone(packed: Path) -> None:
    before = (packed / ROLLOUTS).read_bytes()
    with pytest.raises(UsageError, match="there already"):
        write_pack(packed, as_published())
    assert (packed / ROLLOUTS).read_bytes() == before


def test_a_pack_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        raise OSError("no room")

    monkeypatch.setattr(lzma, "compress", refuse)
    with pytest.raises(OSError, match="no room"):
        write_pack(tmp_path / "demo", as_published())
    assert list(tmp_path.iterdir()) == []


def first_line(content: bytes, **changed: object) -> bytes:
    head, _, rest = content.partition(b"\n")
    return json.dumps({**json.loads(head), **changed}).encode() + b"\n" + rest


def rows(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a row twice": (lambda c: c + rows(c)[1], "line 20: rollout .* is there twice"),
    "no last newline": (lambda c: c[:-1], "its last line has no end"),
    "empty": (lambda c: b"", "no end"),
    "a row nobody asked for": (
        lambda c: first_line(c, nodes=json.loads(rows(c)[0])["nodes"][2:]),
        "no rollout that the plan asks for",
    ),
    "only begun": (
        lambda c: c + b'{"kind":"started","schema":2,"key":"k","cell":"c"}\n',
        "line 20: no rollout",
    ),
    "another outcome": (
        lambda c: c.replace(b'"success":false', b'"success":null'),
        "success: None with status 'done'",
    ),
    "not a number": (lambda c: c.replace(b'"steps":100', b'"steps":NaN', 1), "line 2: NaN"),
    "another key": (lambda c: c.replace(b'"condition":"clean"}', b'"condition":"c"}', 1), "key"),
    "rows of another schema": (
        lambda c: c.replace(b'"kind":"rollout","schema":2', b'"kind":"rollout","schema":9', 1),
        "line 2: a rollout of schema 9",
    ),
    "a plan of another schema": (lambda c: first_line(c, schema=9), "no plan of this schema"),
    "no plan": (lambda c: c.partition(b"\n")[2], "line 1: no plan"),
    "half a plan": (lambda c: first_line(c, nodes=[["a"]]), "cannot be read"),
    "no policy": (lambda c: first_line(c, policy={"name": "p"}), "line 1: no plan .revision"),
    "versions of nothing": (lambda c: first_line(c, versions={"a": {}}), "line 1: no plan"),
    "a shard": (lambda c: first_line(c, shard=[1, 2]), "the plan of a shard"),
    "deep": (lambda c: b"[" * 100_000 + b"\n", "cannot be read"),
    "another file": (lambda c: b"\x80\x04cos\nsystem\n.", "cannot be read"),
}


@pytest.mark.parametrize("what", WRONG)
def test_content_that_is_no_run_is_refused(packed: Path, what: str) -> None:
    change, told = WRONG[what]
    before = content_of(packed)
    after = change(before)
    assert after != before
    put(packed, after)
    with pytest.raises(UsageError, match=told) as refused:
        read_pack(packed)
    assert len(str(refused.value)) < 500 + len(str(packed))


def test_content_that_was_changed_is_refused(packed: Path) -> None:
    content = content_of(packed).replace(b'"success":false', b'"success":true ')
    (packed / ROLLOUTS).write_bytes(lzma.compress(content))
    with pytest.raises(UsageError, match="another digest"):
        read_pack(packed)


FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda d: d[:-5], "cut off"),
    "nothing": (lambda d: b"", "cut off"),
    "followed by another": (lambda d: d + d, "something follows its end"),
    "damaged": (lambda d: d[:60] + bytes([d[60] ^ 255]) + d[61:], "cannot be read"),
    "gzip": (lambda d: b"\x1f\x8b" + d, "cannot be read"),
    "an older format": (
        lambda d: lzma.compress(lzma.decompress(d), format=lzma.FORMAT_ALONE),
        "cannot be read",
    ),
    "hungry": (lambda d: lzma.compress(lzma.decompress(d), preset=9), "[Mm]emory"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_no_archive_of_ours_is_refused(packed: Path, what: str) -> None:
    change, told = FILES[what]
    path = packed / ROLLOUTS
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=told):
        read_pack(packed)


def test_no_more_is_unpacked_than_a_run_could_be(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(content_of(packed))
    monkeypatch.setattr(packs, "MOST_UNPACKED", size)
    read_pack(packed)
    monkeypatch.setattr(packs, "MOST_UNPACKED", size - 1)
    with pytest.raises(UsageError, match="bytes are packed in it"):
        read_pack(packed)


def test_an_archive_that_grows_without_end_is_left_early(packed: Path) -> None:
    put(packed, bytes(2**22))  # less than 1 kB of file
    monkey = pytest.MonkeyPatch()
    monkey.setattr(packs, "MOST_UNPACKED", 2**16)
    most: list[int] = []
    made = lzma.LZMADecompressor

    class Watched:
        def __init__(self, *args: object, **kwargs: object) -> None:
            self._inner = made(*args, **kwargs)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def decompress(self, data: bytes, max_length: int = -1) -> bytes:
            part = self._inner.decompress(data, max_length)
            most.append(len(part))
            return part

    monkey.setattr(lzma, "LZMADecompressor", Watched)
    try:
        with pytest.raises(UsageError, match="more than 65536 bytes"):
            read_pack(packed)
    finally:
        monkey.undo()
    assert sum(most) == 2**16 + 1


@pytest.mark.parametrize("name,limit", [(FACTS, "MOST_FACTS"), (ROLLOUTS, "MOST_PACKED")])
def test_a_file_larger_than_any_of_ours_is_not_read(
    packed: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: str
) -> None:
    monkeypatch.setattr(packs, limit, (packed / name).stat().st_size - 1)
    with pytest.raises(UsageError, match=rf"{name} cannot be read: \d+ bytes, where"):
        read_pack(packed)


@pytest.mark.parametrize("name", [FACTS, ROLLOUTS])
def test_what_is_no_file_is_not_waited_for(packed: Path, name: str) -> None:
    (packed / name).unlink()
    os.mkfifo(packed / name)
    with pytest.raises(UsageError, match="not a file"):
        read_pack(packed)
    (packed / name).unlink()
    with pytest.raises(UsageError, match="No such file"):
        read_pack(packed)


@pytest.mark.parametrize(
    "facts,told",
    [
        ({"kind": "run"}, "does not say that this is a pack"),
        ({"schema": 2}, "schema 2; this version reads 1"),
        ({"command": None}, "not a text"),
        ({"drawn_with": "x"}, "not a text"),
        ({"drawn_with": [1]}, "not a text"),
    ],
)
def test_facts_of_something_else_are_refused(
    packed: Path, facts: dict[str, object], told: str
) -> None:
    put(packed, content_of(packed), **facts)
    with pytest.raises(UsageError, match=told):
        read_pack(packed)
