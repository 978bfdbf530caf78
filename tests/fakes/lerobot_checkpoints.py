"""Checkpoints for the stand-in of lerobot, and the stand-in on ``sys.path``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "lerobot_site"

IMAGE, IMAGE2 = "observation.images.image", "observation.images.image2"

FIRST = 0.25
"""What the first number of the state is scaled with: mean 0, this standard deviation."""

MOVES = 0.125
"""The same of actions, whose mean is 0.5: small enough that no model's number leaves their range by
so much that it would be refused."""


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``lerobot`` and ``torch`` be the fakes until the test ends."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("lerobot", "torch", "huggingface_hub"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(SITE)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def forget() -> None:
    """Take the fakes out of the process; for a fixture's end."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("lerobot", "torch", "huggingface_hub"):
            del sys.modules[name]


def write_checkpoint(
    folder: Path,
    kind: str = "act",
    *,
    images: Mapping[str, tuple[int, int]] | None = None,
    state: int | None = 8,
    action: int = 7,
    inputs: Mapping[str, object] | None = None,
    renames: Mapping[str, str] | None = None,
    scaled: tuple[str, ...] = ("observation.state", "action"),
    before: tuple[object, ...] = (),
    weights: Mapping[str, float] | None = None,
    **config: object,
) -> Path:
    """What ``save_pretrained`` of a policy and its processors would have written."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {IMAGE: (16, 16), IMAGE2: (16, 16)} if images is None else images
    features: dict[str, object] = {
        key: {"type": "VISUAL", "shape": [3, *size]} for key, size in sizes.items()
    }
    if state is not None:
        features["observation.state"] = {"type": "STATE", "shape": [state]}
    features.update(inputs or {})
    output = {"action": {"type": "ACTION", "shape": [action]}}
    stats = {
        "observation.state": {"mean": [0.0] * (state or 0), "std": [FIRST] * (state or 0)},
        "action": {"mean": [0.5] * action, "std": [MOVES] * action},
    }
    normal = {
        "features": {**features, **output},
        "norm_map": {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"},
        "stats": {key: stats[key] for key in scaled if state is not None or key == "action"},
    }
    defaults = {"n_obs_steps": 1, "chunk_size": 8, "n_action_steps": 4, "device": "cuda"}
    files: dict[str, object] = {
        "config.json": {
            "type": kind,
            "input_features": features,
            "output_features": output,
            **defaults,
            **config,
        },
        "weights.json": {"gain": 1.0, "noise": 0.0, "looks": 0.0, **(weights or {})},
        "policy_preprocessor.json": {
            "steps": [
                {
                    "registry_name": "rename_observations_processor",
                    "config": {"rename_map": renames or {}},
                },
                {"registry_name": "device_processor", "config": {"device": "cuda"}},
                {"registry_name": "normalizer_processor", "config": normal},
                *before,
            ]
        },
        "policy_postprocessor.json": {
            "steps": [{"registry_name": "unnormalizer_processor", "config": normal}]
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder
