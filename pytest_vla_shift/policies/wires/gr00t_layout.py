"""How GR00T's servers have observations and actions laid out, by version and start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_vla_shift.policies.wires.protocol import WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.mapping import Payload

Layout = Literal["flat", "nested"]
"""Of N1.6 and later: with ``--use-sim-policy-wrapper``, and without."""

VIDEO, STATE, ACTION = "video.", "state.", "action."


def flat(payload: Payload) -> dict[str, object]:
    """``video.k`` (1, 1, H, W, 3), ``state.k`` (1, 1, D), sentences a list of one."""
    return {
        key: [value] if isinstance(value, str) else value[None, None]
        for key, value in payload.items()
    }


def nested(payload: Payload) -> dict[str, dict[str, object]]:
    """The same arrays under ``video`` and ``state``, sentences a list of one list of one."""
    sent: dict[str, dict[str, object]] = {"video": {}, "state": {}, "language": {}}
    for key, value in payload.items():
        if isinstance(value, str):
            sent["language"][key] = [[value]]
        elif key.startswith(VIDEO):
            sent["video"][key.removeprefix(VIDEO)] = value[None, None]
        else:
            sent["state"][key.removeprefix(STATE)] = value[None, None]
    return sent


def unbatched(payload: Payload) -> dict[str, object]:
    """As N1.5's own evaluation sends it: ``video.k`` (1, H, W, 3), ``state.k`` (1, D)."""
    return {
        key: [value] if isinstance(value, str) else value[None] for key, value in payload.items()
    }


def wants_nested(words: str) -> bool:
    """Whether a server complains of a flat observation that it has no ``video`` in it.

    Strict servers say that it must contain a 'video' key; the others look it up, and what Python
    says of a missing key is its name in quotes.
    """
    return "'video'" in words


def actions(answer: object, widths: Mapping[str, int]) -> dict[str, NDArray[np.generic]]:
    """Name -> (T, W) as a profile has it, from what any version answers.

    N1.6 and later answer two maps, actions and information, N1.5 one. Names are ``action.k`` or
    ``k``. Arrays are (1, T, W), or of any of these without the dimensions that are 1: so N1.5
    answers what came without a batch.

    Args:
        answer: as decoded.
        widths: of the profile.

    Raises:
        WireError: it is none of these.
    """
    if isinstance(answer, list):
        if len(answer) != 2:
            raise WireError(f"answered a list of {len(answer)} instead of actions and information")
        answer = answer[0]
    if not isinstance(answer, Mapping):
        raise WireError(f"answered a {type(answer).__name__} instead of a map of actions")
    found: dict[str, NDArray[np.generic]] = {}
    for key, width in widths.items():
        name = key if key in answer else key.removeprefix(ACTION)
        if name not in answer:
            names = ", ".join(map(str, list(answer)[:20])) or "nothing"
            raise WireError(f"the answer has no {key!r}, only {names}")
        value = answer[name]
        if not isinstance(value, np.ndarray):
            kind = "nil" if value is None else f"a {type(value).__name__}"
            raise WireError(f"{key!r} is {kind}, not an array")
        found[key] = _steps(key, value, width)
    return found


def _steps(key: str, array: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """(T, ``width``)."""
    shape = array.shape
    if array.ndim == 2:
        return array
    if array.ndim == 3 and shape[0] == 1:
        return array.reshape(shape[1:])
    if array.ndim <= 1 and width == 1:
        return array.reshape(-1, 1)
    if array.ndim == 1 and shape[0] == width:
        return array.reshape(1, width)
    raise WireError(f"{key!r} is {array.dtype}{list(shape)}; expected [1, T, {width}]")
