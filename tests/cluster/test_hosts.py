"""What actors check for themselves, without Ray: calls go straight into the hosts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pytest_vla_shift import __version__
from pytest_vla_shift.cluster import policy_host, rollout_host
from pytest_vla_shift.cluster.actors import ActorLost, RemoteActor
from pytest_vla_shift.cluster.policy_host import PolicyHost, PolicyRecipe, plain
from pytest_vla_shift.cluster.remote_seat import RemoteSeat
from pytest_vla_shift.cluster.rollout_host import RolloutHost, RolloutRecipe
from pytest_vla_shift.cluster.surroundings import Surroundings
from pytest_vla_shift.policies.agreement import SimulatorSide
from pytest_vla_shift.policies.protocol import PolicySpec
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.conditions import CLEAN
from pytest_vla_shift.protocol.errors import PolicyError, PolicyStuck, SimulatorError, UsageError
from pytest_vla_shift.protocol.observation import Episode, EpisodeInfo, Observation
from pytest_vla_shift.protocol.suite import load_suite
from pytest_vla_shift.rollouts.attempts import SimulatorOptions
from pytest_vla_shift.rollouts.request import request
from tests.fakes.lane_policies import Sessions
from tests.fakes.ray_policies import Lingers
from tests.fakes.toy_simulator import INFO
from tests.plugin.toy_project import SUITE

TOY = "tests.fakes.toy_simulator:factory"
INFO_OF_E0 = EpisodeInfo(Episode("toy", "reach_left", 0), "reach", 60)


@dataclass
class Straight:
    """Stands where a RemoteActor does: calls a host in this process, or nobody."""

    host: object
    lost: ActorLost | None = None

    def call(self, method: str, *arguments: object, limit_s: float | None = None) -> object:
        if self.lost is not None:
            raise self.lost
        answer: Callable[..., object] = getattr(self.host, method)
        return answer(*arguments)


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_host, "_place", lambda: "here GPU 0")
    monkeypatch.setattr(rollout_host, "node", lambda: "here")


def hosted(policy: str = "tests.fakes.lane_policies:Sessions", *seats: int) -> PolicyHost:
    recipe = PolicyRecipe(
        policy, {}, PolicySettings(timeout_s=60.0), seats or (0,), Surroundings.here([])
    )
    return PolicyHost(recipe)


def seat(*actors: Straight, spec: PolicySpec, start_s: float = 0.0) -> RemoteSeat:
    return RemoteSeat(cast("list[RemoteActor]", list(actors)), 0, spec, start_s)


def spec_of(host: PolicyHost) -> PolicySpec:
    spec = host.open().spec
    assert spec is not None
    return spec


def looked() -> Observation:
    from pytest_vla_shift.simulators.protocol import SimulatorSettings
    from tests.fakes.toy_simulator import Toy

    toy = Toy(SimulatorSettings(TOY, 0, ("front",), 16, 16))
    toy.prepare(INFO_OF_E0.episode)
    return toy.observe((), privileged=True)


def test_a_policy_started_anew_refuses_a_rollout_that_it_never_saw_begin() -> None:
    actor = Straight(hosted())
    place = seat(actor, spec=spec_of(cast("PolicyHost", actor.host)))
    observation = looked()
    place.begin(INFO_OF_E0, 3)
    assert place.ask(observation).dtype == np.float64
    assert place.place == "here GPU 0"
    actor.host = hosted()
    spec_of(actor.host)
    with pytest.raises(PolicyError, match="started anew"):
        place.ask(observation)
    place.begin(INFO_OF_E0, 3)
    place.ask(observation)


def test_a_policy_that_is_lost_with_a_question_ends_the_rollout_and_not_the_next_one() -> None:
    actor = Straight(hosted())
    place = seat(actor, spec=spec_of(cast("PolicyHost", actor.host)))
    place.begin(INFO_OF_E0, 3)
    actor.lost = ActorLost("gone", back_soon=True)
    with pytest.raises(PolicyError, match="the policy's process died: gone") as raised:
        place.ask(looked())
    assert not raised.value.retry
    actor.lost = None
    place.begin(INFO_OF_E0, 3)
    place.ask(looked())


def test_a_policy_that_comes_back_as_another_one_is_refused() -> None:
    host = hosted()
    place = seat(Straight(host), spec=replace(spec_of(host), revision="before"))
    with pytest.raises(PolicyError, match="revision='before'"):
        place.begin(INFO_OF_E0, 3)


def test_others_stand_in_for_a_policy_that_is_gone_unless_they_keep_state() -> None:
    gone = Straight(None, ActorLost("gone"))
    host = hosted()
    place = seat(gone, Straight(host), spec=spec_of(host))
    place.begin(INFO_OF_E0, 3)
    place.ask(looked())
    with pytest.raises(PolicyStuck, match="gone for good"):
        seat(gone, spec=spec_of(host)).begin(INFO_OF_E0, 3)
    # One instance, whose only seat is another rollout's.
    single = hosted("tests.fakes.toy_policies:Expert", 7)
    with pytest.raises(PolicyStuck, match="gone for good"):
        seat(gone, Straight(single), spec=spec_of(single)).begin(INFO_OF_E0, 3)


def test_a_rollout_draws_the_same_while_another_one_comes_to_its_policy() -> None:
    observation, policy = looked(), "tests.fakes.ray_policies:Lingers"
    alone = hosted(policy)
    expected = alone.ask(0, alone.begin(0, INFO_OF_E0, 3).token, observation).chunk
    host = hosted(policy)
    token = host.begin(0, INFO_OF_E0, 3).token
    with ThreadPoolExecutor() as threads:
        chunk = threads.submit(lambda: host.ask(0, token, observation).chunk)
        assert Lingers.drawing.wait(60)
        # From a node whose own policy is gone: it gets a session of its own.
        assert host.begin(5, INFO_OF_E0, 4).fault is None
        found = chunk.result()
    assert found is not None
    assert expected is not None
    assert np.array_equal(found, expected)


def test_a_policy_may_write_into_what_it_is_shown() -> None:
    # Ray gives arrays that nobody may write to; a local simulator gives copies.
    host = hosted("tests.fakes.ray_policies:Scribbles")
    place = seat(Straight(host), spec=spec_of(host))
    place.begin(INFO_OF_E0, 3)
    observation = looked()
    hand = observation.proprio["eef_pos"]
    hand.flags.writeable = False
    before = hand.copy()
    place.ask(observation)
    assert np.array_equal(hand, before)


def test_a_policy_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = hosted()
    actor = Straight(host, ActorLost("away", back_soon=True))
    monkeypatch.setattr(
        "pytest_vla_shift.cluster.remote_seat.time.sleep", lambda _: setattr(actor, "lost", None)
    )
    place = seat(actor, spec=spec_of(host), start_s=60.0)
    place.begin(INFO_OF_E0, 3)
    place.ask(looked())


def test_a_policy_that_cannot_be_made_or_shared_says_so_at_once() -> None:
    assert isinstance(hosted("tests.fakes.lane_policies:Nobody").open().fault, UsageError)
    fault = hosted("tests.fakes.toy_policies:Expert", 0, 1).open().fault
    assert isinstance(fault, UsageError)
    assert "session()" in str(fault)


def test_a_policy_started_anew_before_the_first_question_is_made_again_for_it() -> None:
    assert hosted("scripted").unsupported("libero_object", "reach_left") is not None
    known = hosted()
    assert known.unsupported("toy", "reach_left") is None


def test_a_policy_that_cannot_be_made_again_is_never_one_that_fits() -> None:
    gone = hosted("tests.fakes.lane_policies:Nowhere")
    side = cast("SimulatorSide", None)  # never looked at
    assert isinstance(gone.unsupported("toy", "reach_left"), UsageError)
    assert isinstance(gone.contract(side), UsageError)


def test_a_users_own_error_crosses_as_its_base_with_kind_and_retry() -> None:
    class Odd(SimulatorError):
        kind = "odd"
        retry = True

        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} {two}")

    made = plain(Odd(1, 2))
    assert type(made) is SimulatorError
    assert (str(made), made.kind, made.retry) == ("1 2", "odd", True)
    assert SimulatorError("x").kind == "simulator"


def rollouts(version: str = __version__, args: dict[str, str] | None = None) -> RolloutHost:
    recipe = RolloutRecipe(
        SimulatorOptions(envs=0),
        (cast("RemoteActor", Straight(None, ActorLost("nobody"))),),
        0,
        Sessions().spec,
        args or {},
        0.0,
        version,
        Surroundings.here([]),
    )
    return RolloutHost(recipe)


def test_a_node_with_another_simulator_or_package_is_refused_with_both_named() -> None:
    assert rollouts().check({TOY: INFO}) == ""
    other = replace(INFO, versions={**INFO.versions, "mujoco": "3.10.0"}, recipe=99)
    problem = rollouts().check({TOY: other})
    assert "versions.mujoco None, not 3.10.0" in problem
    assert f"recipe {INFO.recipe}, not 99" in problem
    assert f"{__version__}, and pytest runs with 0.0.1" in rollouts("0.0.1").check({})
    assert "node here" in rollouts().check({"nowhere:factory": INFO})


def test_a_rollout_whose_key_would_be_another_one_here_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    suite = load_suite(tmp_path / "suite.toml")
    episode = suite.all_episodes()[0]
    wanted = request(suite, episode, CLEAN, INFO, Sessions().spec, {"noise": "1"})
    outcome = rollouts(args={"noise": "2"}).run(wanted, None, 2)
    assert isinstance(outcome.error, SimulatorError)
    assert "policy.args.noise 2, not 1" in str(outcome.error)
    assert outcome.attempts == 1
    assert outcome.place == {"node": "here"}
    # And the one that is wanted gets as far as its policy, of which there is none.
    outcome = rollouts(args={"noise": "1"}).run(wanted, None, 2)
    assert isinstance(outcome.error, PolicyStuck)
