"""Where a policy is asked reaches what makes it, and nothing that identifies it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla_shift.policies.guard import ask
from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.settings import PolicySettings
from pytest_vla_shift.protocol.errors import UsageError
from tests.fakes.modules import importable
from tests.policies.observations import observation

SOURCE = """
import numpy as np

from pytest_vla_shift.policies.baselines import Zero


class Asks(Zero):
    def __init__(self, url, gain="1"):
        self.where = url


class Open(Zero):
    def __init__(self, **options):
        self.where = options.get("url")


class Optional(Zero):
    def __init__(self, url=None):
        self.where = url


def make(url):
    return Optional(url)


def function(observation, url):
    return np.full((1, 7), float(len(url)))


class Plain(Zero):
    pass


class Positional(Zero):
    def __init__(self, url="x", /):
        pass


class Broken(Zero):
    def __init__(self, url, missing):
        pass
"""

URL = "tcp://127.0.0.1:8000"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with importable(monkeypatch, tmp_path, "asked_at", SOURCE) as name:
        yield name


def where(policy: Policy) -> object:
    """The address that the policy behind its name was given."""
    return vars(vars(policy)["_policy"])["where"]


@pytest.mark.parametrize("attr", ["Asks", "Open", "Optional", "make"])
def test_the_url_is_given_to_what_makes_the_policy(mine: str, attr: str) -> None:
    ready: list[str] = []
    made = resolve(
        f"{mine}:{attr}", {}, settings=PolicySettings(url=URL), ready=lambda: ready.append("ready")
    )
    assert where(made) == URL
    assert ready == ["ready"]


def test_a_function_gets_it_at_every_call(mine: str) -> None:
    policy = resolve(f"{mine}:function", {}, settings=PolicySettings(url=URL))
    assert ask(policy, observation())[0, 0] == len(URL)


@pytest.mark.parametrize("attr", ["Asks", "function", "make"])
def test_the_same_policy_elsewhere_is_the_same_policy(mine: str, attr: str) -> None:
    name = f"{mine}:{attr}"
    here, there = (
        resolve(name, {}, settings=PolicySettings(url=URL)),
        resolve(name, {}, settings=PolicySettings(url="tcp://gpu1:9000")),
    )
    assert here.spec == there.spec
    assert URL not in str(here.spec)


@pytest.mark.parametrize(
    "name,args,url,message",
    [
        ("asked_at:Asks", {}, None, "say where with --vla-policy-url"),
        ("asked_at:function", {}, None, "say where with --vla-policy-url"),
        ("asked_at:Plain", {}, URL, "takes no url"),
        ("asked_at:Positional", {}, URL, "takes no url"),
        ("zero", {}, URL, "takes no url"),
        ("asked_at:Asks", {"url": "x"}, URL, "url is given twice"),
        ("asked_at:Asks", {"colour": "red"}, URL, "colour"),
        ("asked_at:Broken", {}, URL, "missing"),
        ("asked_at:nothing", {}, URL, "has no attribute"),
    ],
)
def test_what_is_wrong_is_said_before_a_server_is_waited_for(
    mine: str, name: str, args: dict[str, str], url: str | None, message: str
) -> None:
    ready: list[str] = []
    with pytest.raises(UsageError, match=message):
        resolve(name, args, settings=PolicySettings(url=url), ready=lambda: ready.append("ready"))
    assert not ready


def test_an_argument_called_url_is_still_an_argument(mine: str) -> None:
    made = resolve(f"{mine}:Asks", {"url": "x"})
    assert where(made) == "x"
