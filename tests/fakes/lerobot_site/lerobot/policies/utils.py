"""As in lerobot."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def prepare_observation_for_inference(
    observation: dict[str, Any],
    device: torch.device,
    task: str | None = None,
    robot_type: str | None = None,
) -> dict[str, Any]:
    for name in observation:
        values = torch.from_numpy(observation[name]).values
        if "image" in name:
            assert values.dtype == np.uint8
            values = (values.astype(np.float32) / 255).transpose(2, 0, 1)
        observation[name] = Tensor(values[None], device.type)
    observation["task"] = task or ""
    observation["robot_type"] = robot_type or ""
    return observation
