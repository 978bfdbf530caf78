"""A policy of ours behind a wire: clients of ours and others, one and several at once."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies import extension
from pytest_vla_shift.policies.extension import ExtensionError
from pytest_vla_shift.policies.mapping import payload
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.serving.host import UNTOLD, Host, HostBusy
from pytest_vla_shift.protocol.errors import PolicyError, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Goal, Observation
from pytest_vla_shift.simulators.protocol import SimulatorSettings
from tests.fakes.noting_policies import Noting
from tests.fakes.toy_policies import Expert, NotANumber, Raises
from tests.fakes.toy_profile import toy_profile
from tests.fakes.toy_simulator import factory
from tests.policies.shipped_profiles import observation_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROFILE = toy_profile()
INFO = EpisodeInfo(Episode("toy", "reach_left", 2), "pick it up", 60, Goal((("up", "target_1"),)))


class Diary(Noting):
    """A policy that notes what it is told, and answers four actions of the number of its session.

    It draws from the global generators, and writes into whatever it is given.
    """

    def __init__(self, spec: PolicySpec, sessions: list[Diary] | None = None) -> None:
        super().__init__()
        self.spec = spec
        self.sessions: list[Diary] = [] if sessions is None else sessions
        self.sessions.append(self)
        self.number = len(self.sessions)
        self.drawn: list[float] = []
        self.closed = 0

    def act(self, observation: Observation) -> NDArray[np.float64]:
        self.seen.append(observation)
        self.drawn.append(random.random() + float(np.random.random()))
        for array in observation.images.values():
            array[...] = 0
        for vector in observation.proprio.values():
            vector[...] = 0.0
        return np.full((4, 7), self.number / 10.0)

    def close(self) -> None:
        self.closed += 1


class Several(Diary):
    def session(self) -> Several:
        return Several(self.spec, self.sessions)


SPEC = PolicySpec("diary", "1", ("front",), chunk=4, replan=2)


def sent(text: str = "go", seed: int = 0) -> dict[str, NDArray[np.generic] | str]:
    return payload(PROFILE, replace(observation_for(PROFILE, seed), instruction=text))


def test_a_client_of_ours_says_where_a_rollout_begins_and_what_no_profile_carries() -> None:
    policy = Diary(SPEC)
    visit = Host(policy, PROFILE).visit()
    visit.begin(extension.begun(INFO, 9))
    had = observation_for(PROFILE)
    visit.act(payload(PROFILE, had), extension.shown(replace(had, step=6)))
    visit.act(payload(PROFILE, had), extension.shown(replace(had, step=8)))
    assert policy.begun == [(INFO, 9)]
    assert [seen.step for seen in policy.seen] == [6, 8]


def test_what_a_policy_is_given_is_its_own() -> None:
    """It writes into everything; what came from the wire, read only, stays as it was."""
    visit = Host(Diary(SPEC), PROFILE).visit()
    message = sent()
    before = {key: value.copy() for key, value in message.items() if not isinstance(value, str)}
    beside = extension.shown(observation_for(PROFILE))
    proprio = beside["proprio"]
    assert isinstance(proprio, dict)
    for array in (*(v for v in message.values() if not isinstance(v, str)), *proprio.values()):
        array.flags.writeable = False
    visit.begin(extension.begun(INFO, 9))
    visit.act(message, beside)
    assert all(np.array_equal(message[key], value) for key, value in before.items())


def test_a_client_that_says_nothing_begins_with_its_first_observation_and_each_new_sentence() -> (
    None
):
    policy = Diary(SPEC)
    visit = Host(policy, PROFILE, seed=4).visit()
    for text in ("go", "go", "stop", "stop", "go"):
        visit.act(sent(text))
    told = EpisodeInfo(Episode("unknown", "unknown", 0), "go", UNTOLD)
    assert policy.begun == [(told, 4), (replace(told, instruction="stop"), 4), (told, 4)]
    # Two actions of each answer are executed before the next question.
    assert [seen.step for seen in policy.seen] == [0, 2, 0, 2, 0]


def test_a_client_that_says_where_rollouts_begin_begins_them_with_the_same_sentence_too() -> None:
    policy = Diary(SPEC)
    visit = Host(policy, PROFILE).visit()
    for seed in (1, 2):
        visit.begin(sentence="go", seed=seed)
        visit.act(sent("go"))
    assert [(info.instruction, seed) for info, seed in policy.begun] == [("go", 1), ("go", 2)]


def test_a_rollout_draws_the_same_whatever_runs_beside_it() -> None:
    def drawn(*, beside: bool) -> list[float]:
        policy = Several(SPEC)
        host = Host(policy, PROFILE)
        visit, other = host.visit(), host.visit()
        visit.begin(sentence="go", seed=3)
        if beside:
            other.begin(sentence="go", seed=8)
        for _ in range(3):
            visit.act(sent())
            if beside:
                other.act(sent())
                random.random()
        return policy.drawn

    assert drawn(beside=True) == drawn(beside=False)


def test_the_processes_own_random_state_is_left_alone() -> None:
    visit = Host(Diary(SPEC), PROFILE).visit()
    random.seed(0)
    expected = random.random()
    random.seed(0)
    visit.act(sent())
    assert random.random() == expected


def test_a_policy_that_keeps_state_and_offers_no_sessions_has_one_client_at_a_time() -> None:
    host = Host(Diary(SPEC), PROFILE)
    assert host.announcement()["sessions"] is False
    first = host.visit()
    with pytest.raises(HostBusy, match="serves one client at a time"):
        host.visit()
    first.close()
    first.close()
    host.visit().act(sent())
    with pytest.raises(HostBusy, match="this visit is over"):
        first.act(sent())


def test_sessions_are_kept_for_the_next_client_and_closed_with_the_host() -> None:
    policy = Several(SPEC)
    host = Host(policy, PROFILE)
    assert host.announcement()["sessions"] is True
    visits = [host.visit() for _ in range(3)]
    answers = [float(visit.act(sent())["actions"][0, 0]) for visit in visits]
    assert sorted(answers) == [0.1, 0.2, 0.3], "three sessions"
    visits[1].close()
    assert float(host.visit().act(sent())["actions"][0, 0]) == answers[1]
    host.close()
    host.close()
    assert [session.closed for session in policy.sessions] == [0, 1, 1], "the first is its maker's"


def test_a_stateless_policy_serves_everybody_itself() -> None:
    policy = Diary(replace(SPEC, stateless=True))
    host = Host(policy, PROFILE)
    assert host.announcement()["sessions"] is True
    for visit in [host.visit() for _ in range(3)]:
        visit.act(sent())
        visit.close()
    assert len(policy.seen) == 3


def test_calls_come_one_after_another() -> None:
    inside: list[int] = []
    most: list[int] = []

    class Slow(Several):
        def session(self) -> Slow:
            return Slow(self.spec, self.sessions)

        def act(self, observation: Observation) -> NDArray[np.float64]:
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.01)
            inside.pop()
            return super().act(observation)

    host = Host(Slow(SPEC), PROFILE)
    visits = [host.visit() for _ in range(4)]
    threads = [threading.Thread(target=visit.act, args=(sent(),)) for visit in visits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_only_the_cameras_that_the_policy_looks_through_are_wanted() -> None:
    host = Host(Diary(replace(SPEC, cameras=())), PROFILE)
    assert host.profile.images == ()
    message = sent()
    del message["front"]
    host.visit().act(message)


@pytest.mark.parametrize(
    "spec, message",
    [
        (replace(SPEC, cameras=("front", "wrist")), "looks through front, wrist and gives 7"),
        (replace(SPEC, action_dim=8), "gives 8 numbers an action; the profile has front and 7"),
    ],
)
def test_a_profile_that_cannot_carry_the_policy_is_refused(spec: PolicySpec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Host(Diary(spec), PROFILE)


def test_what_is_no_observation_or_no_episode_never_reaches_the_policy() -> None:
    policy = Diary(SPEC)
    visit = Host(policy, PROFILE).visit()
    with pytest.raises(MappingError, match="'front' is missing"):
        visit.act({"prompt": "go"})
    with pytest.raises(ExtensionError, match="expected a map"):
        visit.begin(b"x")
    with pytest.raises(ExtensionError, match="expected a map"):
        visit.act(sent(), [])
    assert (policy.begun, policy.seen) == ([], [])


@pytest.mark.parametrize(
    "policy, message", [(NotANumber(), "returned nan in action 1"), (Raises(), "unnorm_key")]
)
def test_a_policy_at_fault_is_said_with_its_words(policy: Expert, message: str) -> None:
    visit = Host(policy, PROFILE).visit()
    visit.begin(extension.begun(INFO, 0))
    sim = factory(SimulatorSettings("toy", 0, ("front",), 16, 16))
    sim.prepare(INFO.episode)
    seen = sim.observe(("front",), privileged=True)

    def ask_three_times() -> None:
        for _ in range(3):
            visit.act(payload(PROFILE, seen), extension.shown(seen))

    with pytest.raises(PolicyError, match=message):
        ask_three_times()
