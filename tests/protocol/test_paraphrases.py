"""The paraphrases as data: complete, all different, nested, and read strictly."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.paraphrases import (
    paraphrases,
    parse,
    says,
    task_suites,
    words_of,
)
from pytest_vla_shift.simulators.libero_stages import instruction_of


def tasks_of(suite: str) -> tuple[str, ...]:
    found = catalog.find(suite)
    assert found is not None
    return found.tasks


SUITES = ("libero_10", "libero_goal", "libero_object", "libero_spatial")
TASKS = [(suite, task) for suite in SUITES for task in tasks_of(suite)]

ONE = """
[push_it]
instruction = "push it"
"""
ROW = """
{i}.words = ["shove"]
{i}.L1 = "shove it {name}"
{i}.structure = ["away from"]
{i}.L2 = "shove it away from {name}"
{i}.frame = ["could you"]
{i}.L3 = "could you shove it away from {name}"
"""
NAMES = ("anna", "ben", "clara", "dora", "emil", "frida", "gustav", "hanna", "ivo", "jana")
GOOD = ONE + "".join(
    ROW.format(i=i, name=name).replace('["shove"]', f'["shove", "{name}"]')
    for i, name in enumerate(NAMES)
)


def test_there_are_1200_sentences_for_the_forty_tasks() -> None:
    assert task_suites() == SUITES
    assert len(TASKS) == 40
    sentences = [
        sentence
        for suite, task in TASKS
        for rewording in paraphrases(suite, task).rewordings
        for sentence in rewording.sentences
    ]
    assert len(sentences) == 1200


@pytest.mark.parametrize("suite", SUITES)
def test_a_file_holds_the_tasks_of_its_suite_in_the_official_order(suite: str) -> None:
    folder = files("pytest_vla_shift.protocol") / "paraphrases" / "libero_ctrl"
    found = catalog.find(suite)
    assert found is not None
    assert tuple(tomllib.loads((folder / f"{suite}.toml").read_text("utf-8"))) == found.tasks
    for task in found.tasks:
        assert paraphrases(suite, task).instruction == instruction_of(task)


@pytest.mark.parametrize("suite, task", TASKS)
def test_no_two_sentences_of_a_task_are_equal_and_none_is_the_instruction(
    suite: str, task: str
) -> None:
    found = paraphrases(suite, task)
    sentences = [s for rewording in found.rewordings for s in rewording.sentences]
    assert len({words_of(s) for s in [found.instruction, *sentences]}) == 31


@pytest.mark.parametrize("suite, task", TASKS)
def test_the_levels_are_nested(suite: str, task: str) -> None:
    found = paraphrases(suite, task)
    for rewording in found.rewordings:
        first, second, third = rewording.sentences
        for pieces, before, after in (
            (rewording.words, found.instruction, (first, second, third)),
            (rewording.structure, first, (second, third)),
            (rewording.frame, second, (third,)),
        ):
            assert pieces
            for piece in pieces:
                assert not says(before, piece)
                assert all(says(sentence, piece) for sentence in after), (piece, after)


def test_the_published_sentence_is_the_one_of_object_task_2_configuration_0() -> None:
    suite = catalog.find("libero_object")
    assert suite is not None
    found = paraphrases("libero_object", suite.tasks[2])
    assert found.instruction == "pick up the salad dressing and place it in the basket"
    assert found.rewordings[0].sentences[2] == (
        "find the salad dressing, pick it up, and then place it into the basket"
    )


@pytest.mark.parametrize(
    "suite, task", [("libero_object", "pick_up_the_pear"), ("libero_90", "pick_up_the_pear")]
)
def test_a_task_without_paraphrases_is_named(suite: str, task: str) -> None:
    with pytest.raises(ValueError, match=f"'pick_up_the_pear' of '{suite}'.* libero_spatial"):
        paraphrases(suite, task)


def test_the_example_of_this_file_is_well_formed() -> None:
    assert len(parse(GOOD, "here")["push_it"].rewordings) == 10


@pytest.mark.parametrize(
    "right, wrong, message",
    [
        ("5.L2 = ", "5.L2x = ", "5].*'L2' is missing"),
        ("5.words", "5.adverbs = []\n5.words", "5].*unknown key 'adverbs'"),
        ('instruction = "push it"', "", "'instruction' is missing"),
        ("9.", "10.", r"'9' is missing"),
        ('"shove it frida"', '"shove it frida."', "without a final stop"),
        ('"shove it frida"', '"Shove it frida"', "must be lower-case"),
        ('"shove it frida"', '"shove it  frida"', "must be lower-case"),
        ('5.L2 = "shove it away', '5.L2 = "push it away', "words 'shove' is not in 'push it away"),
        ('L3 = "could you shove it away from frida', 'L3 = "could you shove it to frida', "away"),
        ('["shove", "frida"]', '["shove"]', "words does not list 'frida'"),
        ('["shove", "frida"]', '["shove", "frida", "push"]', "words 'push' is already in"),
        ('5.structure = ["away from"]', '5.structure = ["it"]', "structure 'it' is already in"),
        ('5.frame = ["could you"]', "5.frame = []", "'frame' must be a list with something"),
        ("ben", "anna", "'shove it anna' is said twice"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(right: str, wrong: str, message: str) -> None:
    assert right in GOOD
    with pytest.raises(UsageError, match=message):
        parse(GOOD.replace(right, wrong), "here")


def test_words_are_matched_whole_and_in_order() -> None:
    assert says("grab the pot, then set it down", "pot then set")
    assert not says("grab the pots, then set it down", "pot")
    assert not says("grab the pot, then set it down", "set then")
