"""check_policy on what answers depend on: words, pictures and what was before; and on slow ones."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies import check
from pytest_vla_shift.policies.baselines import Zero
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.policies.observations import INFO, observation

if TYPE_CHECKING:
    from numpy.typing import NDArray

CAMERAS = ("agentview", "robot0_eye_in_hand")
BLIND = "another picture of 'robot0_eye_in_hand' gives the same actions here: is it read at all?"
DEAF = "another instruction gives the same actions here"


class Reads(Zero):
    """Looks at every picture and counts the letters of the sentence."""

    spec = replace(Zero.spec, cameras=CAMERAS, language=True)
    looks: tuple[str, ...] = CAMERAS
    sentence = True

    def act(self, observation: Observation) -> NDArray[np.floating]:
        found = np.zeros((1, 7))
        for camera in self.looks:
            found[0, 0] += float(observation.images[camera][0].mean()) / 1000.0
        found[0, 1] = len(observation.instruction) / 1000.0 if self.sentence else 0.0
        return found


class LooksThroughOne(Reads):
    looks = CAMERAS[:1]


class Deaf(Reads):
    sentence = False


class DeafAndSaysSo(Deaf):
    spec = replace(Reads.spec, language=False)


class ReadsInSecret(Reads):
    spec = replace(Reads.spec, language=False)


class KnowsOneSentence(Reads):
    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        if episode.instruction != INFO.instruction:
            raise ValueError("never heard of that")


class History(Reads):
    """Averages what it has seen since the rollout began."""

    spec = replace(Reads.spec, chunk=4, replan=4)

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        self._seen: deque[NDArray[np.floating]] = deque(maxlen=2)

    def act(self, observation: Observation) -> NDArray[np.floating]:
        self._seen.append(super().act(observation))
        return np.repeat(np.mean(list(self._seen), axis=0), self.spec.chunk, axis=0)


class HistoryOfEveryStep(History):
    spec = replace(Reads.spec, chunk=1, replan=1)


class Unrepeatable(Deaf):
    def act(self, observation: Observation) -> NDArray[np.floating]:
        return super().act(observation) + np.random.default_rng().uniform()


def remarks(policy: Zero) -> list[str]:
    return check.check_policy(policy, observation(), INFO)


def test_one_that_reads_what_it_asks_for_is_not_remarked_on() -> None:
    assert remarks(Reads()) == []
    assert remarks(DeafAndSaysSo()) == []


def test_a_picture_that_makes_no_difference_is_remarked_on() -> None:
    assert remarks(LooksThroughOne()) == [BLIND]


def test_an_instruction_that_makes_no_difference_is_remarked_on() -> None:
    (said,) = remarks(Deaf())
    assert said.startswith(DEAF)


def test_reading_an_instruction_in_secret_breaks_the_contract() -> None:
    with pytest.raises(AssertionError, match="language=False, yet another instruction gives other"):
        remarks(ReadsInSecret())


def test_one_that_refuses_other_sentences_is_asked_no_further() -> None:
    assert remarks(KnowsOneSentence()) == []


def test_a_history_of_which_it_is_shown_a_part_is_remarked_on() -> None:
    (said,) = remarks(History())
    assert "it is shown one step in 4" in said
    assert "say replan=1" in said


def test_a_history_of_every_step_is_not() -> None:
    assert remarks(HistoryOfEveryStep()) == []


def test_nothing_is_found_out_of_one_that_does_not_repeat_itself() -> None:
    (said,) = remarks(Unrepeatable())
    assert said.startswith("not seeded")


def test_long_decisions_are_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SLOW_S", 0.0)
    (said,) = remarks(Reads())
    assert "a decision takes 0.0 s, and with replan 8 a rollout of 280 steps" in said
