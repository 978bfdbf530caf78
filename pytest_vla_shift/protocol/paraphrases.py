"""The sentences of LIBERO-CTRL's language axis: reviewed data, read strictly.

Three levels, each inside the next (LIBERO-CTRL, section 3.2 and Table 1): L1 says other words, L2
also rewrites local structure, L3 also the sentence's frame. The paper publishes one of its
sentences, which is here; the others are this package's own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.tables import Table

COUNT = 10
"""Paraphrases of a task at each level: one a configuration."""

DEPTHS = 3


@dataclass(frozen=True, slots=True)
class Rewording:
    """One paraphrase at the three levels, and what each level changed.

    Attributes:
        sentences: at L1, L2 and L3.
        words: what L1 says that the instruction does not. All of it is in L2 and in L3.
        structure: what L2 says that L1 does not. All of it is in L3.
        frame: what L3 says that L2 does not.
    """

    sentences: tuple[str, str, str]
    words: tuple[str, ...]
    structure: tuple[str, ...]
    frame: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paraphrases:
    """All paraphrases of one task.

    Attributes:
        instruction: the task's own sentence, which they stand for.
        rewordings: :data:`COUNT` of them.
    """

    instruction: str
    rewordings: tuple[Rewording, ...]


def paraphrases(task_suite: str, task: str) -> Paraphrases:
    """The paraphrases of a task.

    Raises:
        ValueError: there are none for it.
        UsageError: the data is damaged; the message says where.
    """
    found = _task_suite(task_suite) if task_suite in task_suites() else {}
    if task not in found:
        raise ValueError(
            f"no paraphrases were written for task {task!r} of {task_suite!r};"
            f" there are some for the tasks of {', '.join(task_suites())}"
        )
    return found[task]


@cache
def task_suites() -> tuple[str, ...]:
    """Names of the task suites that have paraphrases, sorted."""
    return tuple(sorted(p.name[:-5] for p in _FOLDER.iterdir() if p.name.endswith(".toml")))


def parse(text: str, where: str) -> dict[str, Paraphrases]:
    """Task -> paraphrases, from one file's text.

    Args:
        text: TOML: a table a task with ``instruction`` and the sub-tables ``0`` ... ``9``.
        where: what messages call it.

    Raises:
        UsageError: something is missing, unknown, malformed, said twice, or not nested.
    """
    root = Table(tomllib.loads(text), where)
    found = {task: _paraphrases(root.table(task)) for task in root.names()}
    root.finish()
    return found


def words_of(sentence: str) -> tuple[str, ...]:
    """The sentence's words, without commas and colons; a possessive ``'s`` is a word of its own."""
    return tuple(re.findall(r"[a-z]+(?:-[a-z]+)*|'s", sentence))


def says(sentence: str, piece: str) -> bool:
    """Whether the words of ``piece`` stand in ``sentence``, next to each other and in order."""
    return f" {' '.join(words_of(piece))} " in f" {' '.join(words_of(sentence))} "


_FOLDER = files("pytest_vla_shift.protocol") / "paraphrases" / "libero_ctrl"


@cache
def _task_suite(name: str) -> dict[str, Paraphrases]:
    return parse((_FOLDER / f"{name}.toml").read_text("utf-8"), f"paraphrases {name!r}")


def _paraphrases(table: Table) -> Paraphrases:
    instruction = _sentence(table, "instruction")
    rewordings = tuple(_rewording(table.table(str(i)), instruction) for i in range(COUNT))
    table.finish()
    seen = {words_of(instruction)}
    for rewording in rewordings:
        for sentence in rewording.sentences:
            if words_of(sentence) in seen:
                raise UsageError(f"{table.where}: {sentence!r} is said twice")
            seen.add(words_of(sentence))
    return Paraphrases(instruction, rewordings)


def _rewording(table: Table, instruction: str) -> Rewording:
    first, second, third = (_sentence(table, f"L{depth}") for depth in range(1, DEPTHS + 1))
    changed = tuple(table.texts(key) for key in ("words", "structure", "frame"))
    table.finish()
    _check_change(table.where, "words", changed[0], instruction, (first, second, third))
    _check_change(table.where, "structure", changed[1], first, (second, third))
    _check_change(table.where, "frame", changed[2], second, (third,))
    return Rewording((first, second, third), *changed)


def _check_change(
    where: str, what: str, pieces: Sequence[str], before: str, after: Sequence[str]
) -> None:
    """``pieces`` is all that a level adds, it is new there, and deeper levels keep it."""
    for piece in pieces:
        if says(before, piece):
            raise UsageError(f"{where}: {what} {piece!r} is already in {before!r}")
        for sentence in after:
            if not says(sentence, piece):
                raise UsageError(f"{where}: {what} {piece!r} is not in {sentence!r}")
    new = set(words_of(after[0])) - set(words_of(before)) - _words_of_all(pieces)
    if new:
        raise UsageError(f"{where}: {what} does not list {sorted(new)[0]!r} of {after[0]!r}")


def _words_of_all(pieces: Iterable[str]) -> set[str]:
    return {word for piece in pieces for word in words_of(piece)}


def _sentence(table: Table, key: str) -> str:
    sentence = table.text(key)
    if not re.fullmatch(r"[a-z]+(?:[',:-]?[ ]?[a-z]+)*", sentence):
        raise UsageError(
            f"{table.where}: {key!r} must be lower-case words without a final stop, as LIBERO's"
            f" own instructions are, not {sentence!r}"
        )
    return sentence
