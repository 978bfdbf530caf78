"""Weights from elsewhere: what is not a plain network of the contract is refused, and said why."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

from pytest_vla_shift.policies import tiny_file
from pytest_vla_shift.policies.tiny import Tiny
from pytest_vla_shift.policies.tiny_file import Refused
from pytest_vla_shift.protocol.errors import UsageError
from tests.policies.tiny_models import (
    FLOAT,
    INT64,
    UINT8,
    WORDS,
    Recipe,
    message,
    node,
    number,
    varint,
)

EXTERNAL = message(13, message(1, "location") + message(2, "../../secrets"))
INNER = message(1, "then_branch") + number(20, 5)


def branch(inner: bytes) -> bytes:
    """An attribute with a network in it."""
    return message(5, INNER + message(6, inner))


def nested(depth: int) -> bytes:
    inner = node("Identity", ["a"], "b")
    for _ in range(depth):
        inner = node("If", ["a"], "b", branch(inner))
    return inner


@pytest.mark.parametrize(
    "recipe,words",
    [
        (Recipe(weights=EXTERNAL), "keeps weights in another file"),
        (Recipe(weights=number(14, 1)), "keeps weights in another file"),
        (Recipe(node=message(5, message(5, EXTERNAL))), "keeps weights in another file"),
        (Recipe(node=message(5, message(10, EXTERNAL))), "keeps weights in another file"),
        (Recipe(graph=node("If", ["a"], "b", branch(message(5, EXTERNAL)))), "another file"),
        (Recipe(domain="com.microsoft"), "'Identity' of 'com.microsoft', which is not ONNX's own"),
        (Recipe(operator="Exec", domain="mine"), "'Exec' of 'mine'"),
        (Recipe(model=message(25, message(1, "mine"))), "functions of its own"),
        (Recipe(model=message(20, b"")), "a part for training"),
        (Recipe(graph=message(15, b"")), "sparse weights"),
        (Recipe(node=message(5, message(22, b""))), "sparse weights"),
        (Recipe(graph=node("Loop", ["a"], "b")), "'Loop', which may go on for ever"),
        (Recipe(graph=node("If", ["a"], "b", branch(node("Scan", ["a"], "b")))), "'Scan'"),
        (Recipe(graph=node("RandomNormal", [], "b")), "'RandomNormal', whose answers no seed"),
        (Recipe(graph=nested(20)), "more than 8 deep"),
        (Recipe(weights=number(1, 20_000_000)), "more than 16,000,000 numbers"),
        (Recipe(weights=message(1, varint(4000) + varint(5000))), "more than 16,000,000 numbers"),
        (Recipe(graph=node("Identity", ["a"], "b") * 10_001), "more than 10000 operators"),
        (Recipe(operator="NoSuchOperator"), "is not taken by onnxruntime"),
    ],
)
def test_what_is_not_a_plain_network_is_refused(recipe: Recipe, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"weights 'other\.onnx': the file") as refusal:
        Tiny(weights=str(recipe.write(tmp_path)))
    assert words in str(refusal.value)


def test_a_choice_between_networks_is_read_and_counted() -> None:
    plain = tiny_file.contents(Recipe().data())
    chosen = tiny_file.contents(Recipe(graph=nested(3)).data())
    assert chosen.operators["If"] == 3
    assert chosen.operators["Identity"] == plain.operators["Identity"] + 1


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(graph=nested(3), weights=number(1, 7))])
def test_every_beginning_of_a_file_is_refused_or_read_without_another_error(
    recipe: Recipe,
) -> None:
    data = recipe.data()
    whole = tiny_file.contents(data)
    for size in [*range(0, 400), *range(400, len(data), 97)]:
        try:
            part = tiny_file.contents(data[:size])
        except Refused:
            continue
        assert part.numbers <= whole.numbers


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a network",
        b"\x00" * 40,
        b"\xff" * 40,
        bytes([7 << 3 | 3]),  # a kind of field that ONNX does not have
        varint(1 << 40 | 7 << 3 | 2) + b"\x00",  # a number of a field that has none so large
        Recipe().data() + b"\x01",
        Recipe().data()[4:8] + b"ORTM" + bytes(100),  # onnxruntime's own format
    ],
)
def test_what_is_no_onnx_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"weights 'other\.onnx': the file"):
        Tiny(weights=str(path))


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    with path.open("wb") as stream:
        stream.truncate(tiny_file.MOST_BYTES * 100)  # holes: no bytes on the disk
    with pytest.raises(UsageError, match="larger than 64 MiB"):
        Tiny(weights=str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'none\.onnx' cannot be read: .*No such file"):
        Tiny(weights=str(tmp_path / "none.onnx"))


@pytest.mark.parametrize(
    "recipe,words",
    [
        (
            Recipe(inputs={"words": (INT64, ("B", 24))}),
            r"input 'words' of tensor\(int64\) with shape \['B', 24\], not of tensor\(int64\) with"
            r" shape \[B, 40\]",
        ),
        (Recipe(inputs={"proprio": (FLOAT, (3, 12))}), r"'proprio' .*\[3, 12\], not .*\[B, 12\]"),
        (
            Recipe(inputs={"extra": (UINT8, ("B", 1))}),
            "inputs pictures, proprio, words, extra, not",
        ),
        (Recipe(outputs={"seen": (FLOAT, ("B", 22))}), "outputs mean, scale, gripper, seen, not"),
        (Recipe(vocabulary=None), "no JSON list of words"),
        (Recipe(vocabulary="{basket"), "no JSON list of words"),
        (Recipe(vocabulary='{"basket": 2}'), "a JSON list of 1 to 20000 words"),
        (Recipe(vocabulary="[]"), "a JSON list of 1 to 20000 words"),
        (Recipe(vocabulary='["basket", 3]'), "has 3 in its vocabulary"),
        (Recipe(vocabulary=("pick", "Ketchup")), "'Ketchup' in its vocabulary"),
        (Recipe(vocabulary=("pick", "pick up")), "'pick up' in its vocabulary"),
        (Recipe(vocabulary=("pick", "pick")), "a word twice"),
    ],
)
def test_a_file_of_another_contract_is_refused(recipe: Recipe, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        Tiny(weights=str(recipe.write(tmp_path)))


def test_a_file_without_room_for_its_vocabulary_fails_its_trial(tmp_path: Path) -> None:
    path = Recipe(vectors=len(WORDS) + 1).write(tmp_path)
    with pytest.raises(UsageError, match=r"'other\.onnx': a trial fails: .*idx=10 must be within"):
        Tiny(weights=str(path))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e6])
def test_a_network_whose_numbers_are_not_finite_fails_its_trial(
    wrong: float, tmp_path: Path
) -> None:
    path = Recipe(bias=wrong).write(tmp_path)
    with pytest.raises(UsageError, match=r"'other\.onnx': a trial fails: .*not finite"):
        Tiny(weights=str(path))


def test_a_network_that_is_too_sure_fails_its_trial(tmp_path: Path) -> None:
    path = Recipe(bias=-1e6).write(tmp_path)
    with pytest.raises(UsageError, match="a standard deviation that is not above 0"):
        Tiny(weights=str(path))
