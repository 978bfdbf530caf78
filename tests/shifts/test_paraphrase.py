from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.axes import frozen_axes
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.identity import digest
from pytest_vla_shift.protocol.observation import Episode
from pytest_vla_shift.protocol.paraphrases import paraphrases, task_suites
from pytest_vla_shift.shifts.apply import load_shift, shifted_instruction
from pytest_vla_shift.shifts.check import check_axis
from pytest_vla_shift.shifts.paraphrase import Paraphrase
from pytest_vla_shift.shifts.protocol import Intervention, LanguageShift

TASK = "pick_up_the_ketchup_and_place_it_in_the_basket"
KETCHUP = Episode("libero_object", TASK, 0)
INSTRUCTION = "pick up the ketchup and place it in the basket"
DRAW = {"paraphrase": 3.0}
SHIFT = Paraphrase()

SENTENCES = {1: "b334f83288933060a22e"}
"""Digest of all sentences at each revision. A changed sentence needs a new revision, and a line."""


def test_it_is_found_by_its_name_and_is_a_language_shift() -> None:
    assert isinstance(load_shift("paraphrase"), Paraphrase)
    assert isinstance(SHIFT, LanguageShift)


def test_the_sentences_are_those_of_this_revision() -> None:
    everything: dict[str, list[list[str]]] = {}
    for suite in task_suites():
        found = catalog.find(suite)
        assert found is not None
        for task in found.tasks:
            rewordings = paraphrases(suite, task).rewordings
            everything[f"{suite}/{task}"] = [list(r.sentences) for r in rewordings]
    assert len(everything) == 40
    assert digest(everything) == SENTENCES[SHIFT.revision]


def test_the_levels_of_libero_ctrl_are_the_depths() -> None:
    axis = frozen_axes("libero_ctrl")["language"]
    assert axis.shift == SHIFT.name
    assert [dict(level.parameters) for level in axis.levels] == [
        {"depth": 1.0},
        {"depth": 2.0},
        {"depth": 3.0},
    ]
    for level in axis.levels:
        SHIFT.check(level.parameters)


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_sentence_is_the_draws_at_the_levels_depth(number: int, depth: int) -> None:
    given = SHIFT.instruction(
        INSTRUCTION, {"depth": float(depth)}, {"paraphrase": float(number)}, KETCHUP
    )
    found = paraphrases("libero_object", TASK)
    assert given == found.rewordings[number].sentences[depth - 1]
    other = Episode("libero_object", TASK, 41)
    assert given == SHIFT.instruction(
        "", {"depth": float(depth)}, {"paraphrase": float(number)}, other
    )


def test_it_keeps_the_contract_of_a_language_shift_on_all_tasks() -> None:
    sentences = {}
    for suite in task_suites():
        found = catalog.find(suite)
        assert found is not None
        for task in found.tasks:
            sentences[Episode(suite, task, 0)] = paraphrases(suite, task).instruction
    levels = {f"L{depth}": {"depth": float(depth)} for depth in (1, 2, 3)}
    check_axis(SHIFT, levels, sentences=sentences)


def test_an_intervention_changes_the_sentence() -> None:
    bound = Intervention("language", "paraphrase", "L2", {"depth": 2.0}, DRAW)
    expected = paraphrases("libero_object", TASK).rewordings[3].sentences[1]
    assert shifted_instruction([bound], INSTRUCTION, KETCHUP) == expected


def test_no_depth_is_identity() -> None:
    assert SHIFT.is_identity(SHIFT.neutral, DRAW)
    assert SHIFT.instruction(INSTRUCTION, SHIFT.neutral, DRAW, KETCHUP) == INSTRUCTION
    assert not any(SHIFT.is_identity({"depth": float(depth)}, DRAW) for depth in (1, 2, 3))


@pytest.mark.parametrize(
    "level, message",
    [
        ({"depth": 4.0}, r"depth = 4.0 is outside 0.0 \.\.\. 3.0"),
        ({"depth": -1.0}, "outside"),
        ({"depth": 1.5}, "depth = 1.5 is not a whole number"),
        ({"depth": float("nan")}, "outside"),
        ({}, "depth is missing"),
        ({"depth": 1.0, "words": 2.0}, "words is unknown"),
    ],
)
def test_a_depth_that_is_none_is_refused(level: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SHIFT.check(level)
    with pytest.raises(ValueError, match=message):
        SHIFT.instruction(INSTRUCTION, level, DRAW, KETCHUP)


@pytest.mark.parametrize(
    "draw, message",
    [
        ({"paraphrase": 10.0}, "there is no paraphrase 10.0; use 0 ... 9"),
        ({"paraphrase": -1.0}, "there is no paraphrase -1.0"),
        ({"paraphrase": 0.5}, "there is no paraphrase 0.5"),
        ({}, "'paraphrase' is needed"),
    ],
)
def test_a_draw_that_names_no_paraphrase_is_refused(draw: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SHIFT.is_identity({"depth": 1.0}, draw)
    with pytest.raises(ValueError, match=message):
        SHIFT.instruction(INSTRUCTION, {"depth": 1.0}, draw, KETCHUP)


def test_an_unknown_task_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'pick_up_the_pear' of 'libero_object'"):
        SHIFT.instruction("", {"depth": 1.0}, DRAW, Episode("libero_object", "pick_up_the_pear", 0))


def test_another_sentence_than_the_paraphrased_one_is_refused() -> None:
    with pytest.raises(UsageError, match="the simulator's sentence is 'pick the ketchup"):
        SHIFT.instruction("pick the ketchup", {"depth": 1.0}, DRAW, KETCHUP)


def test_every_paraphrase_is_drawn_about_as_often() -> None:
    rng = np.random.default_rng(0)
    counts = Counter(SHIFT.draw(rng)["paraphrase"] for _ in range(5000))
    assert set(counts) == {float(number) for number in range(10)}
    # Five standard deviations of a binomial count around 500.
    assert all(abs(count - 500) < 5 * 21.2 for count in counts.values())
    same = [SHIFT.draw(np.random.default_rng(4)) for _ in range(2)]
    assert same[0] == same[1]
