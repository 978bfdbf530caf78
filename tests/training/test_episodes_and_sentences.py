"""How ``tiny`` is made must not touch what it is evaluated on. Runs without torch."""

from __future__ import annotations

import random

import pytest

from pytest_vla_shift.policies import tiny_words
from pytest_vla_shift.policies.scripted import TASKS
from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.paraphrases import paraphrases
from pytest_vla_shift.protocol.suite import load_suite
from training import episodes
from training.sentences import variation, vocabulary

EVERY = [(suite, task) for suite in episodes.SUITES for task in episodes.tasks(suite)]


def test_all_thirty_tasks_are_learned_and_the_expert_can_do_each() -> None:
    assert len(EVERY) == 30
    assert all(task in TASKS[suite] for suite, task in EVERY)


@pytest.mark.parametrize("protocol", ["libero_ctrl", "quickstart"])
def test_no_state_of_an_evaluation_is_trained_on(protocol: str) -> None:
    evaluated = load_suite(protocol).all_episodes()
    mine = [e for e in evaluated if (e.task_suite, e.task) in EVERY]
    assert mine
    for episode in mine:
        assert episode.index not in episodes.training(episode.task_suite, episode.task)


def test_every_task_has_ten_evaluation_states_and_thirty_or_more_of_its_own() -> None:
    for suite, task in EVERY:
        known = catalog.find(suite)
        assert known is not None
        training, evaluation = episodes.training(suite, task), episodes.evaluation(suite, task)
        assert len(evaluation) == 10
        assert len(training) >= 30
        assert set(training) <= set(range(known.initial_states)) - set(range(10))


def test_no_sentence_of_the_language_axis_is_trained_on() -> None:
    rng = random.Random(0)
    spoken: set[str] = set()
    for _, task in EVERY:
        sentence = " ".join(task.split("_"))
        spoken |= {variation(sentence, rng) for _ in range(200)}
    held_out = {
        " ".join(tiny_words.words(text))
        for suite, task in EVERY
        for rewording in paraphrases(suite, task).rewordings
        for text in rewording.sentences
    }
    assert len(held_out) > 800
    assert not {" ".join(tiny_words.words(text)) for text in spoken} & held_out


def test_the_vocabulary_holds_every_word_of_the_sentences_it_learns() -> None:
    known = set(vocabulary())
    for _, task in EVERY:
        assert set(tiny_words.words(" ".join(task.split("_")))) <= known
