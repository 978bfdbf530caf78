"""Policies to serve on vla-eval's wire, and a server of ours around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pytest_vla_shift.policies.profile import read_profile
from pytest_vla_shift.policies.protocol import Policy, PolicySpec
from pytest_vla_shift.policies.serving.host import Host
from pytest_vla_shift.policies.serving.vla_eval import open_service
from pytest_vla_shift.protocol.observation import EpisodeInfo, Observation
from tests.fakes.noting_policies import Noting
from tests.fakes.services import answering


class Oracle(Noting):
    """Reads ground truth and nothing else; answers three actions that have all of it in them."""

    spec = PolicySpec(
        "oracle", "1", privileged=True, chunk=3, replan=2, seeded=True, language=False
    )

    def act(self, observation: Observation) -> NDArray[np.floating]:
        self.seen.append(observation)
        assert observation.privileged is not None
        x = observation.privileged.positions["ketchup_1"]
        row = np.concatenate([x, observation.proprio["eef_pos"], [0.0]])
        return np.stack([row, row / 3.0, -row]) / 7.0


class Looker(Noting):
    """Looks through both cameras; answers which observation this is, as the first number."""

    spec = PolicySpec("looker", "1", cameras=("agentview", "robot0_eye_in_hand"), chunk=4, replan=3)

    def __init__(self) -> None:
        super().__init__()
        self.fails = ""

    def reset(self, episode: EpisodeInfo, seed: int) -> None:
        super().reset(episode, seed)
        if self.fails == "reset":
            raise RuntimeError("no memory")

    def act(self, observation: Observation) -> NDArray[np.floating]:
        if self.fails == "act":
            raise ValueError("bad observation")
        self.seen.append(observation)
        rows = np.zeros((4, 7))
        rows[:, 0] = len(self.seen) / 100.0
        rows[:, 1] = np.arange(4) / 100.0
        rows[:, 6] = [-1.0, 0.5, 1.0, 0.0]
        return rows


@contextmanager
def served(
    policy: Policy, profile: str = "vla-eval-libero", token: str | None = None
) -> Iterator[str]:
    """The URL of a server of ours with ``policy`` behind it."""
    host = Host(policy, read_profile(profile))
    with answering(open_service(host, port=0, token=token)) as service:
        yield service.url
