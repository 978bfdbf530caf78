"""As in lerobot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FeatureType(str, Enum):  # noqa: UP042 - as in lerobot
    STATE = "STATE"
    VISUAL = "VISUAL"
    ENV = "ENV"
    ACTION = "ACTION"


class NormalizationMode(str, Enum):  # noqa: UP042 - as in lerobot
    MEAN_STD = "MEAN_STD"
    IDENTITY = "IDENTITY"


@dataclass
class PolicyFeature:
    type: FeatureType
    shape: tuple[int, ...]
