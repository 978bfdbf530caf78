"""As in lerobot: classes by type, processors by folder."""

from __future__ import annotations

from typing import Any

from lerobot.configs.policies import REGISTERED, PreTrainedConfig
from lerobot.policies.models import CLASSES, PreTrainedPolicy
from lerobot.policies.pipelines import Pipeline, read

REGISTERED.update(CLASSES)


def get_policy_class(name: str) -> type[PreTrainedPolicy]:
    found: type[PreTrainedPolicy] = CLASSES[name]
    return found


def make_pre_post_processors(
    policy_cfg: PreTrainedConfig,
    pretrained_path: str | None = None,
    pretrained_revision: str | None = None,
    **kwargs: Any,
) -> tuple[Pipeline, Pipeline]:
    assert pretrained_path is not None
    return (
        read(pretrained_path, "policy_preprocessor", kwargs.get("preprocessor_overrides", {})),
        read(pretrained_path, "policy_postprocessor", {}),
    )
