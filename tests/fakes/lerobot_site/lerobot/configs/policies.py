"""Configurations, by the name of their type; types register when lerobot.policies is imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lerobot.configs.types import FeatureType, PolicyFeature

REGISTERED: set[str] = set()


class PreTrainedConfig:
    def __init__(self, **fields: Any) -> None:
        self.type = fields.pop("type")
        self.device: str | None = fields.pop("device", None)
        for key, value in fields.items():
            setattr(self, key, value)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        force_download: bool = False,
        resume_download: bool | None = None,
        proxies: dict[Any, Any] | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        **policy_kwargs: Any,
    ) -> PreTrainedConfig:
        fields = json.loads((Path(pretrained_name_or_path) / "config.json").read_text())
        if fields["type"] not in REGISTERED:
            raise ValueError(f"Policy type '{fields['type']}' is not registered.")
        for key in ("input_features", "output_features"):
            fields[key] = {
                name: PolicyFeature(FeatureType(feature["type"]), tuple(feature["shape"]))
                for name, feature in fields[key].items()
            }
        return cls(**fields)
