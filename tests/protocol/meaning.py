"""What a sentence asks for, read by the table of synonyms: an oracle for paraphrases.

Not a parser of English: it reads the sentences that we write, and answers with other facts, not
with an error, where one names something else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_vla_shift.protocol.paraphrases import words_of

HERE = Path(__file__).parent
TABLE: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    (HERE / "synonyms.toml").read_text("utf-8")
)

Fact = tuple[str, ...]
"""``(relation, thing, other thing ...)`` or ``(action, thing)``."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A phrase of the table in a sentence.

    Attributes:
        kind: the table's section.
        name: what the phrase stands for.
        start, end: where it is, in characters.
    """

    kind: str
    name: str
    start: int
    end: int


def normal(sentence: str) -> str:
    """Words with one space between them, and what is done before what it is done to.

    ``turn the stove on`` becomes ``turn on the stove``.
    """
    text = " ".join(words_of(sentence))
    for parted, whole in _PARTED:
        text = parted.sub(whole, text)
    return text


def mentions(text: str) -> list[Mention]:
    """All phrases of the table in a :func:`normal` sentence, in order."""
    return [
        Mention(*_MEANS[found.group()], found.start(), found.end()) for found in _ANY.finditer(text)
    ]


@lru_cache(maxsize=64)  # one sentence is held against many tasks
def facts(text: str) -> tuple[Fact, ...]:
    """What a :func:`normal` sentence asks for, each fact once, in the order in which it is said.

    A thing that is named is what later relations are of, until the next one is; things named
    next to each other are so together. ``it`` after a relation or an action is the last thing to
    which something was brought, and that is where something is that is put inside.
    """
    reader = _Reader()
    for mention in mentions(text):
        reader.take(mention)
    reader.finish()
    return tuple(dict.fromkeys(reader.facts))


def plain(found: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """Facts in which on top of something is on it, and between two things has no order."""
    return tuple(
        (fact[0], fact[1], *sorted(fact[2:]))
        if fact[0] == "between"
        else ("on" if fact[0] == "atop" else fact[0], *fact[1:])
        for fact in found
    )


@lru_cache(maxsize=64)
def other_words(text: str) -> frozenset[str]:
    """Words of a :func:`normal` sentence that are in no phrase of the table."""
    return frozenset(_ANY.sub(" ", text).split())


def asks_for(found: Iterable[Fact], predicate: Sequence[str]) -> bool:
    """Whether the facts name a BDDL goal predicate: its relation or action, and its arguments."""
    name, *arguments = predicate
    wanted = TABLE["regions"].get(arguments[-1]) if name in ("on", "in") else None
    allowed = [TABLE["bddl"][argument] for argument in arguments]
    return any(
        fact[0] in (wanted or TABLE["predicates"][name])
        and len(fact) == len(predicate)
        and all(thing in things for thing, things in zip(fact[1:], allowed, strict=True))
        for fact in found
    )


class _Reader:
    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._subjects: list[str] = []
        self._growing = False
        self._place = ""
        self._relation: str | None = None
        self._targets: list[str] = []
        self._action: str | None = None

    def take(self, mention: Mention) -> None:
        if mention.kind == "things":
            self._thing(mention.name)
            return
        if mention.kind == "pronouns":
            if self._action:
                # What is pushed is what was in hand; what is shut is where that went, if anywhere.
                where = "" if self._action == "push" else self._place
                self._act(where or " and ".join(self._subjects))
            elif self._relation:
                self._relate(self._place)
        elif mention.kind == "relations":
            self.finish()
            self._relation = mention.name
        elif mention.kind == "places":
            self.finish()
            self._relation, target = mention.name.split("|")
            self._relate(target)
        elif mention.kind == "actions":
            self.finish()
            self._action = mention.name
        self._growing = False

    def finish(self) -> None:
        """Inside, without a word of what, is in the last place; else what is missing is nothing."""
        if self._relation:
            self._relate(self._place if self._relation == "in" else "nothing")
        if self._action:
            self._act("nothing")

    def _thing(self, name: str) -> None:
        if self._action:
            self._act(name)
        elif self._relation == "between" and not self._targets:
            self._targets = [name]
        elif self._relation:
            self._relate(name)
        else:
            self._subjects = [*self._subjects, name] if self._growing else [name]
            self._growing = True

    def _act(self, name: str) -> None:
        self.facts.append((str(self._action), name))
        if self._action == "push":
            self._subjects = [name]
        else:
            self._place = name
        self._action = None

    def _relate(self, name: str) -> None:
        targets = [*self._targets, name]
        for subject in self._subjects or ["nothing"]:
            self.facts.append((str(self._relation), subject, *targets))
        self._place = name
        self._relation, self._targets = None, []


def _expanded(phrase: str) -> list[str]:
    """All phrases that a phrase with ``{name}`` stands for."""
    found = re.search(r"\{([^}]+)\}", phrase)
    if not found:
        return [phrase]
    name = found.group(1)
    choices = TABLE["parts"].get(name) or TABLE["things"][name]
    return [
        whole for choice in choices for whole in _expanded(phrase.replace(found.group(), choice, 1))
    ]


def _alternatives(phrases: Iterable[str]) -> str:
    return "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))


_MEANS: dict[str, tuple[str, str]] = {}
for _kind, _section in TABLE.items():
    if _kind in ("parts", "words", "bddl", "predicates", "regions"):
        continue
    for _name, _phrases in _section.items():
        for _phrase in _phrases:
            for _whole in _expanded(_phrase):
                assert _whole not in _MEANS, f"{_whole!r} means two things"
                _MEANS[_whole] = (_kind, _name)

_ANY = re.compile(rf"(?<!\S)(?:{_alternatives(list(_MEANS))})(?!\S)")

_NOUNS = _alternatives(
    [phrase for phrase, (kind, _) in _MEANS.items() if kind in ("things", "pronouns")]
)
_PARTED = [
    (
        re.compile(rf"(?<!\S){first} ((?:the )?(?:{_NOUNS})) {rest}(?!\S)"),
        rf"{phrase} \1",
    )
    for phrase, (kind, _) in _MEANS.items()
    if kind == "actions" and " " in phrase
    for first, rest in [phrase.split(" ", 1)]
]
