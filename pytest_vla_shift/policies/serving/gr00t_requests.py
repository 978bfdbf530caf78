"""What GR00T's clients send to a server, and what it answers, in a profile's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.wires.gr00t_codec import CodecError, Modality
from pytest_vla_shift.policies.wires.gr00t_layout import ACTION, STATE, VIDEO
from pytest_vla_shift.policies.wires.gr00t_modality import names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import Profile
    from pytest_vla_shift.policies.wires.gr00t_layout import Layout

    Seen = dict[str, NDArray[np.generic] | str]


def modality_config(profile: Profile, chunk: int, prefixed: bool) -> dict[str, object]:
    """What the server says that it wants and gives.

    Args:
        profile: of the policy.
        chunk: how many actions it gives at most.
        prefixed: whether keys have their modality before them, as N1.5's have.
    """

    def said(keys: Iterable[str], prefix: str, count: int = 1) -> Modality:
        listed = [key if prefixed else key.removeprefix(prefix) for key in keys]
        return Modality(tuple(listed), tuple(range(count)))

    return {
        "video": said((image.key for image in profile.images), VIDEO),
        "state": said((state.key for state in profile.states), STATE),
        "action": said(profile.action_widths, ACTION, chunk),
        "language": said([profile.instruction], ""),
    }


def part_of(data: object, key: str) -> Mapping[str, object]:
    """A map in a map; nothing, and nil, is an empty one.

    Raises:
        CodecError: it is something else.
    """
    if not isinstance(data, Mapping):
        raise CodecError(f"'data' is a map, not a {type(data).__name__}")
    found = data.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise CodecError(f"{key!r} is a map, not a {type(found).__name__}")
    return found


def read(observation: Mapping[str, object], profile: Profile) -> tuple[Seen, Layout]:
    """One observation since N1.6, without batch and time, and how it was laid out.

    As strict as a stock server: pictures uint8 (1, 1, H, W, 3), states float32 (1, 1, D). Only
    one observation at a time is taken.

    Raises:
        CodecError: something is missing, or of another form.
    """
    parts = [observation.get(key) for key in ("video", "state", "language")]
    layout: Layout = "flat"
    if any(isinstance(part, Mapping) for part in parts):
        layout = "nested"
        observation = {
            **_prefixed(parts[0], VIDEO),
            **_prefixed(parts[1], STATE),
            **_prefixed(parts[2], ""),
        }
    seen: Seen = {}
    for image in profile.images:
        seen[image.key] = _array(observation, image.key, 5, np.dtype(np.uint8))[0, 0]
    for state in profile.states:
        seen[state.key] = _array(observation, state.key, 3, np.dtype(np.float32))[0, 0]
    seen[profile.instruction] = _sentence(observation, profile.instruction)
    return seen, layout


def read_n15(data: object, profile: Profile) -> tuple[Seen, bool]:
    """One observation of N1.5, and whether it came as a batch (of one).

    Raises:
        CodecError: something is missing, or of another form.
    """
    if not isinstance(data, Mapping):
        raise CodecError(f"'data' is a map, not a {type(data).__name__}")
    arrays = {k: v for k, v in data.items() if isinstance(v, np.ndarray)}
    batched = all(a.ndim >= 3 for k, a in arrays.items() if str(k).startswith(STATE))
    more = int(batched)
    at = (0,) * (1 + more)
    seen: Seen = {}
    for image in profile.images:
        seen[image.key] = _array(data, image.key, 4 + more, np.dtype(np.uint8))[at]
    for state in profile.states:
        seen[state.key] = _array(data, state.key, 2 + more, None)[at]
    seen[profile.instruction] = _sentence(data, profile.instruction)
    return seen, batched


def answer(found: Mapping[str, NDArray[np.float64]], layout: Layout, *, exact: bool) -> object:
    """What is answered since N1.6: actions (1, T, W) and information.

    Args:
        found: name -> (T, W).
        layout: as it was asked.
        exact: whether float64 stays so, for a client of ours; else it becomes float32.
    """
    dtype = np.float64 if exact else np.float32
    return [
        {
            key if layout == "flat" else key.removeprefix(ACTION): value[None].astype(dtype)
            for key, value in found.items()
        },
        {},
    ]


def answer_n15(found: Mapping[str, NDArray[np.float64]], *, batched: bool) -> object:
    """What N1.5 answers: (1, T, W) to a batch, and else without any dimension that is 1."""
    arrays = {key: value[None].astype(np.float32) for key, value in found.items()}
    return arrays if batched else {key: np.squeeze(value) for key, value in arrays.items()}


def _prefixed(part: object, prefix: str) -> dict[str, object]:
    if not isinstance(part, Mapping):
        return {}
    return {prefix + str(key): value for key, value in part.items()}


def _value(observation: Mapping[str, object], key: str) -> object:
    """Under its name, or another name of the same."""
    for name in names(key):
        if name in observation:
            return observation[name]
    raise CodecError(f"{key!r} must be in observation")


def _array(
    observation: Mapping[str, object], key: str, ndim: int, dtype: np.dtype | None
) -> NDArray[np.generic]:
    """With ``ndim`` dimensions, all 1 but the last three (pictures) or the last (states)."""
    value = _value(observation, key)
    wanted = "real numbers" if dtype is None else str(dtype)
    leading = ndim - (3 if key.startswith(VIDEO) else 1)
    if (
        not isinstance(value, np.ndarray)
        or value.ndim != ndim
        or value.shape[:leading] != (1,) * leading
        or (value.dtype.kind not in "fiu" if dtype is None else value.dtype != dtype)
    ):
        has = (
            f"{value.dtype}{list(value.shape)}"
            if isinstance(value, np.ndarray)
            else f"a {type(value).__name__}"
        )
        raise CodecError(
            f"{key!r} is {has}; expected {wanted} with {ndim} dimensions, the first {leading} of"
            " them 1: one observation, of one moment"
        )
    return value


def _sentence(observation: Mapping[str, object], key: str) -> str:
    """A text, or a list of one, or a list of one list of one."""
    value = _value(observation, key)
    for _ in range(2):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
    if not isinstance(value, str):
        raise CodecError(f"{key!r} must be one sentence")
    return value
