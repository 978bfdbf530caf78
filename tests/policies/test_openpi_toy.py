"""The whole chain on the toy simulator: pytest, the wire, a server of ours, a policy behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.protocol import Policy
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.openpi import open_service
from tests.fakes.services import answering
from tests.fakes.toy_policies import Seer
from tests.fakes.toy_profile import toy_text
from tests.plugin.toy_project import ToyProject
from tests.policies.openpi_peers import Answer, double, zeros

PROFILE = toy_text(
    ('key = "front"', 'key = "observation/image"'),
    ('key = "state"', 'key = "observation/state"'),
    (
        "[[states]]",
        """[[images]]
key = "observation/wrist_image"
camera = "wrist"
orientation = "mirrored"
size = [16, 16]

[[states]]""",
    ),
)

FEW = ("--vla-episodes=0:2", "--vla-task=reach_left")


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    made = ToyProject(tmp_path / "project")
    (made.path / "toy.toml").write_text(PROFILE)
    return made


def asked(url: str, *more: str) -> list[str]:
    return [f"--vla-policy-url={url}", "--vla-policy-arg=profile=toy.toml", *FEW, *more]


@contextmanager
def serving(policy: Policy, project: ToyProject) -> Iterator[str]:
    host = Host(policy, read_profile(str(project.path / "toy.toml")))
    with answering(open_service(host, port=0)) as service:
        yield service.url


def test_outcomes_are_those_in_process(project: ToyProject) -> None:
    project.run(*FEW, "--vla-run=inside", policy="tests.fakes.toy_policies:Seer")
    with serving(Seer(), project) as url:
        project.run(*asked(url, "--vla-run=outside"), policy="openpi")
    inside, outside = project.measured("inside"), project.measured("outside")
    assert len(inside) >= 10
    assert outside == inside
    assert len({row[3] for row in inside}) == 2  # some succeed, some do not


def test_a_server_that_raises_once_costs_an_attempt_and_no_pair(project: ToyProject) -> None:
    answers: list[Answer] = [zeros(4), "Traceback\nValueError: once", zeros(4)]

    def infer(n: int, sent: object) -> Answer:
        return answers[min(n, 2)]

    with double(infer) as server:
        ended = project.run(*asked(server.url, "--vla-run=once", "-k", "e00 and L1"), policy="pi0")
    rows = project.rows("once")
    assert {row["status"] for row in rows} == {"done"}, ended.out
    assert sorted(int(str(row["attempts"])) for row in rows)[-2:] == [1, 2]
    assert {row["seed_note"] for row in rows} == {"not supported"}


def test_a_server_that_always_raises_is_no_failing_policy(project: ToyProject) -> None:
    def infer(n: int, sent: object) -> Answer:
        return zeros(4) if n == 0 else {"actions": np.full((4, 7), np.nan)}

    with double(infer) as server:
        ended = project.run(*asked(server.url, "--vla-run=always", "-k", "e00"), policy="pi0")
    assert ended.code == 1
    for row in project.rows("always"):
        assert "['policy server', " in str(row["error"])
        assert "'actions' has a NaN" in str(row["error"])
        assert (row["status"], row["success"], row["attempts"]) == ("error", None, 2)
    last = ended.out.splitlines()[-1]
    assert "error" in last
    assert "failed" not in last
