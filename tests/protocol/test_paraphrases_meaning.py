"""Every paraphrase asks for what its task asks for, and the check of it would notice if not."""

from __future__ import annotations

import importlib.util
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pytest_vla_shift.protocol import catalog
from pytest_vla_shift.protocol.paraphrases import paraphrases, says, task_suites
from tests.protocol.meaning import (
    TABLE,
    Fact,
    asks_for,
    facts,
    mentions,
    normal,
    other_words,
    plain,
)

GOALS: dict[str, dict[str, list[list[str]]]] = tomllib.loads(
    (Path(__file__).parent / "libero_goals.toml").read_text("utf-8")
)
TASKS = [(suite, task) for suite in GOALS for task in GOALS[suite]]

HOLDS_ALREADY = {"KITCHEN_SCENE8_put_both_moka_pots_on_the_stove": ["turnon", "flat_stove_1"]}
"""Part of the goal, but true when the episode begins, so that LIBERO's own sentence is silent."""

SAID_TWICE = {"libero_10": 16, "libero_goal": 0, "libero_object": 10, "libero_spatial": 0}
"""Mutations that stay unnoticed, of more than 8,000 a suite: they leave out what was said before,
as in ``lay the alphabet soup in the basket and then lay the tomato sauce in the``."""

KNOWN_WORDS = {word for words in TABLE["words"].values() for word in words}
BRINGING = set(TABLE["words"]["bring"])


@cache
def asked(suite: str, task: str) -> tuple[Fact, ...]:
    """The facts of the task's own sentence."""
    return plain(facts(normal(paraphrases(suite, task).instruction)))


def goals(suite: str, task: str) -> list[list[str]]:
    """The goal predicates that a sentence must name."""
    return [p for p in GOALS[suite][task] if p != HOLDS_ALREADY.get(task)]


def complaints(suite: str, task: str, text: str) -> list[str]:
    """What is wrong with a normal sentence for a task; nothing if it asks for the same."""
    found = facts(text)
    wrong = [f"does not name {p}" for p in goals(suite, task) if not asks_for(found, p)]
    if plain(found) != asked(suite, task):
        wrong.append(f"says {found}")
    unknown = other_words(text) - KNOWN_WORDS
    wrong += [f"has the word {word}" for word in sorted(unknown)]
    brings = any(fact[0] not in ("open", "close", "turn on") for fact in found)
    pushes = any(fact[0] == "push" for fact in found)
    if brings and not pushes and not BRINGING & other_words(text):
        wrong.append("brings nothing anywhere")
    return wrong


TOLD_ONLY = ("before you", "in order to", "so as to", "so that it can", "so that you", "is to be")
"""What tells an act as a purpose, a condition or a description where it has to be asked for."""


def sentences(suite: str, task: str) -> list[str]:
    return [s for r in paraphrases(suite, task).rewordings for s in r.sentences]


def everything() -> Iterator[tuple[str, str, str]]:
    for suite, task in TASKS:
        for sentence in sentences(suite, task):
            yield suite, task, normal(sentence)


def test_the_frozen_goals_are_those_of_all_tasks() -> None:
    assert set(GOALS) == set(task_suites())
    for suite, goal in GOALS.items():
        found = catalog.find(suite)
        assert found is not None
        assert tuple(goal) == found.tasks


@pytest.mark.skipif(importlib.util.find_spec("libero") is None, reason="LIBERO is not installed")
def test_the_frozen_goals_are_those_of_the_installed_bddl_files() -> None:
    from libero.libero import get_libero_path

    for suite, task in TASKS:
        file = Path(get_libero_path("bddl_files")) / suite / f"{task}.bddl"
        _, _, goal = file.read_text("utf-8").lower().partition("(:goal")
        assert [p.split() for p in re.findall(r"\(([^()]+)\)", goal)] == GOALS[suite][task]


@pytest.mark.parametrize("suite, task", TASKS)
def test_every_sentence_names_the_objects_and_relations_of_the_goal_and_no_others(
    suite: str, task: str
) -> None:
    wrong = {s: complaints(suite, task, normal(s)) for s in sentences(suite, task)}
    assert {sentence: why for sentence, why in wrong.items() if why} == {}


@pytest.mark.parametrize("suite, task", TASKS)
def test_the_tasks_own_sentence_names_its_goal(suite: str, task: str) -> None:
    assert complaints(suite, task, normal(paraphrases(suite, task).instruction)) == []


