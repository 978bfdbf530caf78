"""What a shifted reset may change and what it must not, from its receipts. Pure comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla_shift.protocol.conditions import Axis
from pytest_vla_shift.shifts.apply import cached_shift
from pytest_vla_shift.shifts.protocol import ActionShift, LanguageShift, Receipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla_shift.protocol.observation import Image, Observation


@dataclass(slots=True)
class View:
    """What one reset showed, before it settled and after.

    Attributes:
        fingerprint: field -> digest of the pre-shift state.
        receipts: what the shift changed.
        state, settled_state: name -> float64, all that the simulator tells without a picture.
        images, settled: camera -> picture, as a policy would be given it.
        premises: goal predicates that hold after settling.
        instruction: the sentence that a policy is given.
    """

    fingerprint: Mapping[str, str] = field(default_factory=dict)
    receipts: Sequence[Receipt] = ()
    state: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    settled_state: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)
    settled: Mapping[str, Image] = field(default_factory=dict)
    premises: frozenset[str] = frozenset()
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a shift may change, by what its receipts confess.

    Attributes:
        cameras: those whose pictures may change.
        robot: whether the robot may stand elsewhere.
        anything: a receipt is of a field that no rule here knows, so that nothing is excluded.
    """

    cameras: frozenset[str]
    robot: bool = False
    anything: bool = False


_NO_PICTURE = ("action ", "instruction")
_ROBOT = ("robot.", "controller.")
_CAMERA = re.compile(r"model\.cam_\w+\[(.+)\]")


def reach_of(receipts: Iterable[Receipt], cameras: Sequence[str]) -> Reach:
    """What receipts allow to differ from clean.

    A camera's own array: its picture. Lights and picture shifts: all pictures, no state. The robot:
    itself and all pictures, nothing else. Actions and words: nothing before the policy acts.
    """
    seen: set[str] = set()
    robot = anything = False
    for receipt in receipts:
        name = receipt.field
        camera = _CAMERA.fullmatch(name)
        if camera is not None:
            seen.add(camera[1])
        elif name.startswith(_ROBOT):
            robot = True
        elif not name.startswith((*_NO_PICTURE, "observation.rgb")) and "light" not in name:
            anything = True
        if camera is None and not name.startswith(_NO_PICTURE):
            seen.update(cameras)
    return Reach(frozenset(seen) & frozenset(cameras), robot, anything)


def picture_problems(
    images: Mapping[str, Image],
    again: Mapping[str, Image],
    cameras: Sequence[str],
    size: tuple[int, int],
) -> Iterator[str]:
    """Observation integrity: every camera, right size and type, something on it, and repeatable."""
    if set(images) != set(cameras):
        yield f"cameras {sorted(images)} instead of {sorted(cameras)}"
        return
    for camera in cameras:
        image = images[camera]
        if image.shape != (*size, 3) or image.dtype != np.uint8:
            yield f"{camera}: {image.dtype} of shape {image.shape}"
        elif int(image.min()) == int(image.max()):
            yield f"{camera}: the picture is of one colour"
        elif not np.array_equal(image, again[camera]):
            yield f"{camera}: drawn twice, it is not the same"


def state_of(observation: Observation) -> dict[str, NDArray[np.float64]]:
    """Proprioception and ground truth of an observation as one flat table."""
    found = {f"proprio.{name}": value for name, value in observation.proprio.items()}
    truth = observation.privileged
    if truth is not None:
        found |= {f"position.{name}": value for name, value in truth.positions.items()}
        found |= {f"quaternion.{name}": value for name, value in truth.quaternions.items()}
        found |= {f"joint.{name}": np.array([v]) for name, v in truth.joints.items()}
    return {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def state_problems(state: Mapping[str, NDArray[np.float64]]) -> Iterator[str]:
    """Every number that the simulator tells must be one."""
    for name, value in sorted(state.items()):
        if not np.isfinite(value).all():
            yield f"{name} is not finite"


def differing_states(
    clean: Mapping[str, NDArray[np.float64]],
    shifted: Mapping[str, NDArray[np.float64]],
    *,
    robot: bool,
) -> list[str]:
    """Names whose values differ, bit for bit; without the robot's where it may stand elsewhere."""
    return [
        name
        for name in sorted(set(clean) | set(shifted))
        if not (robot and _is_robots(name))
        and (
            name not in clean
            or name not in shifted
            or clean[name].tobytes() != shifted[name].tobytes()
        )
    ]


def _is_robots(name: str) -> bool:
    kind, _, rest = name.partition(".")
    return kind == "proprio" or rest.startswith(("robot", "gripper"))


def change_problems(clean: View, shifted: View, cameras: Sequence[str]) -> Iterator[str]:
    """The intended change, and nothing else."""
    if not shifted.receipts:
        yield "the shift left no receipt"
        return
    if all(receipt.before == receipt.after for receipt in shifted.receipts):
        yield "no receipt shows a change"
    reach = reach_of(shifted.receipts, cameras)
    if reach.anything:
        return
    differing = differing_states(clean.state, shifted.state, robot=reach.robot)
    if differing:
        yield f"before settling, {_some(differing)} differ from clean"
    elif not reach.robot:
        differing = differing_states(clean.settled_state, shifted.settled_state, robot=False)
        if differing:
            yield f"after settling, {_some(differing)} differ from clean"
    for camera in cameras:
        if camera in reach.cameras or camera not in clean.images or camera not in shifted.images:
            continue
        if not np.array_equal(clean.images[camera], shifted.images[camera]):
            yield f"the picture of {camera} changed, which the shift does not reach"


def pixel_change(
    clean: Mapping[str, Image], shifted: Mapping[str, Image], cameras: Iterable[str]
) -> dict[str, float]:
    """Camera -> mean absolute difference of all pixel values, 0 to 255."""
    return {
        camera: float(
            np.abs(clean[camera].astype(np.int16) - shifted[camera].astype(np.int16)).mean()
        )
        for camera in sorted(cameras)
        if camera in clean and camera in shifted
    }


def promises_growth(axis: Axis) -> bool:
    """Whether a higher level must change pictures more.

    True for a shift of scene or pictures without a draw whose magnitudes all move away from
    neutral, level by level: RoboCasa-Shift's illumination and blur (VI-B2). With a draw, a picture
    may come back to what it was (a camera that turns past something), and the change is reported.
    """
    shift = cached_shift(axis.shift)
    if axis.presets or isinstance(shift, ActionShift | LanguageShift):
        return False
    if shift.draw(np.random.default_rng(0)):
        return False
    for name, neutral in shift.neutral.items():
        far = [abs(level.parameters[name] - neutral) for level in axis.levels]
        if far != sorted(set(far)):
            return False
    return True


def growth_problems(changes: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Strictly more at every level, camera by camera; ``changes`` in ascending order of levels."""
    for camera in sorted({name for change in changes for name in change}):
        values = [0.0, *(change.get(camera, 0.0) for change in changes)]
        if any(later <= earlier for earlier, later in pairwise(values)):
            shown = ", ".join(f"{value:.3f}" for value in values[1:])
            yield f"{camera}: pixel change does not grow with the level: {shown}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
