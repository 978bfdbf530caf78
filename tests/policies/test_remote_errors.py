"""What goes wrong with a server: words, token, weights, another server. The wires are fakes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.remote import MOST_WORDS, RemotePolicy
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import FIRST, Checkpoint, PolicySettings
from pytest_vla_shift.policies.wires.protocol import Greeting, NoReply, Unreachable, WireError
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from tests.fakes.memory_wire import Script, remote
from tests.fakes.toy_policies import Expert
from tests.policies.remote_peers import (
    INFO,
    PROFILE,
    SECRET,
    TOKEN,
    broken,
    greeting,
    made,
    seen,
    served,
    spec_of,
)

if TYPE_CHECKING:
    pass


# Errors


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
