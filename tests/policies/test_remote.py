"""A policy behind a server, whatever its wire: the wires here are fakes (tests/fakes)."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_vla_shift.policies.agreement import Row, SimulatorSide
from pytest_vla_shift.policies.check import check_policy
from pytest_vla_shift.policies.extension import Served
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.remote import MOST_WORDS, Adapter, RemotePolicy
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import FIRST, Checkpoint, PolicySettings
from pytest_vla_shift.policies.wires.protocol import Greeting, NoReply, Unreachable, WireError
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from pytest_vla_shift.protocol.observation import (
    Episode,
    EpisodeInfo,
    Observation,
    PrivilegedState,
)
from tests.fakes.memory_wire import Script, remote
from tests.fakes.toy_policies import Expert, Flaky, Seer
from tests.fakes.toy_profile import toy_profile
from tests.policies.shipped_profiles import observation_for

if TYPE_CHECKING:
    from pytest_vla_shift.policies.protocol import PolicySpec

PROFILE = toy_profile()
INFO = EpisodeInfo(Episode("toy", "reach_left", 0), "pick up the target", 60)
TOKEN = "hf_sesame"
SECRET = PolicySettings(timeout_s=3.0, token=TOKEN)


def greeting(**changes: object) -> Greeting:
    return replace(Greeting("toy server 1", PROFILE), **changes)  # type: ignore[arg-type]


def served(**changes: object) -> Served:
    plain = Served("Expert 1", ("front",), 4, 2, privileged=False, seeded=True, language=False)
    return replace(plain, **changes)  # type: ignore[arg-type]


def made(script: Script, **changes: object) -> RemotePolicy:
    adapter = Adapter(
        name="toy",
        revision="toy 1",
        url="ws://somewhere:1",
        profile=PROFILE,
        make_wire=script.wire,
        settings=PolicySettings(timeout_s=3.0),
        start="Start one with: serve toy",
    )
    return RemotePolicy(replace(adapter, **changes))  # type: ignore[arg-type]


def seen(step: int = 0) -> Observation:
    return replace(observation_for(PROFILE, step), step=step)


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


def spec_of(script: Script, **changes: object) -> PolicySpec:
    return made(script, **changes).spec


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


# Errors


def broken(error: BaseException, where: str = "ask") -> tuple[Script, RemotePolicy]:
    script = Script(greeting())
    policy = made(script)
    policy.reset(INFO, 0)
    script.fails[where] = error
    return script, policy


@pytest.mark.parametrize(
    "error, words",
    [
        (WireError("Traceback: ValueError: bad obs"), "Traceback: ValueError: bad obs"),
        (NoReply("no answer within 3 s"), "no answer within 3 s"),
        (Unreachable("connection refused"), "connection refused"),
        (KeyError("actions"), "'actions'"),  # a fault of the wire's own code
        (WireError(""), "WireError"),
    ],
)
def test_whatever_goes_wrong_is_the_servers_error_with_its_words_and_hangs_up(
    error: Exception, words: str
) -> None:
    script, policy = broken(error)
    with pytest.raises(PolicyServerError) as raised:
        policy.act(seen(12))
    assert str(raised.value) == f"policy 'toy', server ws://somewhere:1, step 12: {words}"
    assert (raised.value.kind, raised.value.retry) == ("policy server", True)
    assert raised.value.__cause__ is error
    assert script.closed == [1]


def test_an_answer_that_cannot_be_mapped_is_the_servers_error() -> None:
    script, policy = broken(MappingError("'actions' is float32[4, 3]"))
    with pytest.raises(PolicyServerError, match=r"step 0: 'actions' is float32\[4, 3\]"):
        policy.act(seen())
    assert script.closed == [1]


def test_after_an_error_nothing_is_asked_until_the_next_rollout_begins_on_a_new_connection() -> (
    None
):
    script, policy = broken(NoReply("no answer"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    asked = len(script.called("ask"))
    with pytest.raises(PolicyServerError, match="the connection was lost, and no rollout has"):
        policy.act(seen(1))
    assert len(script.called("ask")) == asked, "what may still come is the answer to another step"
    policy.reset(INFO, 1)
    policy.act(seen())
    assert [number for _, number, _ in script.calls][-3:] == [2, 2, 2]


def test_a_failing_reset_hangs_up_and_the_next_one_connects_anew() -> None:
    script, policy = broken(WireError("episode_start_failed"), "begin")
    with pytest.raises(PolicyServerError, match="reset: episode_start_failed"):
        policy.reset(INFO, 1)
    assert script.closed == [1]
    script.fails["greet"] = WireError("it is still loading")
    with pytest.raises(PolicyServerError, match="reset: it is still loading"):
        policy.reset(INFO, 1)
    policy.reset(INFO, 1)
    assert (script.made, script.closed) == (3, [1, 2])


@pytest.mark.parametrize(
    "now, message",
    [
        (greeting(server="toy server 2"), "server toy server 2, was toy server 1"),
        (greeting(chunk=8), "chunk 8, was None"),
        (greeting(profile=replace(PROFILE, replan=2)), "layout [0-9a-f]+, was [0-9a-f]+"),
        (greeting(served=served()), "policy Served.*, was None"),
    ],
)
def test_another_server_than_at_the_start_of_the_run_is_refused(
    now: Greeting, message: str
) -> None:
    script, policy = broken(WireError("1011"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    script.greeting = now
    with pytest.raises(PolicyServerError, match=f"than at the start of the run: {message}"):
        policy.reset(INFO, 0)
    assert script.closed == [1, 2]


def test_a_server_that_was_started_anew_goes_on() -> None:
    script, policy = broken(WireError("1011"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    script.greeting = greeting()  # equal, and another object
    policy.reset(INFO, 0)
    assert policy.act(seen()).shape == (4, 7)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_passes_as_it_is_and_hangs_up(error: BaseException) -> None:
    script, policy = broken(error)
    with pytest.raises(type(error)) as raised:
        policy.act(seen())
    assert raised.value is error
    assert script.closed == [1]


def test_long_words_keep_their_end_where_a_traceback_has_the_cause() -> None:
    _, policy = broken(WireError("x" * 100_000 + "ValueError: the cause"))
    with pytest.raises(PolicyServerError) as raised:
        policy.act(seen())
    assert str(raised.value).endswith("x" * 100 + "ValueError: the cause")
    assert len(str(raised.value)) < MOST_WORDS + 100


# The token


class Leaks(Script):
    """Errors tell the token: in their text, further down, or in what a function holds."""

    def __init__(self, how: str) -> None:
        super().__init__(greeting())
        self.how = how

    def raise_it(self) -> None:
        header = f"Api-Key {TOKEN}"
        if self.how == "text":
            raise WireError(f"refused: {header}")
        try:
            raise ValueError(f"refused: {header}" if self.how == "cause" else "refused: ?")
        except ValueError as error:
            raise WireError("refused: see above") from error


@pytest.mark.parametrize("how", ["text", "cause", "local"])
@pytest.mark.parametrize("when", ["greet", "begin", "act"])
def test_the_token_is_in_no_message_no_traceback_and_no_local(how: str, when: str) -> None:
    script = Leaks(how)
    policy: RemotePolicy | None = None
    if when == "act":
        policy = made(script, settings=SECRET)
        policy.reset(INFO, 0)

    def raise_when_asked() -> None:
        if script.calls[-1][0] == when or when == "act":
            script.raise_it()

    script.waits = raise_when_asked
    with pytest.raises((UsageError, PolicyServerError), match="refused: ") as raised:
        made(script, settings=SECRET) if policy is None else policy.act(seen())
    assert TOKEN not in "".join(traceback.format_exception(raised.value))
    assert TOKEN not in str(raised.getrepr(showlocals=True, style="long"))
    assert ("***" in str(raised.value)) is (how == "text")


def test_the_token_is_in_no_representation() -> None:
    policy = made(Script(greeting()), settings=SECRET)
    assert TOKEN not in repr(vars(policy))
    assert TOKEN not in repr(policy.spec)


def test_a_server_that_repeats_the_token_in_its_name_does_not_put_it_into_the_key() -> None:
    spec = spec_of(Script(greeting(server=f"server for {TOKEN}")), settings=SECRET)
    assert "server for ***" in spec.revision


# Which weights


def test_the_weights_that_a_server_of_ours_names_are_those_of_the_key() -> None:
    spec = spec_of(Script(greeting(served=served(checkpoint="night-7@sha256:0123abcd"))))
    assert (spec.checkpoint, spec.unidentified) == ("night-7@sha256:0123abcd", False)
    assert spec_of(Script(greeting(served=served(unidentified=True)))).unidentified
    assert spec_of(Script(greeting())).unidentified, "a stock server says nothing"


def test_a_served_policy_is_announced_with_its_weights() -> None:
    weights = PolicySettings(checkpoint=Checkpoint("night-7"))
    policy = Respecified.of(Expert(), name=None, source=None, settings=weights)
    found = remote(policy, PolicySettings(timeout_s=3.0), PROFILE)
    assert found.spec.checkpoint == "night-7"


def test_other_weights_after_a_restart_are_another_server() -> None:
    script = Script(greeting(served=served(checkpoint="night-7")))
    policy = made(script)
    policy.reset(INFO, 0)
    script.fails["ask"] = WireError("gone")
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    script.greeting = greeting(served=served(checkpoint="night-8"))
    with pytest.raises(PolicyServerError, match=r"night-8.*was.*night-7"):
        policy.reset(INFO, 0)


# Another server behind the same address


def test_a_new_connection_begins_with_a_trial() -> None:
    script, policy = broken(WireError("gone"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    asked = len(script.called("ask"))
    policy.reset(INFO, 0)
    assert len(script.called("ask")) == asked + 1
    assert [name for name, number, _ in script.calls if number == 2] == [
        "greet",
        "begin",
        "ask",
        "begin",
    ]


@pytest.mark.parametrize("steps", [3, 5])
def test_a_server_that_answers_another_length_after_a_restart_is_refused(steps: int) -> None:
    script, policy = broken(WireError("gone"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())
    script.steps = steps
    with pytest.raises(PolicyServerError, match=f"{steps} actions, and 4 at the trial: it is anot"):
        policy.reset(INFO, 0)


def test_a_server_that_restarts_between_two_calls_of_one_connection_is_refused() -> None:
    # OpenVLA's wire connects for every call, so that nothing breaks.
    script = Script(greeting())
    policy = made(script)
    policy.reset(INFO, 0)
    script.steps = 3
    with pytest.raises(PolicyServerError, match="3 actions, and 4 at the trial"):
        policy.act(seen())


def test_shorter_answers_pass_where_somebody_has_said_how_long_they_may_be() -> None:
    for script, chunk in ((Script(greeting()), 4), (Script(greeting(chunk=4)), None)):
        policy = made(script, chunk=chunk)
        policy.reset(INFO, 0)
        script.steps = 2
        assert len(policy.act(seen())) == 2
        script.steps = 5
        with pytest.raises(PolicyServerError, match="5 actions, and at most 4"):
            policy.act(seen())


def test_a_server_that_is_away_is_waited_for_once_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    script, policy = broken(WireError("gone"))
    with pytest.raises(PolicyServerError):
        policy.act(seen())

    def back_after(seconds: float) -> Callable[[], None]:
        until = now[0] + seconds

        def waits() -> None:
            if script.calls[-1][0] == "greet" and now[0] < until:
                raise Unreachable("connection refused")

        return waits

    script.waits = back_after(2.0)
    policy.reset(INFO, 0)
    assert script.called("ask")[-1] == 3.0 * FIRST, "it may have to compile again"
    policy.close()
    script.waits = back_after(1000.0)
    began = now[0]
    for waited in (3.0, 3.0):  # at most the time limit, and only the first time
        with pytest.raises(PolicyServerError, match="connection refused"):
            policy.reset(INFO, 0)
        assert now[0] - began == pytest.approx(waited, abs=0.01)
    now[0] += 1000.0
    policy.reset(INFO, 0)
    policy.act(seen())


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
