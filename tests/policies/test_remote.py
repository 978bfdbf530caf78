"""A policy behind a server, whatever its wire: the wires here are fakes (tests/fakes)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.agreement import Row, SimulatorSide
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.settings import FIRST, PolicySettings
from pytest_vla_shift.policies.wires.protocol import Unreachable, WireError
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import (
    PrivilegedState,
)
from tests.fakes.memory_wire import Script, remote
from tests.fakes.toy_policies import Flaky, Seer
from tests.policies.remote_peers import (
    INFO,
    PROFILE,
    greeting,
    made,
    seen,
    served,
    spec_of,
)

if TYPE_CHECKING:
    pass


# Making


def test_making_one_greets_asks_once_and_declares_what_was_found() -> None:
    script = Script(greeting())
    policy = made(script)
    assert [method for method, _, _ in script.calls] == ["greet", "begin", "ask"]
    spec = policy.spec
    assert (spec.name, spec.cameras, spec.action_dim) == ("toy", ("front",), 7)
    assert (spec.chunk, spec.replan) == (4, 4)
    assert (spec.seeded, spec.seedable, spec.privileged, spec.language) == (
        False,
        False,
        False,
        True,
    )
    assert spec.revision == f"toy 1; toy server 1; profile toy {PROFILE.digest}"
    assert policy.unsupported("toy", "reach_left") is None
    assert policy.profile == PROFILE
    assert script.closed == []


def test_nobody_there_is_said_with_how_to_start_one() -> None:
    script = Script(greeting(), fails={"greet": Unreachable("connection refused")})
    with pytest.raises(UsageError) as refused:
        made(script)
    assert str(refused.value) == (
        "policy 'toy': no server answers at ws://somewhere:1: connection refused. Start one with:"
        " serve toy. Say where it listens with --vla-policy-url=ws://HOST:PORT"
    )
    assert script.closed == [1]


def test_a_server_of_another_kind_is_said_with_its_words() -> None:
    script = Script(greeting(), fails={"greet": WireError("HTTP 400 Bad Request")})
    with pytest.raises(UsageError, match="not one of its kind, or not well: HTTP 400 Bad"):
        made(script)
    assert script.closed == [1]


def test_a_server_that_does_not_agree_with_the_profile_is_refused_with_both_sides() -> None:
    rows = (Row("state", "8 numbers", "8 numbers", True), Row("horizon", "40", "16", False))
    script = Script(greeting(rows=rows))
    with pytest.raises(UsageError, match=r"and profile 'toy' do not agree") as refused:
        made(script)
    lines = str(refused.value).splitlines()
    assert lines[1].split() == ["server", "profile", "toy"]
    assert lines[2:] == [
        "  state    8 numbers                          8 numbers",
        "! horizon  40                                 16",
    ]
    assert (script.called("ask"), script.closed) == ([], [1])


@pytest.mark.parametrize("where", ["begin", "ask"])
@pytest.mark.parametrize("error", [WireError("KeyError: 'state'"), MappingError("[4, 3]")])
def test_a_server_that_cannot_answer_a_plain_observation_is_refused(
    where: str, error: Exception
) -> None:
    script = Script(greeting(), fails={where: error})
    with pytest.raises(
        UsageError, match="cannot answer a trial observation of profile 'toy': "
    ) as (refused):
        made(script)
    assert str(error) in str(refused.value)
    assert script.closed == [1]


@pytest.mark.parametrize("error", [UsageError("pip install pillow"), KeyboardInterrupt()])
def test_what_else_ends_a_trial_passes_and_nothing_stays_open(error: BaseException) -> None:
    script = Script(greeting(), fails={"ask": error})
    with pytest.raises(type(error)):
        made(script)
    assert script.closed == [1]


@pytest.mark.parametrize(
    "said, told, steps, chunk, replan",
    [
        (None, None, 4, 4, 4),
        (None, None, 2, 2, 2),  # the answer is shorter than the profile's replan
        (None, None, 16, 16, 4),  # longer than the profile's chunk: the server's answer counts
        (16, None, 4, 16, 4),  # the server says more than it answered once
        (16, 8, 4, 8, 4),  # the user knows better
        (None, 8, 8, 8, 4),
    ],
)
def test_the_chunk_is_the_users_or_the_servers_or_that_of_its_answer(
    said: int | None, told: int | None, steps: int, chunk: int, replan: int
) -> None:
    spec = spec_of(Script(greeting(chunk=said), steps=steps), chunk=told)
    assert (spec.chunk, spec.replan) == (chunk, replan)


@pytest.mark.parametrize("said, told", [(4, None), (None, 4), (16, 4)])
def test_an_answer_that_is_longer_than_declared_is_refused(
    said: int | None, told: int | None
) -> None:
    script = Script(greeting(chunk=said), steps=5)
    with pytest.raises(UsageError, match="answers 5 actions at a time, more than the 4 that it or"):
        made(script, chunk=told)
    assert script.closed == [1]


@pytest.mark.parametrize(
    "seedable, told, behind, seeded",
    [
        (False, None, None, False),
        (False, False, None, False),
        (True, None, None, False),  # a stock server with a place for a seed ignores it
        (True, True, None, True),  # unless the user knows better
        (True, None, True, True),
        (False, None, True, True),  # what is said beside the wire's format has a place for one
        (True, None, False, False),
        (True, False, True, False),
    ],
)
def test_a_seed_counts_where_the_user_or_a_server_of_ours_says_so(
    seedable: bool, told: bool | None, behind: bool | None, seeded: bool
) -> None:
    ours = None if behind is None else served(seeded=behind)
    spec = spec_of(Script(greeting(seedable=seedable, served=ours)), seeded=told)
    assert (spec.seeded, spec.seedable) == (seeded, seedable or behind is not None)


def test_a_seed_that_cannot_be_sent_cannot_be_promised() -> None:
    with pytest.raises(UsageError, match="seeded=true, but this server cannot be given a seed"):
        made(Script(greeting()), seeded=True)


def test_a_server_of_ours_says_what_its_policy_is() -> None:
    spec = spec_of(Script(greeting(served=served(cameras=()), seedable=True)))
    assert (spec.chunk, spec.replan, spec.cameras, spec.language) == (4, 2, (), False)
    assert spec.revision.endswith("; serves Expert 1")


def test_a_privileged_policy_is_not_tried_since_a_trial_has_no_truth() -> None:
    script = Script(greeting(served=served(privileged=True)))
    assert spec_of(script).privileged
    assert script.called("ask") == []


# Asking


def test_only_a_server_of_ours_is_sent_the_extension_and_only_the_cameras_it_wants() -> None:
    stock, ours = Script(greeting()), Script(greeting(served=served(cameras=())))
    for script in (stock, ours):
        policy = made(script)
        policy.reset(INFO, 5)
        policy.act(seen(8))
    assert [beside for _, beside in stock.sent] == [None, None]
    (_, (payload, beside)) = ours.sent
    assert beside is not None
    assert (beside["step"], "front" in payload) == (8, False)
    assert "front" in stock.sent[1][0]


def test_answers_come_in_the_simulators_terms() -> None:
    policy = made(Script(greeting()))
    policy.reset(INFO, 0)
    found = policy.act(seen())
    assert (found.shape, found.dtype.name) == ((4, 7), "float64")
    assert np.unique(found).tolist() == [0.02], "the second question"


def test_first_answers_have_more_time_than_others_and_greetings_have_not() -> None:
    script = Script(greeting())
    policy = made(script)
    policy.reset(INFO, 0)
    policy.act(seen())
    assert script.called("greet") == [3.0], "it compiles nothing"
    assert script.called("ask") == [3.0 * FIRST, 3.0]
    assert script.called("begin") == [3.0 * FIRST, 3.0]


# Sessions


def test_a_session_is_another_connection_made_when_its_first_rollout_begins() -> None:
    script = Script(greeting())
    policy = made(script)
    lane = policy.session()
    assert (lane.spec, script.made) == (policy.spec, 1)
    policy.reset(INFO, 0)
    lane.reset(INFO, 1)
    lane.act(seen())
    assert script.made == 2
    assert script.called("ask")[-1] == 3.0, "its server is warm already"
    lane.close()
    assert script.closed == [2]
    policy.act(seen())
    policy.close()
    policy.close()
    assert script.closed == [2, 1]


def test_a_session_that_finds_another_server_is_refused() -> None:
    script = Script(greeting())
    lane = made(script).session()
    script.greeting = greeting(server="toy server 2")
    with pytest.raises(PolicyServerError, match="another server"):
        lane.reset(INFO, 0)


# With a policy of ours behind it


class Sessions(Seer):
    """One that serves several rollouts at once."""

    def session(self) -> Sessions:
        return Sessions()


@pytest.mark.parametrize("make", [Seer, Sessions])
def test_a_policy_behind_a_host_keeps_the_contract_of_policies(make: Callable[[], Seer]) -> None:
    policy = remote(make(), PolicySettings(), PROFILE)
    check_policy(policy, seen(), INFO)
    assert hasattr(policy, "session") is (make is Sessions)


def test_a_seed_reaches_a_policy_behind_a_host() -> None:
    policy = remote(Flaky("0.5"), PolicySettings(), PROFILE)
    assert policy.spec.seeded
    truth = replace(seen(), privileged=PrivilegedState({"target_1": np.array([0.2, 0.1, 0.0])}))
    idle = []
    for seed in range(8):
        policy.reset(INFO, seed)
        idle.append(not policy.act(truth).any())
    assert idle == [float(np.random.default_rng(seed).random()) < 0.5 for seed in range(8)]
    assert len(set(idle)) == 2


def test_the_contract_has_the_servers_rows_and_those_of_the_profile() -> None:
    row = Row("chunk", "4", "4", True)
    policy = made(Script(greeting(rows=(row,))))
    side = SimulatorSide("libero", ("front",), 16, 16, 7, -1.0, 1.0)
    rows = policy.contract(side)
    assert rows[0] is row
    assert [r.item for r in rows if not r.fits] == ["simulator"]
