"""Processors: as many steps as matter, each as lerobot's of that name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from torch import Tensor


class Rename:
    def __init__(self, rename_map: dict[str, str]) -> None:
        self.rename_map = rename_map

    def __call__(self, data: Any) -> Any:
        return {self.rename_map.get(key, key): value for key, value in data.items()}


class Device:
    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, data: Any) -> Any:
        return data


class Normalizer:
    """``(x - mean) / std`` before, its inverse behind; without statistics nothing, as lerobot's."""

    def __init__(
        self, features: dict[str, Any], norm_map: dict[str, str], stats: dict[str, Any]
    ) -> None:
        self.features = {
            key: PolicyFeature(FeatureType(f["type"]), tuple(f["shape"]))
            for key, f in features.items()
        }
        self.norm_map = {FeatureType(k): NormalizationMode(v) for k, v in norm_map.items()}
        self.stats = stats

    def scaled(self, key: str) -> tuple[Any, Any] | None:
        feature = self.features.get(key)
        if feature is None or key not in self.stats:
            return None
        if self.norm_map.get(feature.type, NormalizationMode.IDENTITY) == "IDENTITY":
            return None
        return np.asarray(self.stats[key]["mean"]), np.asarray(self.stats[key]["std"])

    def __call__(self, data: Any) -> Any:
        found = dict(data)
        for key, value in data.items():
            scale = self.scaled(key)
            if scale is not None:
                found[key] = Tensor((value.values - scale[0]) / scale[1], value.where)
        return found


class Unnormalizer(Normalizer):
    def __call__(self, data: Any) -> Any:
        scale = self.scaled("action")
        return data if scale is None else Tensor(data.values * scale[1] + scale[0], data.where)


STEPS: dict[str, Any] = {
    "rename_observations_processor": Rename,
    "device_processor": Device,
    "normalizer_processor": Normalizer,
    "unnormalizer_processor": Unnormalizer,
}


class Pipeline:
    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps
        self.resets = 0

    def __call__(self, data: Any) -> Any:
        for step in self.steps:
            data = step(data)
        return data

    def reset(self) -> None:
        self.resets += 1


def read(folder: str, name: str, overrides: dict[str, Any]) -> Pipeline:
    steps = []
    for entry in json.loads((Path(folder) / f"{name}.json").read_text())["steps"]:
        if "registry_name" in entry:
            made = STEPS[entry["registry_name"]]
        else:  # as lerobot does: whatever the file names is imported and called
            module, _, attribute = entry["class"].rpartition(".")
            made = getattr(importlib.import_module(module), attribute)
        steps.append(made(**{**entry["config"], **overrides.get(entry.get("registry_name"), {})}))
    return Pipeline(steps)
