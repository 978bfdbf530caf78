"""What ``tiny`` reads in training: LIBERO's own sentences, and plain variations of them.

The variations come from the few rules here. What comes out like one of the paraphrases of the
language axis is thrown away: none of those is ever trained on.
"""

from __future__ import annotations

import functools
import random
import re

from pytest_vla_shift.policies.tiny_words import words
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.paraphrases import paraphrases, task_suites
from pytest_vla_shift.simulators.libero_stages import instruction_of
from training.episodes import SUITES

SYNONYMS: dict[str, tuple[str, ...]] = {
    "pick up": ("grab", "lift", "get", "pick"),
    "place it": ("put it", "drop it", "set it"),
    "put": ("place", "set", "move"),
    "in": ("into",),
    "on top of": ("on", "onto"),
    "turn on": ("switch on",),
    "open": ("pull open",),
    "push": ("slide", "move"),
    "next to": ("beside", "near"),
    "to the front of": ("in front of",),
}
"""Phrase -> what may stand for it."""

OPENINGS = ("please", "now", "robot")
"""What may come before."""

_UNKNOWN = "xyzzy"
"""Stands for a word that is not in the vocabulary."""


def vocabulary() -> tuple[str, ...]:
    """Every word of LIBERO's instructions, and of the variations; sorted."""
    found = {word for opening in OPENINGS for word in opening.split()}
    for phrase, others in SYNONYMS.items():
        for text in (phrase, *others):
            found.update(text.split())
    for suite in (*SUITES, "libero_10"):
        for task in _tasks(suite):
            found.update(words(instruction_of(task)))
    return tuple(sorted(found))


@functools.cache
def held_out() -> frozenset[str]:
    """The words of every paraphrase of the language axis, of any task at any level."""
    return frozenset(
        " ".join(words(sentence))
        for suite in task_suites()
        for task in _tasks(suite)
        for rewording in paraphrases(suite, task).rewordings
        for sentence in rewording.sentences
    )


def _tasks(task_suite: str) -> tuple[str, ...]:
    found = catalog.find(task_suite)
    assert found is not None
    return found.tasks


def variation(sentence: str, rng: random.Random) -> str:
    """The sentence itself half of the time, else one with words changed, added or lost."""
    if rng.random() < 0.5:
        return sentence
    other = _changed(sentence, rng)
    return sentence if " ".join(words(other)) in held_out() else other


def _changed(sentence: str, rng: random.Random) -> str:
    for phrase, others in SYNONYMS.items():
        if rng.random() < 0.3:
            sentence = re.sub(rf"\b{phrase}\b", rng.choice(others), sentence, count=1)
    if rng.random() < 0.2:
        sentence = f"{rng.choice(OPENINGS)} {sentence}"
    if rng.random() < 0.3:
        said = [_UNKNOWN if rng.random() < 0.08 else word for word in sentence.split()]
        sentence = " ".join(w for w in said if w not in ("the", "it") or rng.random() < 0.7)
    return sentence
