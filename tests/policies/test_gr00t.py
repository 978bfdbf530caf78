"""``--vla-policy=gr00t``: what it takes, and what it says when it cannot."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.gr00t import gr00t, read_url
from pytest_vla_shift.policies.probe import EPISODE, probe_observation
from pytest_vla_shift.policies.profile import find_profile, read_profile, shipped
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.policies.wires.gr00t_codec import Modality
from pytest_vla_shift.protocol.errors import PolicyServerError, UsageError
from tests.fakes.gr00t_peers import action_map, config, running, stock

PROFILE = find_profile("libero", "gr00t")


def settings(url: str, timeout_s: float = 5.0) -> PolicySettings:
    return PolicySettings(url=url, timeout_s=timeout_s)


def test_the_name_makes_a_policy_at_the_url() -> None:
    with running(stock(PROFILE)) as stub:
        policy = resolve("gr00t", {"seeded": "true"}, settings=settings(stub.url))
        with contextlib.closing(policy):
            spec = policy.spec
            policy.reset(EPISODE, 3)
            actions = policy.act(probe_observation(PROFILE))
        assert stub.asked[-2] == ("reset", {"options": {"seed": 3}})
    assert (spec.name, spec.chunk, spec.replan, spec.action_dim) == ("gr00t", 16, 8, 7)
    assert spec.cameras == ("agentview", "robot0_eye_in_hand")
    assert spec.seeded
    assert spec.seedable
    assert not spec.privileged
    assert spec.language
    expected = np.full((16, 7), 0.25)
    expected[:, 6] = 1.0  # a quarter of the way from closed to open closes
    np.testing.assert_array_equal(actions, expected)


def test_a_stock_server_is_not_seeded_and_says_that_it_could_be_told() -> None:
    with (
        running(stock(PROFILE)) as stub,
        contextlib.closing(gr00t(settings=settings(stub.url))) as policy,
    ):
        assert (policy.spec.seeded, policy.spec.seedable) == (False, True)


def test_n15_cannot_be_given_a_seed_and_is_not_said_to_take_one() -> None:
    n15 = stock(
        PROFILE,
        reset={"error": "Unknown endpoint: reset"},
        get_action={k: np.zeros((16, 1)) for k in PROFILE.action_widths},
    )
    with running(n15) as stub:
        with contextlib.closing(gr00t(settings=settings(stub.url))) as policy:
            assert (policy.spec.seeded, policy.spec.seedable) == (False, False)
        with pytest.raises(UsageError, match="cannot be given a seed"):
            gr00t(settings=settings(stub.url), seeded="true")


def test_a_server_that_wants_something_else_is_refused_side_by_side() -> None:
    other = config(PROFILE, video=Modality(("front", "wrist_image"), (0,)))
    with (
        running(stock(PROFILE, get_modality_config=other)) as stub,
        pytest.raises(UsageError) as caught,
    ):
        gr00t(settings=settings(stub.url))
    text = str(caught.value)
    assert "do not agree" in text
    assert "! images" in text
    assert "video.front" in text
    assert "video.image" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_a_server_that_cannot_answer_is_refused_before_the_first_episode() -> None:
    words = "Video key 'image' must be a numpy array of type np.uint8. Got float32"
    with (
        running(stock(PROFILE, get_action={"error": words})) as stub,
        pytest.raises(UsageError, match="cannot answer a trial observation") as caught,
    ):
        gr00t(settings=settings(stub.url))
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_actions_that_are_no_numbers_are_refused(value: float) -> None:
    behaviour = stock(PROFILE, get_action=[action_map(PROFILE, value=value), {}])
    with running(behaviour) as stub, pytest.raises(UsageError, match="NaN or an infinity"):
        gr00t(settings=settings(stub.url))


def test_more_actions_than_it_said_are_refused() -> None:
    behaviour = stock(PROFILE, get_action=[action_map(PROFILE, chunk=40), {}])
    with running(behaviour) as stub:
        with pytest.raises(UsageError, match="40 actions at a time, more than the 16"):
            gr00t(settings=settings(stub.url))
        with contextlib.closing(gr00t(settings=settings(stub.url), chunk="40")) as policy:
            assert policy.spec.chunk == 40


def test_a_lost_server_is_an_infrastructure_error_until_it_is_back() -> None:
    with running(stock(PROFILE)) as stub:
        policy = gr00t(settings=settings(stub.url, timeout_s=0.3))
        policy.reset(EPISODE, 1)
    with contextlib.closing(policy):
        observation = probe_observation(PROFILE)
        with pytest.raises(PolicyServerError, match="connection was closed") as caught:
            policy.act(observation)
        assert caught.value.retry
        with pytest.raises(PolicyServerError, match="refused"):
            policy.reset(EPISODE, 1)
        with running(stock(PROFILE), stub.port):
            policy.reset(EPISODE, 1)
            assert policy.act(observation).shape == (16, 7)
        smaller = stock(
            PROFILE,
            get_modality_config=config(
                PROFILE, action=Modality(tuple(PROFILE.action_widths), (0, 1))
            ),
        )
        with pytest.raises(PolicyServerError, match="closed"):
            policy.act(observation)
        with running(smaller, stub.port), pytest.raises(PolicyServerError, match="another server"):
            policy.reset(EPISODE, 1)


def test_a_session_is_a_connection_of_its_own() -> None:
    with (
        running(stock(PROFILE)) as stub,
        contextlib.closing(gr00t(settings=settings(stub.url))) as policy,
    ):
        stub.asked.clear()
        with contextlib.closing(policy.session()) as other:
            assert stub.asked == []
            other.reset(EPISODE, 9)
            other.act(probe_observation(PROFILE))
            assert other.spec == policy.spec
        assert ("reset", {"options": {"seed": 9}}) in stub.asked


@pytest.mark.parametrize(
    "given, words",
    [
        ({"api": "n2"}, "api: 'n2' is none of auto, n1.5, n1.6, n1.7"),
        ({"layout": "deep"}, "layout: 'deep' is none of auto, flat, nested"),
        ({"arrays": "json"}, "arrays: 'json' is none of auto, npy, msgpack-numpy"),
        ({"profile": "aloha"}, "unknown profile 'aloha'"),
        ({"chunk": "none"}, "chunk"),
        ({"seeded": "maybe"}, "seeded"),
    ],
)
def test_an_argument_that_cannot_be_is_told_before_anything_is_sent(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        gr00t(settings=settings("tcp://127.0.0.1:1"), **given)


@pytest.mark.parametrize(
    "url, expected",
    [
        ("tcp://127.0.0.1:5555", ("127.0.0.1", 5555)),
        ("tcp://gpu-box", ("gpu-box", 5555)),
        ("tcp://[::1]:7000/", ("::1", 7000)),
        ("http://127.0.0.1:5555", None),
        ("127.0.0.1:5555", None),
        ("tcp://:5555", None),
        ("tcp://host:port", None),
        ("tcp://host:99999", None),
        ("tcp://host:5555/path", None),
    ],
)
def test_a_url_is_a_host_and_perhaps_a_port(url: str, expected: tuple[str, int] | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match=r"is not like tcp://HOST:5555"):
            read_url(url, 5555)
    else:
        assert read_url(url, 5555) == expected


def test_nobody_at_the_usual_place_is_told_how_to_start_one() -> None:
    with pytest.raises(UsageError, match=r"no server answers at .*refused.*run_gr00t_server"):
        gr00t(settings=settings("tcp://127.0.0.1:1"))


@pytest.mark.parametrize("package", ["zmq", "msgpack"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == package or "wires.gr00t" in n]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{package}.*pytest-vla-shift\[groot\]"):
        gr00t(settings=settings("tcp://127.0.0.1:1"))


def test_keys_without_their_modality_are_refused(tmp_path: Path) -> None:
    from pytest_vla_shift.policies import profile

    text = (Path(profile.__file__).parent / "profiles" / "gr00t-libero.toml").read_text("utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('"state.x"', '"x"'), "utf-8")
    with pytest.raises(UsageError, match=r"'x' must begin with 'state.'"):
        gr00t(settings=settings("tcp://127.0.0.1:1"), profile=str(mine))


def test_every_shipped_profile_has_such_keys() -> None:
    for name in shipped("gr00t"):
        with pytest.raises(UsageError, match="no server answers"):
            gr00t(settings=settings("tcp://127.0.0.1:1"), profile=name)


def test_n15s_own_evaluation_on_libero_differs_in_this_and_nothing_else() -> None:
    older, newer = read_profile("gr00t-libero-n15"), read_profile("gr00t-libero")
    assert (older.replan, newer.replan) == (1, 8)
    assert {state.dtype for state in older.states} == {"float64"}
    assert {state.dtype for state in newer.states} == {"float32"}
    assert older.images == newer.images
    assert older.actions == newer.actions
    assert [s.parts for s in older.states] == [s.parts for s in newer.states]
