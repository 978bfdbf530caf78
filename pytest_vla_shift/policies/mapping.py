"""Between our observations and actions and those of a wire, as a profile says; both ways.

Pure functions. A client sends :func:`payload` and reads with :func:`actions`; a server of ours
reads with :func:`observed` and answers with :func:`reply`, their inverses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.policies.pictures import from_profile, to_profile
from pytest_vla_shift.policies.profile import MappingError
from pytest_vla_shift.policies.quantities import proprio_of, quantity
from pytest_vla_shift.policies.ranges import check_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.policies.profile import ActionMap, Profile
    from pytest_vla_shift.protocol.observation import Image, Observation, Vector

    Payload = dict[str, "NDArray[np.generic] | str"]
    """Name -> (H, W, 3) uint8, (D,) float or text: neither batch nor time, which a wire adds."""


def payload(profile: Profile, observation: Observation) -> Payload:
    """What is sent for ``observation``: pictures, vectors, the sentence, constants, in order.

    Arrays are C-contiguous and of their own memory.

    Raises:
        MappingError: the observation lacks something, or a picture has another size and the
            profile does not resize.
    """
    sent: Payload = {}
    for image in profile.images:
        if image.camera not in observation.images:
            raise MappingError(f"{image.key!r} needs camera {image.camera!r}, which is not there")
        sent[image.key] = to_profile(image, observation.images[image.camera])
    for state in profile.states:
        parts = [
            quantity(part.quantity, observation.proprio)[part.start : part.stop]
            for part in state.parts
        ]
        sent[state.key] = np.concatenate(parts).astype(state.dtype)
    sent[profile.instruction] = observation.instruction
    sent.update(profile.constants)
    return sent


def actions(profile: Profile, answer: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float64]:
    """(T, action_dim) float64: the simulator's actions in a server's ``answer``.

    Args:
        profile: how the answer is laid out.
        answer: name -> (T, W) of any real type; names that the profile does not know are ignored.

    Raises:
        MappingError: an array is missing, not real, not finite, of another shape, or has a number
            that cannot be what the profile says (:mod:`pytest_vla_shift.policies.ranges`).
    """
    length: int | None = None
    arrays: dict[str, NDArray[np.float64]] = {}
    for key, width in profile.action_widths.items():
        if key not in answer:
            raise MappingError(f"the answer has no {key!r}, only {', '.join(answer) or 'nothing'}")
        raw = answer[key]
        if raw.dtype.kind not in "fiu" or raw.ndim != 2 or raw.shape[1] != width or not len(raw):
            raise MappingError(
                f"{key!r} is {raw.dtype}{list(raw.shape)}; expected real numbers [T, {width}]"
            )
        length = len(raw) if length is None else length
        if len(raw) != length:
            raise MappingError(f"{key!r} has {len(raw)} steps, others have {length}")
        arrays[key] = raw.astype(np.float64)
        if not np.isfinite(arrays[key]).all():
            raise MappingError(f"{key!r} has a NaN or an infinity in it")
    found = np.empty((length or 0, profile.action_dim))
    for part in profile.actions:
        values = arrays[part.key][:, part.columns]
        mapped = _from_wire(part, values)
        check_range(profile.name, part, values, mapped)
        found[:, part.to] = mapped
    return found


def observed(
    profile: Profile, sent: Mapping[str, NDArray[np.generic] | str]
) -> tuple[dict[str, Image], dict[str, Vector], str]:
    """Pictures by camera, upright; proprioception as far as it is sent; the sentence.

    The inverse of :func:`payload`. A picture that was made smaller stays so.

    Raises:
        MappingError: something is missing or is not what the profile says.
    """
    images: dict[str, Image] = {}
    for image in profile.images:
        value = sent.get(image.key)
        if (
            not isinstance(value, np.ndarray)
            or value.dtype != np.uint8
            or value.ndim != 3
            or value.shape[2] != 3
        ):
            raise MappingError(f"{image.key!r} is {_shown(value)}; expected uint8 [H, W, 3]")
        images[image.camera] = from_profile(image, value.astype(np.uint8, copy=False))
    vectors: list[tuple[str, int, int, Vector]] = []
    for state in profile.states:
        value = sent.get(state.key)
        if (
            not isinstance(value, np.ndarray)
            or value.dtype.kind not in "fiu"
            or value.shape != (state.width,)
        ):
            raise MappingError(f"{state.key!r} is {_shown(value)}; expected [{state.width}]")
        at = 0
        for part in state.parts:
            stop = at + part.stop - part.start
            vectors.append((part.quantity, part.start, part.stop, value[at:stop].astype(float)))
            at = stop
    sentence = sent.get(profile.instruction)
    if not isinstance(sentence, str):
        raise MappingError(f"{profile.instruction!r} is {_shown(sentence)}; expected text")
    return images, proprio_of(vectors), sentence


def reply(profile: Profile, chunk: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Name -> (T, W) float64: what a server answers for the simulator's actions ``chunk``.

    The inverse of :func:`actions`. What leaves -1 to 1 and is thresholded there is sent at the end
    of its range.
    """
    answer = {key: np.empty((len(chunk), width)) for key, width in profile.action_widths.items()}
    for part in profile.actions:
        answer[part.key][:, part.columns] = _to_wire(part, chunk[:, part.to])
    return answer


def _from_wire(part: ActionMap, values: NDArray[np.float64]) -> NDArray[np.float64]:
    match part.transform:
        case "sign":
            return np.where(values < 0.0, -1.0, 1.0)
        case "open01":
            # As in the models' own scripts: 2 g - 1, its sign, negated. Half way is 0 (and not
            # -0, which a digest tells from it): no motion of the gripper's target.
            return np.sign(1.0 - 2.0 * values)
        case "half":
            return np.where(values < 0.5, -1.0, 1.0)
        case "identity":
            return values


def _to_wire(part: ActionMap, values: NDArray[np.float64]) -> NDArray[np.float64]:
    match part.transform:
        case "open01":
            return (1.0 - np.clip(values, -1.0, 1.0)) / 2.0
        case "half":
            return (1.0 + np.clip(values, -1.0, 1.0)) / 2.0
        case "identity" | "sign":
            return values


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "missing" if value is None else f"a {type(value).__name__}"
