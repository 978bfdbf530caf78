"""LeRobot policies of the stand-in's checkpoints, and what their models were given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pytest_vla_shift.policies.agreement import Row, SimulatorSide
from pytest_vla_shift.policies.lerobot_policy import LeRobotPolicy
from pytest_vla_shift.policies.probe import probe_observation
from pytest_vla_shift.policies.registry import resolve
from pytest_vla_shift.policies.respecified import Respecified
from pytest_vla_shift.policies.settings import PolicySettings, read_checkpoint
from pytest_vla_shift.protocol.errors import UsageError
from pytest_vla_shift.protocol.observation import Observation

LIBERO = SimulatorSide(
    simulator="libero",
    cameras=("agentview", "robot0_eye_in_hand"),
    height=16,
    width=16,
    action_dim=7,
    action_low=-1.0,
    action_high=1.0,
)


def make(folder: Path, name: str = "lerobot", **arguments: str) -> LeRobotPolicy:
    settings = PolicySettings(checkpoint=read_checkpoint(str(folder)))
    made = resolve(name, arguments, settings=settings)
    return cast("LeRobotPolicy", cast("Respecified", made)._policy)


def refusal(folder: Path, name: str = "lerobot", **arguments: str) -> str:
    with pytest.raises(UsageError) as error:
        make(folder, name, **arguments)
    return str(error.value)


def side(policy: LeRobotPolicy, **changes: object) -> list[Row]:
    """What does not fit a suite."""
    rows = policy.contract(replace(LIBERO, **changes))  # type: ignore[arg-type]
    return [row for row in rows if not row.fits]


def seen(policy: LeRobotPolicy) -> dict[str, object]:
    """What the model was given last."""
    return cast("dict[str, object]", policy._loaded.model.seen)  # type: ignore[attr-defined]


def values(given: object) -> np.ndarray:
    return cast("np.ndarray", given.values)  # type: ignore[attr-defined]


def observation(policy: LeRobotPolicy, first: float = 0.5, step: int = 0) -> Observation:
    """One whose state begins with ``first``."""
    plain = probe_observation(policy.profile)
    proprio = {**plain.proprio, "eef_pos": np.array([first, 0.0, 1.0])}
    return replace(plain, proprio=proprio, step=step)


def answer(policy: LeRobotPolicy, first: float = 0.5) -> np.ndarray:
    return np.asarray(policy.act(observation(policy, first)))
