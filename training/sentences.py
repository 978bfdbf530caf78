"""What ``tiny`` reads in training: LIBERO's own sentences, and plain variations of them.

The variations come from the few rules here. They were written without the paraphrases of the
language axis, none of which is ever trained on.
"""

from __future__ import annotations

import random
import re

from pytest_vla_shift.protocol import catalog
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
    words = {word for opening in OPENINGS for word in opening.split()}
    for phrase, others in SYNONYMS.items():
        for text in (phrase, *others):
            words.update(text.split())
    for suite in (*SUITES, "libero_10"):
        found = catalog.find(suite)
        assert found is not None
        for task in found.tasks:
            words.update(instruction_of(task).lower().split())
    return tuple(sorted(words))


def variation(sentence: str, rng: random.Random) -> str:
    """The sentence itself half of the time, else one with words changed, added or lost."""
    if rng.random() < 0.5:
        return sentence
    for phrase, others in SYNONYMS.items():
        if rng.random() < 0.3:
            sentence = re.sub(rf"\b{phrase}\b", rng.choice(others), sentence, count=1)
    if rng.random() < 0.2:
        sentence = f"{rng.choice(OPENINGS)} {sentence}"
    if rng.random() < 0.3:
        words = [_UNKNOWN if rng.random() < 0.08 else word for word in sentence.split()]
        sentence = " ".join(
            word for word in words if word not in ("the", "it") or rng.random() < 0.7
        )
    return sentence
