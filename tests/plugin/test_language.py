"""A language shift through whole runs: what the policy hears, and what is recorded of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.toy_language import SENTENCES
from tests.plugin.toy_project import SUITE, ToyProject

AXIS = """
[axes.language]
shift = "tests.fakes.toy_language:Reworded"
L1 = { depth = 1.0 }
L2 = { depth = 2.0 }
"""
OWN = {task: f"pick up the target on the {task.removeprefix('reach_')}" for task in SENTENCES}
Row = Mapping[str, object]
Place = tuple[str, int]


@dataclass
class Spoken:
    """A finished run of the language axis.

    Attributes:
        rows: (task, episode) -> condition -> row.
        heard: what each rollout's policy was told, as (where, sentence).
    """

    rows: dict[Place, dict[str, Row]]
    heard: list[list[tuple[str, str]]]


def spoken(folder: Path, policy: str, *args: str) -> Spoken:
    """Run the toy suite's language axis with a policy that keeps a log."""
    project = ToyProject(folder / "project", suite=SUITE + AXIS)
    log = folder / "heard.jsonl"
    options = ("--vla-run=l", "--vla-axis=language", f"--vla-policy-arg=log={log}", *args)
    project.run(*options, policy=f"tests.fakes.toy_language:{policy}", code=0)
    rows: dict[Place, dict[str, Row]] = {}
    for row in project.rows("l"):
        place = str(row["task"]), int(str(row["episode"]))
        rows.setdefault(place, {})[str(row["condition"])] = row
    heard: list[list[tuple[str, str]]] = []
    for line in log.read_text("utf-8").splitlines():
        where, sentence = json.loads(line)
        if where == "reset":
            heard.append([])
        heard[-1].append((where, sentence))
    return Spoken(rows, heard)


@pytest.fixture(scope="module")
def listened(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    found = spoken(tmp_path_factory.mktemp("language"), "Listener")
    assert len(found.rows) == 6
    assert all(set(arms) == {"clean", "language-L1", "language-L2"} for arms in found.rows.values())
    return found


def test_the_policy_is_given_the_records_sentence_at_reset_and_in_every_observation(
    listened: Spoken,
) -> None:
    told = []
    for calls in listened.heard:
        assert [where for where, _ in calls] == ["reset"] + ["act"] * (len(calls) - 1)
        (sentence,) = {sentence for _, sentence in calls}
        told.append((sentence, len(calls) - 1))
    recorded = [
        (row["instruction"], row["decisions"])
        for arms in listened.rows.values()
        for row in arms.values()
    ]
    assert sorted(told) == sorted(recorded)
    assert min(decisions for _, decisions in told) > 5


def test_the_clean_arm_has_the_tasks_own_sentence_and_the_shifted_one_the_draws(
    listened: Spoken,
) -> None:
    for (task, _), arms in listened.rows.items():
        assert arms["clean"]["instruction"] == OWN[task]
        first, second = (str(arms[f"language-L{depth}"]["instruction"]) for depth in (1, 2))
        assert first in SENTENCES[task]
        assert second == f"{first}, {first}"


def test_the_record_says_what_was_changed_and_the_arms_are_a_pair(listened: Spoken) -> None:
    for (task, _), arms in listened.rows.items():
        clean, shifted = arms["clean"], arms["language-L2"]
        assert clean["fingerprint"] == shifted["fingerprint"]
        assert clean["receipts"] == []
        assert shifted["receipts"] == [["instruction", OWN[task], shifted["instruction"]]]
        assert isinstance(shifted["interventions"], list)
        (intervention,) = shifted["interventions"]
        assert intervention["axis"] == "language"
        assert intervention["parameters"] == {"depth": 2.0}
        assert shifted["identities"] == {}
        # The expert does not heed what it hears: nothing else was shifted.
        assert clean["actions_digest"] == shifted["actions_digest"]


def test_a_policy_without_language_is_given_the_tasks_own_sentence_and_labelled(
    tmp_path: Path,
) -> None:
    one = ("--vla-level=2", "--vla-episodes=0", "--vla-task=left")
    found = spoken(tmp_path, "Indexed", *one)
    (arms,) = found.rows.values()
    clean, shifted = arms["clean"], arms["language-L2"]
    assert {sentence for calls in found.heard for _, sentence in calls} == {OWN["reach_left"]}
    assert shifted["instruction"] == OWN["reach_left"]
    assert shifted["identities"] == {"language": "identity: the policy is given no instruction"}
    assert shifted["interventions"] == []
    assert shifted["receipts"] == []
    assert clean["fingerprint"] == shifted["fingerprint"]
    assert shifted["key"] != clean["key"]


@pytest.mark.parametrize(
    "shift, message",
    [
        (
            "tests.fakes.toy_language:Reworded",
            "no other sentence is known for 'reach_right_unsettled'",
        ),
        ("paraphrase", "no paraphrases were written for task 'reach_left' of 'toy'"),
    ],
)
def test_a_task_without_a_sentence_is_refused_before_any_rollout(
    tmp_path: Path, shift: str, message: str
) -> None:
    suite = f'{SUITE}\n[axes.language]\nshift = "{shift}"\nL1 = {{ depth = 1.0 }}\n'
    suite = suite.replace('"reach_right"]', '"reach_right_unsettled"]')
    project = ToyProject(tmp_path / "project", suite=suite)
    run = project.run("--vla-run=l", "--vla-axis=null", code=4)
    assert message in " ".join(run.out.split())
    assert project.rows("l") == project.rows("l", "started") == []
