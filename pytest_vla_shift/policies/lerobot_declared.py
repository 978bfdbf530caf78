"""What a LeRobot checkpoint says of its inputs and outputs, read from its own objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pytest_vla_shift.policies.lerobot_features import ACTION, STATE, Declared

if TYPE_CHECKING:
    from pytest_vla_shift.policies.lerobot_checkpoint import Loaded, Pipeline

RESIZES = (
    "image_resize_shape",
    "image_resolution",
    "resize_images_to",
    "resize_imgs_with_padding",
    "resize_shape",
)
"""What LeRobot's configurations call the size that their policies bring pictures to."""


def declared(loaded: Loaded) -> Declared:
    """What the checkpoint's configuration and processors say of its inputs and outputs."""
    inputs = cast("Mapping[str, object]", loaded.says("input_features", {}))
    outputs = cast("Mapping[str, object]", loaded.says("output_features", {}))
    names = _names_before(loaded.before)
    images, others = {}, []
    state: int | None = None
    for key, feature in inputs.items():
        if _kind(feature) == "VISUAL":
            images[names.get(key, key)] = _height_width(_shape(feature))
        elif key == STATE:
            state = _shape(feature)[0]
        else:
            others.append(key)
    action = outputs.get(ACTION)
    return Declared(
        type=str(loaded.says("type", "")),
        images=images,
        state=state,
        others=tuple(others),
        action=None if action is None else _shape(action)[-1],
        resizes=any(loaded.says(field) for field in RESIZES),
        unscaled=(
            *_unscaled(loaded.before, lambda key, kind: kind != "ACTION" and key in inputs),
            *_unscaled(loaded.after, lambda _, kind: kind == "ACTION"),
        ),
    )


def _names_before(before: Pipeline) -> dict[str, str]:
    """The model's name of an input -> the preprocessor's, where it renames."""
    names: dict[str, str] = {}
    for step in before.steps:
        renames = cast("Mapping[str, str]", getattr(step, "rename_map", {}))
        names.update({new: old for old, new in renames.items()})
    return names


def _unscaled(pipeline: Pipeline, counts: Callable[[str, str], bool]) -> list[str]:
    """What a pipeline should normalise and has no statistics for: it would pass unchanged."""
    found = []
    for step in pipeline.steps:
        modes = {
            getattr(kind, "value", kind): str(getattr(mode, "value", mode))
            for kind, mode in cast("Mapping[object, object]", getattr(step, "norm_map", {})).items()
        }
        only: object = getattr(step, "normalize_observation_keys", None)
        has = cast("Mapping[str, object]", getattr(step, "stats", None) or {})
        for key, feature in cast("Mapping[str, object]", getattr(step, "features", {})).items():
            kind = _kind(feature)
            mode = modes.get(kind, "IDENTITY")
            skipped = "empty_camera" in key or (
                only is not None and key not in cast("set[str]", only)
            )
            if mode != "IDENTITY" and key not in has and counts(key, kind) and not skipped:
                found.append(f"{key}, {mode}")
    return found


def _kind(feature: object) -> str:
    kind: object = getattr(feature, "type", None)
    return str(getattr(kind, "value", kind))


def _shape(feature: object) -> tuple[int, ...]:
    return tuple(int(n) for n in cast("Sequence[int]", getattr(feature, "shape", ())))


def _height_width(shape: tuple[int, ...]) -> tuple[int, int] | None:
    if len(shape) != 3:
        return None
    return shape[1:] if shape[0] in (1, 3) else shape[:2]
