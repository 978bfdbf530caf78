from __future__ import annotations

import numpy as np
import pytest

from pytest_vla_shift.policies import tiny_words
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import PolicyError
from pytest_vla_shift.protocol.paraphrases import paraphrases, task_suites

KNOWN = tiny_words.ids(("mug", "put", "s", "the", "2"))


def test_a_sentence_is_lower_case_letters_and_digits() -> None:
    row = tiny_words.token_ids("Put the mug's lid, the 2-litre one!", KNOWN)
    put, the, mug, s, two = (KNOWN[word] for word in ("put", "the", "mug", "s", "2"))
    assert row[:9].tolist() == [put, the, mug, s, 1, the, two, 1, 1]
    assert row.dtype == np.int64
    assert row.shape == (tiny_words.LENGTH,)
    assert set(row[9:]) == {0}
    assert min(KNOWN.values()) == 2


def test_the_order_of_words_is_kept() -> None:
    one, other = (tiny_words.token_ids(text, KNOWN) for text in ("put the mug", "the mug put"))
    assert sorted(one) == sorted(other)
    assert one.tolist() != other.tolist()


def test_a_sentence_that_is_too_long_is_refused_and_not_cut() -> None:
    fits = " ".join(["mug"] * tiny_words.LENGTH)
    assert (tiny_words.token_ids(fits, KNOWN) == KNOWN["mug"]).all()
    with pytest.raises(PolicyError, match=f"up to {tiny_words.LENGTH} words, and this one has 41"):
        tiny_words.token_ids(f"{fits} mug", KNOWN)


@pytest.mark.parametrize("sentence", ["", "  ", "?!"])
def test_a_sentence_without_a_word_is_refused(sentence: str) -> None:
    with pytest.raises(PolicyError, match="has no words"):
        tiny_words.token_ids(sentence, KNOWN)


def test_every_paraphrase_of_the_language_axis_can_be_read() -> None:
    longest = 0
    for suite in task_suites():
        known = catalog.find(suite)
        assert known is not None
        for task in known.tasks:
            for rewording in paraphrases(suite, task).rewordings:
                for sentence in rewording.sentences:
                    longest = max(longest, len(tiny_words.words(sentence)))
                    tiny_words.token_ids(sentence, KNOWN)
    assert longest == 33  # as the module says
