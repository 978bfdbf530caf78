"""The sentence as ``tiny`` reads it: a row of word ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.errors import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTH = 40
"""Most words of a sentence. The longest paraphrase of LIBERO-CTRL's language axis has 33."""

NONE, UNKNOWN, FIRST = 0, 1, 2
"""Ids: no word, a word that is not in the vocabulary, the vocabulary's first."""

WORD = re.compile(r"[a-z0-9]+")


def words(sentence: str) -> list[str]:
    """Its words in lower case, of letters and digits alone: ``the mug's lid`` has four."""
    return WORD.findall(sentence.lower())


def ids(vocabulary: Sequence[str]) -> dict[str, int]:
    """Word -> id of every word of a vocabulary."""
    return {word: FIRST + place for place, word in enumerate(vocabulary)}


def token_ids(sentence: str, vocabulary: Mapping[str, int]) -> NDArray[np.int64]:
    """(LENGTH,) ids of the sentence's words in their order, filled up with :data:`NONE`.

    Args:
        sentence: the instruction.
        vocabulary: as :func:`ids` gives it.

    Raises:
        PolicyError: there is no word in it, or more than :data:`LENGTH`. The rest is never cut off:
            an outcome with half of a sentence says nothing about the whole one.
    """
    found = words(sentence)
    if not found:
        raise PolicyError(f"tiny reads an instruction, and {sentence!r} has no words")
    if len(found) > LENGTH:
        raise PolicyError(
            f"tiny reads sentences of up to {LENGTH} words, and this one has {len(found)}:"
            f" {sentence!r}"
        )
    row = np.full(LENGTH, NONE, dtype=np.int64)
    row[: len(found)] = [vocabulary.get(word, UNKNOWN) for word in found]
    return row