def test_what_the_goal_does_not_tell_is_asked_for_as_well() -> None:
    # The bowl to pick among two, and what to do on the way: in no predicate of the goal.
    beyond = {}
    for suite, task in TASKS:
        told = facts(normal(paraphrases(suite, task).instruction))
        goal = goals(suite, task)
        beyond[task] = [fact for fact in told if not any(asks_for([fact], p) for p in goal)]
    assert sum(bool(facts) for facts in beyond.values()) == 12
    assert beyond["pick_up_the_black_bowl_on_the_stove_and_place_it_on_the_plate"] == [
        ("on", "black bowl", "stove")
    ]
    assert beyond["open_the_top_drawer_and_put_the_bowl_inside"] == [("open", "top drawer")]


def test_every_act_is_asked_for_and_none_is_only_told() -> None:
    acts = [*TABLE["actions"]["open"], *TABLE["actions"]["close"], *TABLE["actions"]["turn on"]]
    brought = ["carry", *BRINGING - {"get"}]
    told = re.compile(
        rf"\b(?:{'|'.join(TOLD_ONLY)})\b"
        rf"|\b(?:once|after) you (?:{'|'.join([*acts, *brought])})\b"
        rf"|\b(?:it|them|basket|drawer|bowl|bottle|wine|pots|mug|butter|sauce|box) to"
        rf" (?:{'|'.join(BRINGING - {'get'})})\b"
    )
    assert [text for _, _, text in everything() if told.search(text)] == []
    for wrong in (
        "take the milk which is to be put inside the basket",
        "once you open the top drawer put the bowl inside",
        "grab the bowl to set it on the plate",
    ):
        assert told.search(wrong), wrong


def test_other_words_are_more_than_prepositions() -> None:
    prepositions = {w for p in TABLE["relations"].values() for phrase in p for w in phrase.split()}
    bare = [
        rewording.sentences[0]
        for suite, task in TASKS
        for rewording in paraphrases(suite, task).rewordings
        if {w for piece in rewording.words for w in piece.split()} <= prepositions | {"it"}
    ]
    assert bare == ["pick up the salad dressing and place it into the basket"]  # published L3


def test_no_word_of_the_table_is_there_for_nothing() -> None:
    whole = " | ".join(text for _, _, text in everything())
    used = {m.name for m in mentions(whole)}
    for kind in ("things", "relations", "places", "actions", "pronouns"):
        assert set(TABLE[kind]) <= used, kind
    assert {word for word in KNOWN_WORDS if not says(whole, word)} == set()


def test_a_sentence_of_another_task_is_never_taken_for_one_of_this() -> None:
    slipped = [
        (text, other)
        for suite, task, text in everything()
        for other_suite, other in TASKS
        if (other_suite, other) != (suite, task) and not complaints(other_suite, other, text)
    ]
    assert slipped == []


@cache
def things_of(suite: str) -> dict[str, str]:
    """Thing -> a phrase for it, of everything that a task suite's sentences name."""
    whole = " | ".join(text for found, _, text in everything() if found == suite)
    return {m.name: whole[m.start : m.end] for m in mentions(whole) if m.kind == "things"}


def mutations(suite: str, text: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of wrong sentences near a right one."""
    found = mentions(text)
    phrases = {
        "things": things_of(suite),
        "relations": {name: words[0] for name, words in TABLE["relations"].items()},
        "actions": {name: words[0] for name, words in TABLE["actions"].items()},
    }
    for m in found:
        for name, phrase in phrases.get(m.kind, {}).items():
            if name != m.name and {name, m.name} != {"on", "atop"}:
                yield f"another of the {m.kind}", text[: m.start] + phrase + text[m.end :]
        if m.kind in (*phrases, "places"):
            yield f"{m.kind} left out", text[: m.start] + text[m.end :].lstrip()
    things = [m for m in found if m.kind == "things"]
    for a, b in itertools.pairwise(things):
        if a.name != b.name and not says(text[: a.start], "between"):
            swapped = text[: a.start] + text[b.start : b.end] + text[a.end : b.start]
            yield "things swapped", swapped + text[a.start : a.end] + text[b.end :]
    for word in ("not", "never", "another", "kettle", "yellow", "behind", "drop", "throw"):
        yield "a word too many", f"{text} {word}"


@pytest.mark.parametrize("suite", sorted(GOALS))
def test_a_wrong_sentence_is_noticed(suite: str) -> None:
    made: Counter[str] = Counter()
    slipped: list[tuple[str, str]] = []
    for found, task, text in everything():
        for kind, wrong in mutations(suite, text) if found == suite else ():
            made[kind] += 1
            if not complaints(suite, task, wrong):
                slipped.append((kind, wrong))
    assert sum(made.values()) > 8_000
    assert {kind for kind, _ in slipped} <= {"things left out", "relations left out"}
    assert len(slipped) == SAID_TWICE[suite], slipped
